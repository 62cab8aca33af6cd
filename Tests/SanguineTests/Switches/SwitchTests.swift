import Foundation
import Logging
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Switches of the server replace declarations at once, and never what is charged or stored.
@Suite("Switches of a client", .bounded)
struct SwitchTests {
    private func apply(
        _ client: SanguineClient,
        revision: Int64 = 1,
        _ change: (inout Switches) -> Void
    ) {
        var switches = Switches()
        change(&switches)
        client.services.switches.receive(NumberedSwitches(revision: revision, switches).json)
    }

    // MARK: - Arrival

    @Test func `switches arrive by a pull and on a live connection`() async throws {
        let authority = InMemoryAuthority()
        authority.setSwitches(Switches())
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = authority
        configuration.logger = .silent
        let client = try SanguineClient(configuration)
        defer { client.close() }
        let following = client.observe(.balance) { _ in }
        try await eventually("the first switches") {
            client.services.switches.current.revision == 1
        }
        try await eventually("a live connection") { authority.streamCount == 1 }
        var switches = Switches()
        switches.functions["ask"] = .init(timeout: 90)
        authority.setSwitches(switches)
        try await eventually("the next switches") {
            client.services.switches.current.revision == 2
        }
        #expect(client.services.switches.current.switches == switches)
        withExtendedLifetime(following) {}
    }

    @Test func `switches apply after a restart without a network`() async throws {
        let folder = TemporaryFolder()
        let first = try TestClient(folder: folder).client
        apply(first) { $0.queries["profile"] = .init(freshness: 0) }
        first.close()
        let second = try TestClient(folder: folder).client

        #expect(second.services.switches.current.switches.queries["profile"]?.freshness == 0)
        #expect(second.matrix().switches == ["query profile: freshness 0 s"])
        second.close()
    }

    @Test func `an older revision does not replace a newer one`() throws {
        let test = try TestClient()
        let carrier = test.client.users.current
        for revision in [2, 1] as [Int64] {
            carrier.carry(
                RecordChange(
                    collection: "$config",
                    id: .of("current"),
                    seq: 5,
                    value: NumberedSwitches(revision: revision).json
                )
            )
        }
        #expect(test.client.services.switches.current.revision == 2)
    }

    @Test func `the newer revision of an epoch wins, whichever feed delivers it first`() throws {
        let test = try TestClient()
        let (client, board) = (test.client, test.client.services.switches)
        let (first, second) = (Epoch("first"), Epoch("second"))
        let former = FeedCacheUpdater(
            balance: client.balance,
            cacheScope: client.queries.entries.user,
            queries: client.queries,
            switches: board
        )
        func change(_ revision: Int64) -> RecordChange {
            RecordChange(
                collection: "$config",
                id: .of("current"),
                seq: 5,
                value: NumberedSwitches(revision: revision).json
            )
        }
        let current = client.users.current.feedUpdater
        current.apply(change(7), epoch: first)
        // Another user's page, and a read from the start, were sent before the change.
        former.apply(change(6), epoch: first)
        #expect(board.current.revision == 7)
        current.apply(change(6), isReset: true, epoch: first)
        #expect(board.current.revision == 7)
        // A restored copy counts from an earlier number.
        current.apply(change(3), isReset: true, epoch: second)
        #expect(board.current.revision == 3)
        former.apply(change(2), epoch: second)
        #expect(board.current.revision == 3)
    }

    @Test func `a change during the application of an older one is applied and stored`() throws {
        let folder = TemporaryFolder()
        let first = try TestClient(folder: folder).client
        let isNested = WatchedState(false)
        first.services.switches.onChange { [weak first] in
            guard let first, !isNested.value else { return }
            isNested.withLock { $0 = true }
            apply(first, revision: 2) { $0.queries["profile"] = .init(freshness: 60) }
        }
        let shown = WatchedState<[Int64]>([])
        first.services.switches.onChange { [weak first] in
            guard let revision = first?.services.switches.current.revision else { return }
            shown.withLock { $0.append(revision) }
        }
        apply(first) { $0.queries["profile"] = .init(freshness: 0) }
        #expect(shown.value == [2, 2])
        #expect(first.matrix().switches == ["query profile: freshness 60 s"])
        first.close()
        let second = try TestClient(folder: folder).client
        #expect(second.services.switches.current.revision == 2)
        second.close()
    }

    @Test func `unknown names and wrong types are ignored, logged once and counted`() throws {
        let log = RecordedLog()
        let test = try TestClient { $0.logger = log.logger }
        test.client.services.switches.receive([
            "revision": 1,
            "queries": ["profile": ["freshness": "soon", "timeout": 7]],
            "mutations": ["no.such": ["optimism": false]],
            "views": [:],
        ])

        let switches = test.client.services.switches.current.switches
        #expect(switches.queries == ["profile": .init(timeout: 7)])
        #expect(test.client.metrics.summary().ignoredSwitches == 3)
        let lines = log.messages.filter { $0.contains("configuration") }
        #expect(lines == ["Parts of the server's configuration are ignored."])
    }

    // MARK: - Queries

