import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Refuses to be applied.
private struct RefusedRecord: RecordMutation {
    static let name = "test.refused"
    func apply(to records: inout Records) throws { throw Refusal("too_dark", "Use more light.") }
}

/// The records that a call changes in the transaction that charges it and stores its answer.
@Suite("Records of calls", .bounded)
struct CallRecordTests {
    private func withWorld(
        _ driver: StorageDriver,
        _ change: @escaping (inout AuthoritySettings) -> Void = { _ in },
        _ body: (MergeWorld) async throws -> Void
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await body(MergeWorld(over: storage, change))
        }
    }

    /// Returns the records that a call with the output writes: one for each text.
    private func records(
        _ ids: [String] = ["r"],
        of account: Identifier,
        refused: Bool = false,
        size: Int = 1
    ) async throws -> CallRecords {
        let ids = try ids.map { try #require(RecordID($0)) }
        return await CallRecords(
            { output in
                { completed in
                    if refused { return [RefusedRecord()] }
                    return ids.map { id in
                        PutRecord(
                            collection: "notes",
                            id: id,
                            fields: [
                                "text": .string(
                                    String(repeating: output.string ?? "", count: size)
                                ),
                                "key": .string(completed.key),
                            ]
                        )
                    }
                }
            },
            of: Array(#""made""#.utf8),
            for: account
        ) { .failed($0) }
    }

    private static let end = CallEnd.succeeded(charge: 2) { balance, _ in
        Array(#"{"head":\#(balance.head),"left":\#(balance.available)}"#.utf8)
    }

    private func settle(
        _ call: AcceptedCall,
        _ world: MergeWorld,
        _ records: CallRecords
    ) async throws(Problem) -> Answer {
        try await world.authority.settle(call, Self.end, parts: nil, with: [], recording: records)
    }

    /// Returns the changes of the account's notes, from a number of the feed on.
    private func notes(
        _ who: Identity,
        _ world: MergeWorld,
        since number: Int64 = 0
    ) async throws -> [RecordChange] {
        let page = try await world.authority.pull(who.account, .init(since: number))
        return page.changes.filter { $0.collection == "notes" }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a call stores its record with its charge, and the answer names the feed's number`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await world.call(who, "k", hold: 5)
            let answer = try await settle(call, world, try await records(of: who.account))

            let balance = try await world.authority.balance(who.account)
            #expect(balance.available == 98 && balance.held == 0)
            #expect(answer.stored.head == balance.head)
            let notes = try await notes(who, world)
            #expect(notes.map(\.id.text) == ["r"])
            #expect(notes.first?.value?["text"] == "made" && notes.first?.value?["key"] == "k")
            #expect(notes.allSatisfy { $0.seq <= balance.head })
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a repeated end returns the same answer and changes nothing`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await world.call(who, "k", hold: 5)
            let first = try await settle(call, world, try await records(of: who.account))
            let head = try await world.authority.balance(who.account).head
            let second = try await settle(call, world, try await records(of: who.account))
            #expect(second.stored == first.stored)
            #expect(try await world.authority.balance(who.account).head == head)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `refused records fail the call, and nothing is charged or changed`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await world.call(who, "k", hold: 5, units: 1)
            let refused = try await records(of: who.account, refused: true)
            let answer = try await settle(call, world, refused)

            let problem = try JSONDecoder().decode(Problem.self, from: Data(answer.stored.body))
            #expect(problem.code.rawValue == "too_dark")
            let balance = try await world.authority.balance(who.account)
            #expect(balance.available == 100 && balance.held == 0)
            #expect(try await world.used(who) == 0)
            #expect(try await notes(who, world).isEmpty)
        }
    }

    @Test(arguments: StorageDriver.allCases, [17, 5])
    func `the records of a call are bounded in number and size`(
        driver: StorageDriver,
        count: Int
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await world.call(who, "k", hold: 5)
            let many = try await records(
                (0..<count).map { "r\($0)" },
                of: who.account,
                // Five records of 60,000 bytes each are too much together.
                size: count == 5 ? 15_000 : 1
            )
            let answer = try await settle(call, world, many)
            #expect(answer.stored.status != 200)
            #expect(try await notes(who, world).isEmpty)
            #expect(try await world.authority.balance(who.account).available == 100)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a merged guest's call stores its record in the account`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let call = try await world.call(guest, "k", hold: 5)
            _ = try await world.authority.merge(guest, into: account.account)
            _ = try await settle(call, world, try await records(of: guest.account))
            #expect(try await notes(account, world).map(\.id.text) == ["r"])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a process that dies before the end has stored nothing, and the repetition stores it once`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let lost = try await world.call(who, "k", hold: 5)
            // The run has ended, but its process dies before the end is stored.
            _ = try await records(of: who.account)
            _ = try await world.authority.recover()
            #expect(try await notes(who, world).isEmpty)
            #expect(try await world.authority.balance(who.account).available == 100)
            await #expect(throws: Problem.self) {
                try await settle(lost, world, try await records(of: who.account))
            }
            #expect(try await notes(who, world).isEmpty)

            let again = try await world.call(who, "k", hold: 5)
            _ = try await settle(again, world, try await records(of: who.account))
            let head = try await world.authority.balance(who.account).head
            // The answer was lost with the process, which had stored it.
            _ = try await settle(again, world, try await records(of: who.account))
            #expect(try await notes(who, world).map(\.id.text) == ["r"])
            #expect(try await world.authority.balance(who.account).head == head)
            #expect(try await world.authority.balance(who.account).available == 98)
        }
    }
}
