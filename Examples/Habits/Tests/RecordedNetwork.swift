import Foundation
import Sanguine
import SanguineModel
import SanguineTesting

/// The real network of one device, with what the device asked and what it was told.
final class RecordedNetwork: StreamingTransport {
    /// What went over the network.
    struct Traffic: Sendable {
        /// Method and path of each request, in the order in which they were sent.
        var requests: [String] = []
        /// The operations that were sent.
        var operations = 0
        /// The records that came in answers to pulls.
        var rows = 0
        /// The bytes of all bodies, there and back, without those of a live connection.
        var bytes = 0

        /// The requests that are about data: all but those for accounts and sessions.
        var ofData: [String] {
            requests.filter { !$0.contains("/v1/sessions") && !$0.contains("/v1/accounts") }
        }
    }

    private let base = URLSessionTransport()
    private let traffic = WatchedState(Traffic())
    private let liveness = WatchedState(false)

    /// What has gone over the network since the last call, or the start.
    func take() -> Traffic {
        traffic.withLock { traffic in
            defer { traffic = Traffic() }
            return traffic
        }
    }

    /// Whether the server's feed is followed live.
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

    /// What is counted of a pull's answer.
    private struct Pulled: Decodable { let changes: [JSONValue] }

    /// What is counted of a push.
    private struct Pushed: Decodable { let operations: [JSONValue] }
}
