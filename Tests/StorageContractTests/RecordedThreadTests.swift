import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// A call in a thread whose function changes records: one commit has the record, the answer in the
/// thread and the charge.
@Suite("Records of calls in threads", .bounded)
struct RecordedThreadTests {
    private struct Refused: RecordMutation {
        static let name = "test.refused"
        func apply(to records: inout Records) throws {
            throw Refusal("too_dark", "Use more light.")
        }
    }

    private func records(of account: Identifier, refused: Bool = false) async -> CallRecords {
        await CallRecords(
            { output in
                { completed in
                    if refused { return [Refused()] }
                    return [
                        PutRecord(
                            collection: "notes",
                            id: try RecordID(derivedFrom: completed.key),
                            fields: ["text": output]
                        )
                    ]
                }
            },
            of: Array(#""Soon.""#.utf8),
            for: account
        ) { .failed($0) }
    }

    /// Makes a call in a thread, up to its end.
    private func call(
        _ world: MergeWorld,
        _ who: Identity,
        refused: Bool = false,
        repeating: Int = 1
    ) async throws -> [Answer] {
        var terms = CallTerms(
            operation: Identifier(at: world.clock.now()),
            function: "ask",
            hold: 5,
            life: .seconds(600)
        )
        terms.question = ThreadQuestion(
            thread: Identifier(at: world.clock.now()),
            content: MessageContent(["question": "When?"])
        )
        let start = try await world.authority.start(
            who.account,
            Submission(key: "k", fingerprint: Fingerprint("k"), content: .success(terms))
        )
        guard case .accepted(let accepted) = start else {
            throw Problem(.internalFault, "The call was replayed.")
        }
        let end = CallEnd.succeeded(charge: 2) { balance, _ in
            Array(#"{"head":\#(balance.head)}"#.utf8)
        }
        var answers: [Answer] = []
        for _ in 0..<repeating {
            answers.append(
                try await world.authority.settle(
                    accepted,
                    end,
                    parts: nil,
                    with: [],
                    recording: await records(of: who.account, refused: refused),
                    leaving: MessageEnd(content: MessageContent(.string("Soon.")))
                )
            )
        }
        return answers
    }

    /// The changes in the account's feed, except for deletions.
    private func changes(
        _ world: MergeWorld,
        _ who: Identity,
        of collection: String
    ) async throws -> [RecordChange] {
        try await world.authority.pull(who.account, .init(since: 0, limit: 1_000)).changes
            .filter { $0.collection == collection && !$0.deleted }
    }

    @Test(arguments: StorageDriver.allCases)
    func `one commit has the record, the answer in the thread and the charge`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let who = try await world.guest(1)
            let answers = try await call(world, who, repeating: 2)

            let balance = try await world.authority.balance(who.account)
            #expect(balance.available == 98 && balance.held == 0)
            #expect(answers.map(\.stored.head) == [balance.head, balance.head])
            let notes = try await changes(world, who, of: "notes")
            #expect(notes.map { $0.value?["text"] } == ["Soon."])
            let messages = try await changes(world, who, of: "$messages")
            let ended = messages.filter { $0.value?["state"] == "complete" }
            #expect(ended.count == 2 && messages.count == 2)
            #expect((notes + messages).allSatisfy { $0.seq <= balance.head })
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `refused records leave a failed answer in the thread, and charge nothing`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let who = try await world.guest(1)
            let answers = try await call(world, who, refused: true)

            #expect(answers.first?.stored.status != 200)
            let balance = try await world.authority.balance(who.account)
            #expect(balance.available == 100 && balance.held == 0)
            #expect(try await changes(world, who, of: "notes").isEmpty)
            let messages = try await changes(world, who, of: "$messages")
            let answer = messages.first { $0.value?["role"] == "assistant" }
            #expect(answer?.value?["state"] == "failed")
            #expect(answer?.value?["finishReason"] == "too_dark")
        }
    }
}
