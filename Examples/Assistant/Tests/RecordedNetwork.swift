import Foundation
import Sanguine
import SanguineTesting

extension URLSessionTransport {
    /// The real network, where no request is given up because the machine is busy.
    static var patient: URLSessionTransport { URLSessionTransport(clock: ManualClock()) }
}

/// The real network of one device, with what the device asked; it can hold requests back.
final class RecordedNetwork: StreamingTransport, UploadingTransport {
    private struct State {
        var requests: [TransportRequest] = []
        /// The path whose requests are not answered, and what measures their time.
        var holding: (path: String, clock: any Clock<Duration>)?
        var watch: (@Sendable (TransportRequest) -> Void)?
    }

    private let base = URLSessionTransport.patient
    private let state = WatchedState(State())

    /// All requests, in the order in which they were sent.
    var requests: [TransportRequest] { state.withLock { $0.requests } }

    /// How many of them were about the balance.
    var balanceRequests: Int { count(of: "/v1/balance") }

    /// How many of them went to a path.
    func count(of path: String) -> Int { requests.count { $0.url.path() == path } }

    /// Leaves requests to a path without an answer: each ends when its time is up.
    func hold(_ path: String, on clock: any Clock<Duration>) {
        state.withLock { $0.holding = (path, clock) }
    }

    /// Has each request told of before it leaves.
    func watch(_ body: @escaping @Sendable (TransportRequest) -> Void) {
        state.withLock { $0.watch = body }
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        try await note(request)
        return try await base.send(request)
    }

    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await note(request)
        return try await base.upload(request, progress: progress)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await note(request)
        return try await base.stream(request)
    }

    private func note(_ request: TransportRequest) async throws(TransportError) {
        let (watch, holding) = state.withLock { state in
            state.requests.append(request)
            let isHeld = request.url.path() == state.holding?.path
            return (state.watch, isHeld ? state.holding?.clock : nil)
        }
        watch?(request)
        guard let holding else { return }
        guard (try? await holding.sleep(for: request.timeout)) != nil else { throw .cancelled }
        throw .timedOut
    }
}
