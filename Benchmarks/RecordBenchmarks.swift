import Foundation
import GRDB
import Sanguine
import SanguineModel

/// The cost of writes and replay of records.
enum RecordBenchmarks {
    private static let clock = ContinuousClock()
    private static let rounds = 5

    static let all: [Benchmark] = [
        Benchmark("perform until visible") {
            try await perform("an app's mutator", write) + perform("record.set", set)
        },
        Benchmark("replay") { try replay() },
    ]

    // MARK: - Performing

    /// The app's mutation, whose effect is visible after it.
    private struct Write: RecordMutation {
        static let name = "note.count"
        let id: RecordID
        let count: Int

        func apply(to records: inout Records) throws {
            var note = records.get(Note.self, id) ?? Note(id: id, count: 0)
            note.count = count
            records.set(note)
        }
    }

    /// Measures a write until it is durable and visible, with 10,000 records and a growing outbox.
    private static func perform(
        _ name: String,
        _ write: (SanguineClient, Int) throws -> Void
    ) async throws -> [Figure] {
        let folder = try Folder()
        let feed = try RecordFeed(count: 10_000)
        let client = try SanguineClient(configuration(folder, feed))
        try await client.synchronize()
        let raw = try rawInserts(folder)
        var figures: [Figure] = []
        var made = 0
        for pending in [0, 100, 1_000] {
            while made < pending {
                try write(client, made)
                made += 1
            }
            let samples = try (0..<100).map { _ in
                made += 1
                return try clock.measure { try write(client, made) } / .microseconds(1)
            }
            figures.append(
                Figure(
                    cost: "perform \(name) until visible, \(pending.formatted()) pending",
                    samples.median,
                    unit: "µs",
                    of: "a raw SQLite insert",
                    raw,
                    atMost: 2
                )
            )
        }
        client.close()
        return figures
    }

    private static func write(_ client: SanguineClient, _ number: Int) throws {
        let id = try key(number % 1_000 + 1).id
        try client.perform(Write(id: id, count: -number))
        guard client.record(Note.self, id)?.count == -number else {
            throw BenchmarkError.wrong("perform")
        }
    }

    private static func set(_ client: SanguineClient, _ number: Int) throws {
        let key = try key(number % 1_000 + 1)
        try client.perform(SetFields(key, ["count": .integer(Int64(-number))]))
        guard client.record(Note.self, key.id)?.count == -number else {
            throw BenchmarkError.wrong("perform")
        }
    }

    /// Returns the median of single inserts, one per transaction, in a table like the outbox's.
    private static func rawInserts(_ folder: Folder) throws -> Double {
        let database = try DatabaseQueue(path: folder.url.appending(path: "raw.sqlite").path)
        try database.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
            try database.execute(
                sql: """
                    CREATE TABLE operation (
                        sequence INTEGER PRIMARY KEY, id TEXT NOT NULL,
                        name TEXT NOT NULL, arguments BLOB NOT NULL
                    )
                    """
            )
        }
        let arguments = try JSONEncoder().encode(SetFields(try key(1), ["count": 1]))
        let samples = try (0..<500).map { number in
            try clock.measure {
                try database.writeWithoutTransaction { database in
                    let statement = try database.cachedStatement(
                        sql: "INSERT INTO operation (id, name, arguments) VALUES (?, ?, ?)"
                    )
                    try statement.execute(arguments: ["\(number)", "record.set", arguments])
                }
            } / .microseconds(1)
        }
        try database.close()
        return samples.median
    }

    // MARK: - Replay

    /// Measures the replay of pending operations over 1,000 records, and then of one change of the
    /// base.
    private static func replay() throws -> [Figure] {
        var figures: [Figure] = []
        for (count, peer) in [(100, 36.0), (1_000, 188.0)] {
            var all: [Double] = []
            var one: [Double] = []
            for _ in 0..<rounds {
                var base = try Base(count: 1_000)
                var replay = Replay(schema: .standard)
                let operations = try (1...count).map { try operation($0) }
                all.append(
                    try clock.measure {
                        for operation in operations { _ = try replay.add(operation, over: base) }
                    } / .milliseconds(1)
                )
                let key = try key(7)
                for number in 0..<100 {
                    base.records[key] = RecordValue(["count": .integer(Int64(number))])
                    one.append(
                        try clock.measure {
                            _ = try replay.settle(removing: [], changed: [key], over: base)
                        } / .milliseconds(1)
                    )
                }
                guard try replay.record(key, over: base)?.value["text"] == .string("7") else {
                    throw BenchmarkError.wrong("replay")
                }
            }
            figures.append(
                Figure(
                    cost: "replay of \(count.formatted()) pending over 1,000 records",
                    all.median,
                    unit: "ms",
                    beside: "Replicache",
                    recorded: peer
                )
            )
            figures.append(
                Figure(
                    cost: "one update of the base under \(count.formatted()) pending",
                    one.median,
                    unit: "ms",
                    beside: "TanStack DB",
                    recorded: 0.14
                )
            )
        }
        return figures
    }

    private static func operation(_ number: Int) throws -> Replay.Operation {
        Replay.Operation(
            sequence: Int64(number),
            id: Identifier(at: Timestamp(millisecondsSince1970: Int64(number))),
            mutation: SetFields(try key(number), ["text": .string("\(number)")])
        )
    }

    private struct Base: RecordSource {
        var records: [RecordKey: RecordValue] = [:]

        init(count: Int) throws {
            for number in 1...count {
                let json = #"{"count":\#(number),"text":"\#(RecordFeed.text)"}"#
                records[try key(number)] = RecordValue(json: Data(json.utf8))
            }
        }

        func record(_ key: RecordKey) -> SourcedRecord? { records[key].map { SourcedRecord($0) } }

        func ids(
            in collection: String,
            where field: String,
            is value: JSONValue,
            limit: Int
        ) -> [RecordID] {
            []
        }
    }

    // MARK: - Shared parts

    struct Note: SanguineModel.SyncedRecord {
        static let collection = RecordCollection("notes")
        let id: RecordID
        var text: String?
        var count: Int
    }

    static func configuration(
        _ folder: Folder,
        _ feed: RecordFeed
    ) -> SanguineClient.Configuration {
        var configuration = SanguineClient.Configuration(server: URL(string: "http://localhost"))
        configuration.folder = folder.url
        configuration.transport = feed
        configuration.recordPolling = nil
        configuration.schema = RecordSchema(
            collections: [Note.collection],
            mutations: [Write.self]
        )
        return configuration
    }

    static func key(_ number: Int) throws -> RecordKey {
        guard let id = RecordID(RecordFeed.id(number)) else { throw BenchmarkError.wrong("id") }
        return RecordKey("notes", id)
    }
}
