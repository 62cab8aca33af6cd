import Foundation
import Sanguine
import SanguineTesting

struct Profile: Codable, Sendable, Equatable {
    var name: String
}

extension ValueQuery where Value == Profile {
    static func profile(_ id: String) -> Self {
        ValueQuery("profile", id, policy: .fresh(for: .minutes(5))) { request in
            try await request.get("profiles/\(id)")
        }
    }
}

struct Post: Codable, Sendable, Equatable, Identifiable {
    var id: Int
}

extension ListQuery where Item == Post {
    static func feed(_ name: String) -> Self {
        ListQuery("feed", name, path: "feeds/\(name)", policy: .fresh(for: .minutes(5)))
    }
}

extension RangeQuery where Index == Int, Value == String {
    static let words = RangeQuery("words", policy: .fresh(for: .minutes(5))) { request, range in
        try await request.get("words/\(range.lowerBound)/\(range.upperBound)")
    }
}

struct Note: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var text: String
}

extension RecordQuery where Value == Int {
    /// The number of notes longer than the given length, declared with a closure.
    static func longer(than length: Int) -> Self {
        RecordQuery(reading: Note.collection) { records in
            records.records(Note.self).count { $0.text.count > length }
        }
    }
}

extension SanguineClient {
    /// Returns a client in memory that uses the network.
    static func sample(_ network: ScriptedTransport) throws -> SanguineClient {
        var configuration = Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.retries = false
        return try SanguineClient(configuration)
    }
}
