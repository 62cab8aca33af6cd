import Foundation
import Sanguine
import SanguineModel
import TestSupport

extension RecordedNetwork {
    /// Whether the client follows the server's live feed.
    var isLive: Bool { hasStreamed }
}

extension RecordedNetwork.Traffic {
    /// The requests for data: all except those for accounts and sessions.
    var ofData: [String] {
        requests.filter { !$0.contains("/v1/sessions") && !$0.contains("/v1/accounts") }
    }

    /// The number of sent operations.
    var operations: Int {
        sent.compactMap(\.body).compactMap { Self.decode(Pushed.self, $0)?.operations.count }
            .reduce(0, +)
    }

    /// The number of records in responses to pulls.
    var rows: Int {
        received.compactMap { Self.decode(Pulled.self, $0)?.changes.count }.reduce(0, +)
    }

    /// The bytes of all bodies in both directions, except those of a live connection.
    var bytes: Int { (sent.compactMap(\.body) + received).map(\.count).reduce(0, +) }

    /// The counted part of a pull's response.
    private struct Pulled: Decodable { let changes: [JSONValue] }

    /// The counted part of a push.
    private struct Pushed: Decodable { let operations: [JSONValue] }

    private static func decode<Value: Decodable>(_ type: Value.Type, _ body: Data) -> Value? {
        // The body of another exchange is not counted.
        do { return try JSONDecoder().decode(type, from: body) } catch { return nil }
    }
}
