import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

extension EndToEnd {
    /// The client, played against each cell of the storage matrix.
    @Suite("Storage matrix: queries, lists and ranges", .bounded(.seconds(120)))
    struct QueryCellTests {
        private static func probes() -> [Probe] {
            [
                .query("always", .alwaysStale),
                .query("short", .fresh(for: .minutes(5)).stored(.onDisk).kept(for: .hours(48))),
                .query("daily", .untilMidnight.audience(.device)),
                .query("process", .session),
                .query("lasting", .forever.stored(.onDisk).audience(.everyone)),
                .query("birth-chart", .untilChanged("birth").stored(.onDisk)),
                .query("of-device", .fresh(for: .hours(1)).stored(.onDisk).audience(.device)),
                .list("posts", .fresh(for: .seconds(30)).stored(.onDisk)),
                .list("volatile", .fresh(for: .minutes(1))),
                .range("moods", .fresh(for: .hours(1)).stored(.onDisk)),
            ]
        }

        /// A device of a user of the app's own backend.
        private struct Stage: Sendable {
            let root: URL
            let clock = ManualWallClock()
            let probes = QueryCellTests.probes()

            func client() throws -> SanguineClient {
                var configuration = SanguineClient.Configuration()
                configuration.folder = root
                configuration.clock = clock
                configuration.timeZone = "UTC"
                configuration.queries = probes.map(\.declaration)
                let client = try SanguineClient(configuration)
                try client.signIn(as: "ann")
                return client
            }

            /// Plays each row on a folder of its own.
            func eachRow(
                _ body: (Probe, PrintedMatrix, Stage) async throws -> Void
            ) async throws {
                for probe in probes {
                    let own = Stage(root: root.appending(path: probe.name))
                    let client = try own.client()
                    let matrix = try PrintedMatrix(client.matrix())
                    #expect(matrix.names == own.probes.map(\.name).sorted())
                    client.close()
                    let probe = try #require(own.probes.first { $0.name == probe.name })
                    try await body(probe, matrix, own)
                }
            }
        }

        private static func withRows(
            _ body: @escaping @Sendable (Probe, PrintedMatrix, Stage) async throws -> Void
        ) async throws {
            try await TemporaryFolder.with { root in
                try await Stage(root: root).eachRow(body)
            }
        }

        @Test func `a value is used without a fetch until the moment in the cell`() async throws {
            try await Self.withRows { probe, matrix, stage in
                let client = try stage.client()
                defer { client.close() }
                let life = try matrix.life(probe.name, "client")
                _ = try await probe.read(client)
                _ = try await probe.read(client)
                #expect(probe.fetches == (life == .none ? 2 : 1), "\(probe.name)")
                let end = life.end(from: stage.clock.now())
                stage.clock.advance(by: (end ?? .hours(20)) - .seconds(1))
                var before = probe.fetches
                _ = try await probe.read(client)
                #expect(probe.fetches == before + (life == .none ? 1 : 0), "\(probe.name)")
                stage.clock.advance(by: .seconds(2))
                before = probe.fetches
                _ = try await probe.read(client)
                let isDue = life == .none || end != nil
                #expect(probe.fetches == before + (isDue ? 1 : 0), "\(probe.name)")
            }
        }

        @Test func `a changed dependency makes the values stale that name it`() async throws {
            try await Self.withRows { probe, matrix, stage in
                let client = try stage.client()
                defer { client.close() }
                let isStaleAnyway = try matrix.life(probe.name, "client") == .none
                let row = try #require(client.matrix()[probe.name])
                _ = try await probe.read(client)
                client.dependencyChanged("birth")
                _ = try await probe.read(client)
                let isDue = isStaleAnyway || row.client.dependencies == ["birth"]
                #expect(probe.fetches == (isDue ? 2 : 1), "\(probe.name)")
            }
        }

        @Test func `a restart finds what is on disk, for as long as it is kept`() async throws {
            try await Self.withRows { probe, matrix, stage in
                let isOnDisk = try matrix.cell(probe.name, "tier") == "onDisk"
                let kept = try #require(
                    try matrix.life(probe.name, "kept").end(from: stage.clock.now())
                )
                let first = try stage.client()
                let value = try await probe.read(first)
                try await first.waitUntilIdle()
                first.close()

                stage.clock.advance(by: kept - .seconds(1))
                let second = try stage.client()
                #expect(probe.cached(second) == (isOnDisk ? value : nil), "\(probe.name)")
                second.close()

                stage.clock.advance(by: .seconds(2))
                let third = try stage.client()
                #expect(probe.cached(third) == nil, "\(probe.name)")
                third.close()
            }
        }

        @Test func `a sign-out and another account see what the audience says`() async throws {
            try await Self.withRows { probe, matrix, stage in
                let client = try stage.client()
                defer { client.close() }
                let value = try await probe.read(client)
                try await client.waitUntilIdle()
                let expected = try matrix.cell(probe.name, "client for") == "user" ? nil : value

                await client.signOut()
                #expect(probe.cached(client) == expected, "\(probe.name)")
                try client.signIn(as: "bob")
                #expect(probe.cached(client) == expected, "\(probe.name)")
            }
        }

        @Test func `erased data comes back with the next read`() async throws {
            try await Self.withRows { probe, matrix, stage in
                let client = try stage.client()
                defer { client.close() }
                _ = try await probe.read(client)
                try await client.eraseLocalData()
                #expect(probe.cached(client) == nil, "\(probe.name)")
                #expect(try matrix.cell(probe.name, "restored") == "next read")
                let value = try await probe.read(client)
                #expect(value == 2 && probe.fetches == 2, "\(probe.name)")
            }
        }
    }
}

/// A declared query, list or range whose value is the number of the fetch.
private struct Probe: Sendable {
    let declaration: QueryDeclaration
    let read: @Sendable (SanguineClient) async throws -> Int
    let cached: @Sendable (SanguineClient) -> Int?
    private let counter: Counter

    var name: String { declaration.name }
    var fetches: Int { counter.value }

    static func query(_ name: String, _ policy: Policy) -> Probe {
        let counter = Counter()
        let query = ValueQuery<Int>(name, policy: policy) { _ in counter.next() }
        return Probe(
            declaration: query.declaration,
            read: { try await $0.value(of: query) },
            cached: { $0.cached(query) },
            counter: counter
        )
    }

    static func list(_ name: String, _ policy: Policy) -> Probe {
        let counter = Counter()
        let list = ListQuery<CellRow>(name, policy: policy) { _, _ in
            ListPage(items: [CellRow(id: 1, number: counter.next())])
        }
        return Probe(
            declaration: list.declaration,
            read: { try await $0.value(of: list).first?.number ?? 0 },
            cached: { $0.cached(list)?.first?.number },
            counter: counter
        )
    }

    static func range(_ name: String, _ policy: Policy) -> Probe {
        let counter = Counter()
        let range = RangeQuery<Int, Int>(name, policy: policy) { _, _ in [1: counter.next()] }
        return Probe(
            declaration: range.declaration,
            read: { try await $0.value(of: range, in: 1...1)[1] ?? 0 },
            cached: { $0.cached(range, in: 1...1).values[1] },
            counter: counter
        )
    }
}

private struct CellRow: Codable, Sendable, Equatable, Identifiable {
    var id: Int
    var number: Int
}

private final class Counter: Sendable {
    private let number = Atomic<Int>(0)

    var value: Int { number.load(ordering: .sequentiallyConsistent) }

    func next() -> Int { number.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue }
}
