import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Counts the records of a group, which may exceed the number that one operation can read.
struct CountGroup: RecordMutation {
    static let name = "counter.group"
    let group: String

    func apply(to records: inout Records) throws {
        let found = records.keys(in: "counters", where: "group", is: .string(group))
        records.set(Counter(id: .of("sum"), count: Int64(found.count)))
    }
}

/// Moves a record into a group, then looks up the group's members.
struct JoinAndCount: RecordMutation {
    static let name = "counter.join"
    let id: RecordID
    let group: String

    func apply(to records: inout Records) throws {
        records.set(Counter(id: id, count: 0, group: group))
        let found = records.keys(in: "counters", where: "group", is: .string(group))
        records.set(Counter(id: .of("sum"), count: Int64(found.count)))
    }
}

/// An operation finds all records with an index value, or is refused.
@Suite("Lookups of an operation", .bounded)
struct LookupLimitTests {
    private static let schema = RecordSchema(
        collections: [Counter.collection],
        mutations: [CountGroup.self, JoinAndCount.self]
    )

    private func client(
        members: Int,
        at authority: InMemoryAuthority,
        over network: FaultyNetwork? = nil
    ) async throws -> SanguineClient {
        for number in 0..<members {
            authority.set(Counter(id: .of("c\(number)"), count: 1, group: "many"))
        }
        var configuration = SanguineClient.Configuration.inMemory(
            server: .init(string: TestClient.server)
        )
        configuration.transport = network ?? authority
        configuration.schema = Self.schema
        configuration.logger = .silent
        let client = try SanguineClient(configuration)
        try await client.synchronize()
        return client
    }

    @Test func `a thousand records with one value are found on both sides`() async throws {
        let authority = InMemoryAuthority(schema: Self.schema)
        let client = try await client(members: 1_000, at: authority)
        let receipt = try client.perform(CountGroup(group: "many"))
        #expect(client.count("sum") == 1_000)
        #expect(try await receipt.outcome == .applied)
        #expect(authority.count("sum") == 1_000)
    }

    @Test func `one more record is refused on the device, with the reason`() async throws {
        let authority = InMemoryAuthority(schema: Self.schema)
        let client = try await client(members: 1_001, at: authority)
        let error = try #require(throws: SanguineError.self) {
            try client.perform(CountGroup(group: "many"))
        }
        guard case .problem(let problem) = error else {
            Issue.record("\(error)")
            return
        }
        #expect(problem.code == .invalidContent)
        #expect(problem.detail.contains("1,000") && problem.detail.contains("'group'"))
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `a record that the operation itself adds is counted`() async throws {
        let authority = InMemoryAuthority(schema: Self.schema)
        let client = try await client(members: 1_000, at: authority)
        let refusal = #expect(throws: SanguineError.self) {
            try client.perform(JoinAndCount(id: .of("new"), group: "many"))
        }
        #expect(refusal?.code == "invalid_content")
        #expect(client.count("new") == nil)
    }

    @Test func `the server refuses a group that has become too large`() async throws {
        let authority = InMemoryAuthority(schema: Self.schema)
        let network = FaultyNetwork(authority, seed: 1, clock: ContinuousClock())
        let client = try await client(members: 1_000, at: authority, over: network)
        // The device does not see the last record before its operation.
        network.partition()
        authority.set(Counter(id: .of("late"), count: 1, group: "many"))
        let receipt = try client.perform(CountGroup(group: "many"))
        network.heal()
        try await client.synchronize()
        guard case .refused(let problem) = try await receipt.outcome else {
            Issue.record("It was applied to some of the records.")
            return
        }
        #expect(problem.code == .invalidContent && problem.detail.contains("1,000"))
        #expect(authority.count("sum") == nil)
    }
}
