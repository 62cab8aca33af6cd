import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// `é` as one scalar and as two: equal in Swift, different bytes in SQLite.
private let (composed, decomposed) = ("\u{E9}", "e\u{301}")

@Suite("Query keys", .bounded)
struct QueryKeyTests {
    private struct Filter: Codable, Hashable, Sendable {
        var text: String
    }

    @Test func `equal parameters produce one key with the same bytes`() {
        func bytes(_ key: QueryKey) -> [UInt8] { Array(key.text.utf8) }
        let pairs = [
            (
                QueryKey(name: "q", parameters: [composed]),
                QueryKey(name: "q", parameters: [decomposed])
            ),
            (QueryKey(name: composed, parameters: []), QueryKey(name: decomposed, parameters: [])),
            (
                QueryKey(name: "q", parameters: [1, Filter(text: composed)]),
                QueryKey(name: "q", parameters: [1, Filter(text: decomposed)])
            ),
        ]
        for (first, second) in pairs {
            #expect(first == second)
            #expect(first.hashValue == second.hashValue)
            #expect(bytes(first) == bytes(second))
        }
        #expect(pairs[0].0 != QueryKey(name: "q", parameters: ["e"]))
    }

    private static func query(_ text: String) -> ValueQuery<String> {
        ValueQuery("found", text, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { _ in
            throw CancellationError()
        }
    }

    @Test func `a value cached under one form is found under the other, also on disk`() throws {
        let folder = TemporaryFolder()
        let first = try TestClient(folder: folder).client
        #expect(first.set("a", for: Self.query(composed)))
        #expect(first.cached(Self.query(decomposed)) == "a")
        #expect(first.set("b", for: Self.query(decomposed)))
        #expect(first.cached(Self.query(composed)) == "b")
        first.close()
        let second = try TestClient(folder: folder).client
        defer { second.close() }
        for text in [composed, decomposed] { #expect(second.cached(Self.query(text)) == "b") }
    }

    @Test func `metrics count both forms of a name as one query`() throws {
        let client = try TestClient().client
        for name in [composed, decomposed] {
            let query = ValueQuery<String>(name, policy: .fresh(for: .minutes(5))) { _ in
                throw CancellationError()
            }
            #expect(client.set("a", for: query))
            #expect(client.cached(query) == "a")
        }
        #expect(client.metrics.summary().queries.count == 1)
    }

    @Test func `both forms of tags and dependencies have the same label`() {
        #expect(
            StoredEntry.label(tag: composed).utf8.elementsEqual(
                StoredEntry.label(tag: decomposed).utf8
            )
        )
        #expect(
            StoredEntry.label(dependency: composed).utf8.elementsEqual(
                StoredEntry.label(dependency: decomposed).utf8
            )
        )
    }
}
