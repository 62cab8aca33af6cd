import Sanguine

/// The story's network, which goes and comes back when the story says so.
///
/// An app needs none of it: its network goes by itself.
struct Network: HTTPTransport, Connectivity {
    let isOnline = Signal(true)
    private let base = URLSessionTransport()

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        guard isOnline.value else { throw .offline("the story has switched it off") }
        return try await base.send(request)
    }

    func close() { base.close() }
}
