import Sanguine

/// The story's network, which the story switches off and on.
///
/// A real app does not need it.
struct Network: HTTPTransport, Connectivity {
    let isOnline = Signal(true)
    private let base = URLSessionTransport()

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        guard isOnline.value else { throw .offline("the story went offline") }
        return try await base.send(request)
    }

    func close() { base.close() }
}
