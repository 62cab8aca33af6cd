import Foundation
import GRDB
import Observation
import Sanguine
import SanguineModel
import Synchronization

/// What reads, writes, invalidations and observers cost, beside the figures of TanStack's
/// query-core on a like machine.
enum QueryBenchmarks {
    struct Profile: Codable, Sendable, Equatable {
        var name = "Ada"
        var followers = 0
    }

    private static let peer = "TanStack query-core"
    private static let rounds = 9
    private static let clock = ContinuousClock()

    static func run() async throws -> [Figure] {
        var figures = [try write(), try invalidation()]
        figures.append(try observers())
        figures.append(try await readers())
        figures.append(try await views())
        figures.append(try await callers())
        figures.append(try await scroll())
        figures += try coldStart()
        return figures
    }

    private static func query(
        _ id: Int,
        _ policy: Policy = .fresh(for: .minutes(5))
    ) -> Query<Profile> {
        Query("profile", id, policy: policy) { try await $0.get("profiles/\(id)") }
    }

    private static func client(_ transport: any Transport = Answers()) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "http://localhost")
        configuration.transport = transport
        return try SanguineClient(configuration)
    }

    private static func cost(
        _ name: String,
        _ samples: [Duration],
        per count: Int = 1,
        peer microseconds: Double
    ) -> Figure {
        Figure(
            cost: name,
            samples.map { $0 / .microseconds(1) / Double(count) }.median,
            unit: "µs",
            of: peer,
            microseconds,
            atMost: 0.1
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

    /// The call alone; what it postpones is measured with it: the look at each of the entries.
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

    // MARK: - Observers

    private static func observers() throws -> Figure {
        let client = try client()
        let query = query(1)
        client.set(Profile(followers: 0), for: query)
        let seen = Counter()
        let followings = (0..<1_000).map { _ in client.observe(query) { _ in _ = seen.add() } }
        let before = seen.value
        let samples = (1...rounds).map { number in
            clock.measure { client.set(Profile(followers: number), for: query) }
        }
        guard seen.value == before + rounds * followings.count else {
            throw BenchmarkError.wrong("observe")
        }
        client.close()
        return cost("one write to 1,000 observers", samples, peer: 1_500)
    }

    private static func readers() async throws -> Figure {
        let client = try client()
        let query = query(1)
        client.set(Profile(followers: 0), for: query)
        let seen = Counter()
        let progress = Progress()
        let count = 1_000
        let readers = (0..<count).map { _ in
            let updates = client.updates(of: query)
            return Task.detached {
                for await _ in updates where seen.add() % count == 0 {
                    progress.step()
                }
            }
        }
        await progress.next()
        var samples: [Duration] = []
        for number in 1...rounds {
            let start = clock.now
            client.set(Profile(followers: number), for: query)
            await progress.next()
            samples.append(start.duration(to: clock.now))
        }
        for reader in readers { reader.cancel() }
        client.close()
        return cost("one write to 1,000 readers of updates", samples, peer: 1_500)
    }

    @MainActor
    private static func views() async throws -> Figure {
        let client = try client()
        let query = query(1)
        client.set(Profile(followers: 0), for: query)
        let models = (0..<1_000).map { _ in client.model(query) }
        var samples: [Duration] = []
        for number in 1...rounds {
            let seen = Counter()
            for model in models {
                withObservationTracking {
                    _ = model.value
                } onChange: {
                    _ = seen.add()
                }
            }
            let start = clock.now
            client.set(Profile(followers: number), for: query)
            while seen.value < models.count { await Task.yield() }
            samples.append(start.duration(to: clock.now))
        }
        guard models.last?.value?.followers == rounds else { throw BenchmarkError.wrong("model") }
        client.close()
        return cost("one write to 1,000 observing views", samples, peer: 1_500)
    }

    // MARK: - Callers

    private static func callers() async throws -> Figure {
        var samples: [Duration] = []
        for _ in 0..<rounds {
            let network = Gate()
            let client = try client(network)
            let query = query(1)
            let start = clock.now
            let callers = 10_000
            let answered = Counter()
            let progress = Progress()
            // Tasks of their own: a group removes its children in a time that grows with them.
            for _ in 0..<callers {
                Task.detached {
                    guard try await client.value(of: query).followers == 1 else { return }
                    if answered.add() == callers { progress.step() }
                }
            }
            network.open()
            await progress.next()
            samples.append(start.duration(to: clock.now))
            guard network.calls == 1 else { throw BenchmarkError.wrong("flight") }
            client.close()
        }
        return cost("10,000 callers of one key, 1 call", samples, peer: 68_000)
    }

    // MARK: - Lists

    struct Post: Codable, Sendable, Equatable, Identifiable {
        var id: Int
        var text = "A post of a length that posts have, on average, in a feed."
    }

    /// A list of 200 pages, as a server gives it.
    @Sendable
    private static func page(after cursor: String?, limit: Int) -> Page<Post> {
        let start = cursor.flatMap { Int($0) } ?? 0
        let end = min(start + limit, 4_000)
        let items = (start..<end).map { Post(id: $0) }
        return Page(items: items, hasMore: end < 4_000, nextCursor: end < 4_000 ? "\(end)" : nil)
    }

    /// Each page is shown, and each row once: what the list costs beside fetching and appending.
    @MainActor
    private static func scroll() async throws -> Figure {
        var ours: [Duration] = []
        var byHand: [Duration] = []
        for _ in 0..<rounds {
            let client = try client()
            let list = Pages<Post>("feed", policy: .forever) { _, page in
                Self.page(after: page.cursor, limit: page.limit)
            }
            let start = clock.now
            let model = client.pages(list)
            try await client.load(list)
            while model.hasMore { await model.loadNext() }
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

/// A network that answers everything at once.
private struct Answers: Transport {
    static let one = TransportResponse(
        status: 200,
        headers: ["content-type": "application/json"],
        body: Data(#"{"name":"Ada","followers":1}"#.utf8)
    )

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        Self.one
    }
}

/// A network that answers when it is opened.
private final class Gate: Transport {
    private struct State {
        var calls = 0
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    var calls: Int { state.withLock { $0.calls } }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for caller in waiting { caller.resume() }
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                state.calls += 1
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
        return Answers.one
    }
}

private final class Counter: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .relaxed) }

    func add() -> Int { count.add(1, ordering: .relaxed).newValue }
}

/// Steps that one side makes and the other waits for.
private final class Progress: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func step() { continuation.yield() }

    func next() async { for await _ in stream { return } }
}
