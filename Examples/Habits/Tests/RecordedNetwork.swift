import Foundation
import Sanguine
import SanguineModel
import SanguineTesting

/// The real network of one device, which records requests and responses.
final class RecordedNetwork: StreamingTransport {
    /// The recorded traffic.
    struct Traffic: Sendable {
        /// The method and path of each request, in the order of sending.
        var requests: [String] = []
        /// The number of sent operations.
        var operations = 0
        /// The number of records in responses to pulls.
        var rows = 0
        /// The bytes of all bodies in both directions, except those of a live connection.
        var bytes = 0

        /// The requests for data: all except those for accounts and sessions.
        var ofData: [String] {
            requests.filter { !$0.contains("/v1/sessions") && !$0.contains("/v1/accounts") }
        }
    }

    private let base = URLSessionTransport()
    private let traffic = WatchedState(Traffic())
    private let liveness = WatchedState(false)

    /// Returns the traffic since the last call or the start.
    func take() -> Traffic {
        traffic.withLock { traffic in
            defer { traffic = Traffic() }
            return traffic
        }
    }

    /// Whether the client follows the server's live feed.
    var isLive: Bool { liveness.value }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        note(request)
        let response = try await base.send(request)
        let rows = (try? JSONDecoder().decode(Pulled.self, from: response.body))?.changes.count
        traffic.withLock { traffic in
            traffic.rows += rows ?? 0
            traffic.bytes += response.body.count
        }
        return response
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        note(request)
        let stream = try await base.stream(request)
        liveness.withLock { $0 = true }
        return stream
    }

    private func note(_ request: TransportRequest) {
        let body = request.body ?? Data()
        let operations = (try? JSONDecoder().decode(Pushed.self, from: body))?.operations.count
        traffic.withLock { traffic in
            traffic.requests.append("\(request.method) \(request.url.path())")
            traffic.operations += operations ?? 0
            traffic.bytes += body.count
        }
    }

    /// The counted part of a pull's response.
    private struct Pulled: Decodable { let changes: [JSONValue] }

    /// The counted part of a push.
    private struct Pushed: Decodable { let operations: [JSONValue] }
}
