import Foundation
import GRDB
import Sanguine
import SanguineModel

/// The cost of writes, invalidations, lists and a cold start.
///
/// Most are shown with earlier figures of TanStack's query-core.
enum QueryBenchmarks {
    struct Profile: Codable, Sendable, Equatable {
        var name = "Ada"
        var followers = 0
    }

    static let peer = "TanStack query-core"
    static let rounds = 9
    static let clock = ContinuousClock()

    static let benchmarks = [
        Benchmark("client.set") { [try write()] },
        Benchmark("invalidate 10,000 by prefix") { [try invalidation()] },
        Benchmark("one write to 1,000 observers") { [try ObserverBenchmarks.observers()] },
        Benchmark("one write to 1,000 readers of updates") {
            [try await ObserverBenchmarks.readers()]
        },
        Benchmark("one write to 1,000 observing views") { [try await ObserverBenchmarks.views()] },
        Benchmark("callers of one key") { try await CallerBenchmarks.run() },
        Benchmark("scroll through 200 pages") { [try await scroll()] },
        Benchmark("cold start with 10,000 entries, to the first value") { try coldStart() },
    ]

    static func query(
        _ id: Int,
        _ policy: Policy = .fresh(for: .minutes(5))
    ) -> ValueQuery<Profile> {
        ValueQuery("profile", id, policy: policy) { try await $0.get("profiles/\(id)") }
    }

    static func client(_ transport: any HTTPTransport = Answers()) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "http://localhost")
        configuration.transport = transport
        return try SanguineClient(configuration)
    }

    static func cost(
        _ name: String,
        _ samples: [Duration],
        per count: Int = 1,
        peer microseconds: Double
    ) -> Figure {
        Figure(
            cost: name,
            samples.map { $0 / .microseconds(1) / Double(count) }.median,
            unit: "µs",
            beside: peer,
            recorded: microseconds
        )
    }

    // MARK: - Writing

    private static func write() throws -> Figure {
        let client = try client()
        let query = query(1)
        let writes = 20_000
        let samples = (0..<rounds).map { round in
            clock.measure {
                for number in 0..<writes {
                    client.set(Profile(followers: round * writes + number), for: query)
                }
            }
        }
        guard client.cached(query)?.followers == rounds * writes - 1 else {
            throw BenchmarkError.wrong("set")
        }
        client.close()
        return cost("client.set", samples, per: writes, peer: 7.1)
    }

    /// Measures the call itself and the work it postpones, which is the check of each entry.
    private static func invalidation() throws -> Figure {
        let client = try client()
        let queries = (0..<10_000).map { query($0, .forever) }
        var samples: [Duration] = []
        for _ in 0..<rounds {
            for query in queries { client.set(Profile(), for: query) }
            samples.append(clock.measure { client.invalidate(all: "profile") })
        }
        client.close()
        return cost("invalidate 10,000 by prefix", samples, peer: 540)
    }

    // MARK: - Lists

    struct Post: Codable, Sendable, Equatable, Identifiable {
        var id: Int
        var text = "A post of a length that posts have, on average, in a feed."
    }

    /// Returns a page of a list with 200 pages, as a server does.
    @Sendable
    private static func page(after cursor: String?, limit: Int) -> ListPage<Post> {
        let start = cursor.flatMap { Int($0) } ?? 0
        let end = min(start + limit, 4_000)
        let items = (start..<end).map { Post(id: $0) }
        return ListPage(
            items: items,
            hasMore: end < 4_000,
            nextCursor: end < 4_000 ? "\(end)" : nil
        )
    }

    /// Measures the cost of a list in addition to fetching and appending, with each page shown and
    /// each row once.
    @MainActor
    private static func scroll() async throws -> Figure {
        var ours: [Duration] = []
        var byHand: [Duration] = []
        for _ in 0..<rounds {
            let client = try client()
            let list = ListQuery<Post>("feed", policy: .forever) { _, page in
                Self.page(after: page.cursor, limit: page.limit)
            }
            let start = clock.now
            let model = client.model(list)
            try await client.value(of: list)
            // The model is notified of the first page in a later turn of the main actor.
            repeat { await model.loadNext() } while model.hasMore
            ours.append(start.duration(to: clock.now))
            guard model.items.map(\.id) == Array(0..<4_000) else {
                throw BenchmarkError.wrong("pages")
            }
            client.close()
            var items: [Post] = []
            var cursor: String?
            let handStart = clock.now
            repeat {
                let next = await Task { [cursor] in page(after: cursor, limit: 20) }.value
                items += next.items
                cursor = next.nextCursor
            } while cursor != nil
            byHand.append(handStart.duration(to: clock.now))
            guard items.count == 4_000 else { throw BenchmarkError.wrong("list by hand") }
        }
        return Figure(
            cost: "scroll through 200 pages",
            ours.map { $0 / .milliseconds(1) }.median,
            unit: "ms",
            of: "a task for each page, appended",
            byHand.map { $0 / .milliseconds(1) }.median,
            atMost: nil
        )
    }

    // MARK: - Cold start

    private static func coldStart() throws -> [Figure] {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-cold-\(ProcessInfo.processInfo.processIdentifier)")
        defer { try? FileManager.default.removeItem(at: folder) }
        var configuration = SanguineClient.Configuration()
        configuration.folder = folder
        configuration.baseURL = URL(string: "http://localhost")
        configuration.transport = Answers()
        let stored = Policy.forever.stored(.onDisk).audience(.device)
        let first = try SanguineClient(configuration)
        for id in 0..<10_000 { first.set(Profile(followers: id), for: query(id, stored)) }
        first.close()
        var ours: [Duration] = []
        var raw: [Duration] = []
        for round in 0..<rounds {
            let id = 1_000 * round + 7
            var client: SanguineClient?
            var found: Profile?
            ours.append(
                try clock.measure {
                    client = try SanguineClient(configuration)
                    found = client?.cached(query(id, stored))
                }
            )
            guard found?.followers == id else { throw BenchmarkError.wrong("cold start") }
            client?.close()
            raw.append(
                try clock.measure {
                    let file = folder.appending(path: "sanguine-client.sqlite")
                    let database = try DatabaseQueue(path: file.path)
                    let row = try database.read { database in
                        try Data.fetchOne(
                            database,
                            sql: "SELECT value FROM entry WHERE key = ?",
                            arguments: ["profile/\(id)"]
                        )
                    }
                    found = try row.map { try JSONDecoder().decode(Profile.self, from: $0) }
                    try database.close()
                }
            )
            guard found?.followers == id else { throw BenchmarkError.wrong("raw read") }
        }
        return [
            Figure(
                cost: "cold start with 10,000 entries, to the first value",
                ours.map { $0 / .microseconds(1) }.median,
                unit: "µs",
                of: "opening SQLite and reading one row",
                raw.map { $0 / .microseconds(1) }.median,
                atMost: nil
            )
        ]
    }
}

/// A network that responds at once.
struct Answers: HTTPTransport {
    static let one = TransportResponse(
        status: 200,
        headers: ["content-type": "application/json"],
        body: Data(#"{"name":"Ada","followers":1}"#.utf8)
    )

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        Self.one
    }
}
