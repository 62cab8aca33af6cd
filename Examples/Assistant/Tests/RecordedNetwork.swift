import Foundation
import Sanguine
import SanguineTesting

extension URLSessionTransport {
    /// The real network, with a clock that never ends a request because the machine is busy.
    static var patient: URLSessionTransport { URLSessionTransport(clock: ManualClock()) }
}

/// The real network of one device, which records requests and can leave some unanswered.
final class RecordedNetwork: StreamingTransport, UploadingTransport {
    private struct State {
        var requests: [TransportRequest] = []
        /// The path whose requests are left unanswered, and the clock of their timeouts.
        var holding: (path: String, clock: any Clock<Duration>)?
        var watch: (@Sendable (TransportRequest) -> Void)?
    }

    private let base = URLSessionTransport.patient
    private let state = WatchedState(State())

    /// All requests in the order of sending.
    var requests: [TransportRequest] { state.withLock { $0.requests } }

    /// The number of requests for the balance.
    var balanceRequests: Int { count(of: "/v1/balance") }

    /// Returns the number of requests to a path.
    func count(of path: String) -> Int { requests.count { $0.url.path() == path } }

    /// Leaves requests to a path unanswered until they time out.
    func hold(_ path: String, on clock: any Clock<Duration>) {
        state.withLock { $0.holding = (path, clock) }
    }

    /// Calls the closure before each request is sent.
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
