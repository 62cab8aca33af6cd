import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Switches enter the pages of all feeds, and take a number of none.
@Suite("Switches in the feed", .bounded)
struct SwitchFeedTests {
    private static var switches: Switches {
        var switches = Switches()
        switches.queries["profile"] = .init(freshness: 0)
        return switches
    }

    private func pull(
        _ world: SyncWorld,
        _ since: Int64,
        config: Int64?,
        limit: Int? = nil
    ) async throws -> PullAnswer {
        try await world.authority.pull(
            world.account,
            Authority.PullRequest(since: since, limit: limit, config: config)
        )
    }

    @Test(arguments: [nil, 0] as [Int64?])
    func `without switches a page is as it was`(config: Int64?) async throws {
        let world = try await SyncWorld()

        let answer = try await pull(world, 0, config: config)

        #expect(answer.changes.map(\.collection) == ["$account", "$balance"])
    }

    @Test(arguments: [nil, 0, 1, 7] as [Int64?])
    func `a read from the start begins with the switches`(config: Int64?) async throws {
        let world = try await SyncWorld()
        _ = try await world.authority.setSwitches(Self.switches)

        let answer = try await pull(world, 0, config: config)

        #expect(answer.changes.map(\.collection) == ["$config", "$account", "$balance"])
        let value = try #require(answer.changes.first?.value)
        let read = try #require(NumberedSwitches.reading(value))
        #expect(read.numbered == NumberedSwitches(revision: 1, Self.switches))
        #expect(read.faults.isEmpty)
        #expect(answer.changes.first?.seq == 0 && answer.next == 2)
    }

    @Test(arguments: [(nil, 0), (0, 1), (1, 0), (9, 1)] as [(Int64?, Int)])
    func `a reader gets the switches at its own number if it has others`(
        config: Int64?,
        count: Int
    ) async throws {
        let world = try await SyncWorld()
        let head = try await world.pull().head
        _ = try await world.authority.setSwitches(Self.switches)

        let answer = try await pull(world, head, config: config)

        #expect(answer.changes.map(\.collection) == Array(repeating: "$config", count: count))
        #expect(answer.changes.allSatisfy { $0.seq == head })
        #expect(answer.next == head && answer.head == head && !answer.hasMore && !answer.reset)
    }

    @Test func `removed switches are sent as empty ones`() async throws {
        let world = try await SyncWorld()
        let head = try await world.pull().head
        _ = try await world.authority.setSwitches(Self.switches)
        _ = try await world.authority.setSwitches(Switches())

        let answer = try await pull(world, head, config: 1)

        let value = try #require(answer.changes.first?.value)
        #expect(NumberedSwitches.reading(value)?.numbered == NumberedSwitches(revision: 2))
    }

    @Test func `a change of the switches writes to no feed`() async throws {
        let world = try await SyncWorld()
        let before = try await world.pull()
        _ = try await world.authority.setSwitches(Self.switches)

        #expect(try await world.pull().head == before.head)
    }

    @Test func `switches take no room of a page`() async throws {
        let world = try await SyncWorld()
        _ = try await world.authority.setSwitches(Self.switches)

        let first = try await pull(world, 0, config: nil, limit: 1)
        let second = try await pull(world, first.next, config: nil, limit: 1)

        #expect(first.changes.map(\.collection) == ["$config", "$account"] && first.hasMore)
        #expect(second.changes.map(\.collection) == ["$balance"] && !second.hasMore)
    }

    @Test func `the text of a page is what its message says`() async throws {
        let world = try await SyncWorld()
        _ = try await world.authority.setSwitches(Self.switches)
        let request = Authority.PullRequest(since: 0)

        let json = try await world.authority.pullJSON(world.account, request)

        let answer = try JSONDecoder().decode(PullAnswer.self, from: Data(json))
        #expect(try await world.authority.pull(world.account, request) == answer)
    }

    @Test func `a live event of switches has no id`() async throws {
        let world = try await SyncWorld()
        let head = try await world.pull().head
        _ = try await world.authority.setSwitches(Self.switches)
        let answer = try await pull(world, head, config: 0)

        let events = String(decoding: LiveEvents.bytes(of: answer, after: head), as: UTF8.self)

        #expect(events.hasPrefix("event: change\ndata: ") && !events.contains("\nid: "))
    }

    @Test func `switches and their number survive a restart`() async throws {
        let world = try await SyncWorld()
        _ = try await world.authority.setSwitches(Self.switches)
        let next = Authority(storage: world.storage, keys: SigningKeys(), clock: world.clock)

        try await next.loadSwitches()

        #expect(next.switches.revision == 1)
        #expect(try await next.setSwitches(Switches()).revision == 2)
    }

    @Test func `apps keep their switches while the storage cannot be read`() async throws {
        let world = try await SyncWorld()
        let head = try await world.pull().head
        _ = try await world.authority.setSwitches(Self.switches)
        let switches = world.authority.switches

        switches.forget()

        #expect(switches.change(since: head, known: 0) == nil)
        #expect(switches.change(since: 0, known: 1) == nil)
        try await world.authority.loadSwitches()
        #expect(switches.change(since: head, known: 0) != nil)
    }

    @Test func `listeners are notified of a change`() async throws {
        let world = try await SyncWorld()
        let overview = try await confirmation { changed in
            world.authority.switches.onChange { changed() }
            return try await world.authority.setSwitches(Self.switches)
        }
        #expect(overview.revision == 1)
    }

    @Test func `an administrator's switches must be valid`() throws {
        let error = #expect(throws: Problem.self) {
            try Switches(checking: ["queries": ["a": ["timeout": 90]]])
        }
        #expect(error?.code == .invalidContent)
        #expect(error?.detail.contains("queries.a.timeout") == true)
    }

    @Test func `an administrator's switches have at most 16 KiB`() {
        var switches = Switches()
        for number in 0..<190 {
            let name = "\(number)" + String(repeating: "x", count: 100)
            switches.mutations[name] = .init(optimism: false)
        }
        #expect(throws: Problem.self) { try Switches(checking: switches.json) }
    }
}