    @Test func `a shorter freshness causes a fetch, and the declared one returns`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("ada"))
        #expect(test.network.requests.count == 1)

        apply(test.client) { $0.queries["fleeting"] = .init(freshness: 0) }
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("bob"))
        _ = try await test.client.value(of: .fleeting("bob"))
        #expect(test.network.requests.count == 4)

        apply(test.client, revision: 2) { _ in }
        _ = try await test.client.value(of: .fleeting("bob"))
        #expect(test.network.requests.count == 4)
    }

    @Test func `a longer freshness saves a fetch`() async throws {
        let test = try TestClient(network: .profiles())
        apply(test.client) { $0.queries["fleeting"] = .init(freshness: 3_600) }
        _ = try await test.client.value(of: .fleeting("ada"))
        test.wall.advance(by: .minutes(30))
        _ = try await test.client.value(of: .fleeting("ada"))

        #expect(test.network.requests.count == 1)
    }

    @Test func `a time limit applies to the next request`() async throws {
        let test = try TestClient(network: .profiles())
        apply(test.client) { $0.queries["fleeting"] = .init(timeout: 7) }
        _ = try await test.client.value(of: .fleeting("ada"))

        #expect(test.network.requests.last?.timeout == .seconds(7))
    }

    @Test func `the matrix and the report show the replaced settings`() throws {
        let test = try TestClient {
            $0.queries = [QueryDeclaration(name: "page", policy: .untilMidnight)]
            $0.functions = [Ask.self]
        }
        apply(test.client) {
            $0.queries["page"] = .init(freshness: 60, timeout: 8)
            $0.functions["ask"] = .init(optimism: false)
        }
        let matrix = test.client.matrix()
        let row = matrix.rows.first { $0.name == "page" }

        #expect(row?.client.fresh == "1 min")
        #expect(row?.readers.map(\.timeout) == ["8 s"])
        #expect(row?.switched == ["freshness", "timeout"])
        #expect(matrix["ask"]?.switched == ["optimism"])
        #expect(matrix.description.contains("switched by the server: function ask: optimism off"))
        #expect("\(test.client.debugReport())".contains("revision 1"))
    }

    // MARK: - Mutations

    @Test func `a record mutation without optimism is shown after its answer`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        apply(client) { $0.mutations[Count.name] = .init(optimism: false) }
        fixture.network.hold()
        let receipt = try client.add("a")
        #expect(client.count("a") == nil)
        #expect(client.outbox.pending.count == 1)
        try await fixture.network.releaseFirst { $0.isPush }
        _ = try await receipt.outcome
        #expect(client.count("a") == 1)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 1 && client.outbox.pending.isEmpty)
    }

    @Test func `a mutation that builds on one that is not shown is accepted, and hidden with it`()
        async throws
    {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        apply(client) { $0.mutations[Count.name] = .init(optimism: false) }
        fixture.connectivity.disconnect()
        try client.add("a", by: 2)
        try client.perform(CopyCounter(from: .of("a"), to: .of("b")))
        #expect(client.count("a") == nil && client.count("b") == nil)
        #expect(client.records(Counter.self).isEmpty)

        apply(client, revision: 2) { _ in }
        #expect(client.count("a") == 2 && client.count("b") == 2)
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.authority.count("b") == 2)
    }

    @Test func `a request mutation without optimism is shown once, after its answer`()
        async throws
    {
        let fixture = TrackFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        apply(client) { $0.mutations[PlayTrack.name] = .init(optimism: false) }
        fixture.connectivity.disconnect()
        let receipt = try client.perform(PlayTrack(track: 1))
        #expect(client.cached(.track(1))?.plays == 0)
        #expect(client.outbox.pending.count == 1)
        fixture.connectivity.connect()
        _ = try await receipt.outcome
        #expect(client.cached(.track(1))?.plays == 1)
        try await client.synchronize()
        #expect(client.cached(.track(1))?.plays == 1)
        #expect(fixture.backend.tracks.first?.plays == 1)
    }

    @Test func `a query without optimism hides effects, other queries show them`() async throws {
        let fixture = TrackFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .track(1))
        try await client.value(of: .tracks)
        fixture.connectivity.disconnect()
        try client.perform(RetitleTrack(track: 1, title: "new"))
        #expect(client.cached(.track(1))?.title == "new")

        apply(client) { $0.queries["track"] = .init(optimism: false) }
        #expect(client.cached(.track(1))?.title == "Untitled")
        #expect(client.snapshot(of: .tracks).items.first?.title == "new")

        apply(client, revision: 2) { _ in }
        #expect(client.cached(.track(1))?.title == "new")
        client.close()
    }

    // MARK: - Functions

    @Test func `a call without optimism changes the balance with its answer`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        apply(client) { $0.functions["ask"] = .init(timeout: 90, optimism: false) }
        fixture.authority.stop(ClientFixture.askPath, at: .request)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await fixture.authority.reached(ClientFixture.askPath, at: .request)
        #expect(client.cached(.balance)?.available == 100)
        #expect(client.cached(.balance)?.held == 0)
        try await fixture.authority.release(ClientFixture.askPath, at: .request)
        _ = try await call.finished()
        let balance = try #require(client.cached(.balance))
        #expect(balance.available < 100 && balance.held == 0)
        client.close()
    }
}
