import Foundation
import Sanguine
import SanguineTesting

/// The real network of one device, which records requests and can lose what belongs to a path.
final class RecordedNetwork: StreamingTransport, UploadingTransport {
    /// The part of an exchange that is lost.
    enum Loss: Sendable {
        case request
        /// The server receives the request.
        case response
    }

    private struct State {
        var requests: [TransportRequest] = []
        var loss: (path: String, part: Loss)?
        var isOnline = true
    }

    private let base = URLSessionTransport.patient
    private let state = WatchedState(State())

    /// The methods and paths of all requests, in the order of sending.
    var requests: [String] {
        state.withLock { $0.requests.map { "\($0.method) \($0.url.path())" } }
    }

    /// Returns the names of the functions that were called, and forgets all requests.
    func takeCalls() -> [String] {
        defer { state.withLock { $0.requests = [] } }
        let prefix = "POST /v1/functions/"
        return requests.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
    }

    /// Loses requests or responses of a path until this is called with `nil`.
    func lose(_ part: Loss?, of path: String = "") {
        state.withLock { $0.loss = part.map { (path, $0) } }
    }

    /// Refuses all requests until it is connected again.
    func disconnect() { state.withLock { $0.isOnline = false } }

    func connect() { state.withLock { $0.isOnline = true } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let loss = try record(request)
        if loss == .request { throw .interrupted("the request was lost") }
        let response = try await base.send(request)
        if loss == .response { throw .interrupted("the response was lost") }
        return response
    }

    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        let loss = try record(request)
        if loss == .request { throw .interrupted("the request was lost") }
        let response = try await base.upload(request, progress: progress)
        if loss == .response { throw .interrupted("the response was lost") }
        return response
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        let loss = try record(request)
        if loss == .request { throw .interrupted("the request was lost") }
        let stream = try await base.stream(request)
        if loss == .response { throw .interrupted("the response was lost") }
        return stream
    }

    private func record(_ request: TransportRequest) throws(TransportError) -> Loss? {
        let (isOnline, loss) = state.withLock { state in
            state.requests.append(request)
            return (state.isOnline, state.loss?.path == request.url.path() ? state.loss?.part : nil)
        }
        guard isOnline else { throw .offline("the device is offline") }
        return loss
    }
}
