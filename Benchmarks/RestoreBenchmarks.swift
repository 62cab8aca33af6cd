import Foundation
import GRDB
import Sanguine
import SanguineModel

/// The first restore of an account's records on a new device: its time, its memory, and the time
/// until the newest records can be used.
enum RestoreBenchmarks {
    private typealias Note = RecordBenchmarks.Note

    private static let clock = ContinuousClock()
    private static let rounds = 3
    /// The limit of the memory that a restore uses for any number of records, in MiB.
    private static let memoryLimit = 64.0

    /// The benchmark, with `--records` records.
    static let all: [Benchmark] = [
        Benchmark("restore") { try await restore(BenchmarkOptions.current.records) }
    ]

    private static func restore(_ count: Int) async throws -> [Figure] {
        let feed = try RecordFeed(count: count)
        var ours: [Double] = []
        var raw: [Double] = []
        var first: [Double] = []
        for _ in 0..<rounds {
            let folder = try Folder()
            let times = try await restore(feed, in: folder)
            ours.append(times.whole)
            first.append(times.newest)
            raw.append(try bulkInsert(folder, count: feed.count))
        }
        let records = "\(count.formatted()) records"
        return [
            Figure(
                cost: "restore of \(records)",
                ours.median,
                unit: "ms",
                of: "a raw bulk insert",
                raw.median,
                atMost: 2
            ),
            Figure(
                cost: "restore of \(records): until the newest are shown",
                first.median,
                unit: "ms",
                of: "the whole restore",
                ours.median,
                atMost: count < 50_000 ? nil : 0.25
            ),
            Figure(
                cost: "restore of \(records): the most memory",
                try await memory(of: feed),
                unit: "MiB",
                of: "the limit of \(Int(memoryLimit)) MiB",
                memoryLimit,
                atMost: 1
            ),
        ]
    }

    /// Measures a new device's first pull until all records are on disk, and until the newest one
    /// is shown, in milliseconds.
    private static func restore(
        _ feed: RecordFeed,
        in folder: Folder
    ) async throws -> (whole: Double, newest: Double) {
        let client = try SanguineClient(RecordBenchmarks.configuration(folder, feed))
        let newest = try RecordBenchmarks.key(feed.count).id
        let start = clock.now
        async let shown = time(until: newest, isShownBy: client, since: start)
        try await client.synchronize()
        let whole = (clock.now - start) / .milliseconds(1)
        let oldest = try RecordBenchmarks.key(1).id
        guard client.record(Note.self, newest)?.count == feed.count,
            client.record(Note.self, oldest)?.count == 1
        else { throw BenchmarkError.wrong("restore") }
        let first = await shown
        client.close()
        return (whole, first)
    }

    private static func time(
        until id: RecordID,
        isShownBy client: SanguineClient,
        since start: ContinuousClock.Instant
    ) async -> Double {
        for await note in client.updates(of: .record(Note.self, id)) where note != nil { break }
        return (clock.now - start) / .milliseconds(1)
    }

    /// Returns the most memory that a restore has allocated at one time, in MiB.
    private static func memory(of feed: RecordFeed) async throws -> Double {
        let folder = try Folder()
        let client = try SanguineClient(RecordBenchmarks.configuration(folder, feed))
        let before = try AllocatedMemory.megabytes()
        let sampling = Task {
            var most = before
            while (try? await Task.sleep(for: .milliseconds(5))) != nil {
                most = max(most, try AllocatedMemory.megabytes())
            }
            return most
        }
        do {
            try await client.synchronize()
        } catch {
            sampling.cancel()
            throw error
        }
        sampling.cancel()
        let most = try await sampling.value
        client.close()
        return most - before
    }

    private static func bulkInsert(_ folder: Folder, count: Int) throws -> Double {
        let database = try DatabaseQueue(path: folder.url.appending(path: "bulk.sqlite").path)
        try database.writeWithoutTransaction { database in
            try database.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
            try database.execute(
                sql: """
                    CREATE TABLE record (
                        collection TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
                        value BLOB NOT NULL, PRIMARY KEY (collection, id)
                    ) WITHOUT ROWID
                    """
            )
        }
        let value = Data(#"{"text":"\#(RecordFeed.text)","count":1}"#.utf8)
        let time = try clock.measure {
            try database.write { database in
                let statement = try database.cachedStatement(
                    sql: "INSERT INTO record VALUES ('notes', ?, ?, ?)"
                )
                for number in 1...count {
                    try statement.execute(arguments: [RecordFeed.id(number), number, value])
                }
            }
        }
        try database.close()
        return time / .milliseconds(1)
    }
}
