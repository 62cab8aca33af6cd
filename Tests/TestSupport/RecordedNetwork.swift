package import Foundation
package import Sanguine
import SanguineTesting

/// The real network of one device, which records its traffic, and can lose or delay a part of it.
package final class RecordedNetwork: StreamingTransport, UploadingTransport {
    /// The part of an exchange that is lost.
    package enum Loss: Sendable {
        case request
        /// The server receives the request.
        case response
    }

    /// What was sent and received.
    package struct Traffic: Sendable {
        /// The requests, in the order of sending.
        package fileprivate(set) var sent: [TransportRequest] = []
        /// The bodies of the responses, except those of streams.
        package fileprivate(set) var received: [Data] = []

        /// The method and path of each request, in the order of sending.
        package var requests: [String] { sent.map(\.line) }
    }

    private struct State {
        var traffic = Traffic()
        var loss: (path: String, part: Loss)?
        /// The path whose requests are left unanswered, and the clock of their timeouts.
        var holding: (path: String, clock: any Clock<Duration>)?
        var watch: (@Sendable (TransportRequest) -> Void)?
        var isOnline = true
        var hasStreamed = false
        var inFlight = 0
    }

    private let base = URLSessionTransport.patient
    private let state = WatchedState(State())

    package init() {}

    /// All requests, in the order of sending.
    package var requests: [TransportRequest] { state.withLock { $0.traffic.sent } }

    /// Whether the server has begun to answer a request for a stream, such as the live feed.
    package var hasStreamed: Bool { state.withLock { $0.hasStreamed } }

    /// The number of requests, except for streams, that the server has not answered yet.
    package var inFlight: Int { state.withLock { $0.inFlight } }

    /// Returns the number of requests to a path.
    package func count(of path: String) -> Int { requests.count { $0.url.path() == path } }

    /// Returns the traffic since the last call or the start.
    package func take() -> Traffic {
        state.withLock { state in
            defer { state.traffic = Traffic() }
            return state.traffic
        }
    }

    /// Loses requests or responses of a path until this is called with `nil`.
    package func lose(_ part: Loss?, of path: String = "") {
        state.withLock { $0.loss = part.map { (path, $0) } }
    }

    /// Leaves requests to a path unanswered until they time out.
    package func hold(_ path: String, on clock: any Clock<Duration>) {
        state.withLock { $0.holding = (path, clock) }
    }

    /// Calls the closure before each request is sent.
    package func watch(_ body: @escaping @Sendable (TransportRequest) -> Void) {
        state.withLock { $0.watch = body }
    }

    /// Refuses all requests until the network is connected again.
    package func disconnect() { state.withLock { $0.isOnline = false } }

    package func connect() { state.withLock { $0.isOnline = true } }

    // MARK: - Transport

    package func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        try await exchange(request) { base throws(TransportError) in
            try await base.send(request)
        }
    }

    package func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await exchange(request) { base throws(TransportError) in
            try await base.upload(request, progress: progress)
        }
    }

    package func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        let loss = try await record(request)
        let stream = try await base.stream(request)
        if loss == .response { throw .interrupted("the response was lost") }
        state.withLock { $0.hasStreamed = true }
        return stream
    }

    private func exchange(
        _ request: TransportRequest,
        _ send: (URLSessionTransport) async throws(TransportError) -> TransportResponse
    ) async throws(TransportError) -> TransportResponse {
        let loss = try await record(request)
        state.withLock { $0.inFlight += 1 }
        defer { state.withLock { $0.inFlight -= 1 } }
        let response = try await send(base)
        if loss == .response { throw .interrupted("the response was lost") }
        state.withLock { $0.traffic.received.append(response.body) }
        return response
    }

    /// Records the request, and throws if it does not reach the server.
    private func record(_ request: TransportRequest) async throws(TransportError) -> Loss? {
        let path = request.url.path()
        let now = state.withLock { state in
            state.traffic.sent.append(request)
            return state
        }
        now.watch?(request)
        guard now.isOnline else { throw .offline("the device is offline") }
        if let holding = now.holding, holding.path == path {
            guard (try? await holding.clock.sleep(for: request.timeout)) != nil else {
                throw .cancelled
            }
            throw .timedOut
        }
        guard let loss = now.loss, loss.path == path else { return nil }
        if loss.part == .request { throw .interrupted("the request was lost") }
        return loss.part
    }
}

extension URLSessionTransport {
    /// The real network, with a clock that never ends a request because the machine is busy.
    package static var patient: URLSessionTransport { URLSessionTransport(clock: ManualClock()) }
}

extension TransportRequest {
    /// The method and the path.
    package var line: String { "\(method) \(url.path())" }
}
