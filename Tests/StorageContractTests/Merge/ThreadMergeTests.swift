import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Threads of a guest that is merged into an account, beyond those of `ThreadContractTests`.
@Suite("Merges of threads", .bounded)
struct ThreadMergeTests {
    private func start(
        _ world: MergeWorld,
        _ who: Identity,
        _ key: String,
        in thread: Identifier
    ) async throws(Problem) -> CallStart {
        var terms = CallTerms(
            operation: Identifier(at: world.clock.now()),
            function: "ask",
            hold: 5,
            life: .seconds(600)
        )
        terms.question = ThreadQuestion(thread: thread, content: MessageContent("a question"))
        return try await world.authority.start(
            who.account,
            Submission(key: key, fingerprint: Fingerprint(key), content: .success(terms))
        )
    }

    /// Asks a question in a thread, and answers it.
    private func ask(
        _ world: MergeWorld,
        _ who: Identity,
        _ key: String,
        in thread: Identifier
    ) async throws {
        guard case .accepted(let call) = try await start(world, who, key, in: thread) else {
            throw Problem(.internalFault, "The call was replayed.")
        }
        _ = try await world.authority.settle(
            call,
            .succeeded(charge: 2) { _, _ in Array("{}".utf8) },
            parts: nil,
            with: [],
            recording: nil,
            leaving: MessageEnd(content: MessageContent("an answer"))
        )
    }

    /// The number of live records of a collection in the feed of an account.
    private func count(
        _ world: MergeWorld,
        _ who: Identity,
        _ collection: String
    ) async throws -> Int {
        try await world.authority.pull(who.account, .init(since: 0, limit: 1_000)).changes
            .count { $0.collection == collection && !$0.deleted }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a merged guest's deleted thread stays deleted, and its messages are removed`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let gone = Identifier(at: world.clock.now())
            let kept = Identifier(at: world.clock.now() + .seconds(1))
            try await ask(world, guest, "k", in: gone)
            try await ask(world, guest, "l", in: kept)
            let deletion = PushedOperation(
                id: Identifier(at: world.clock.now()),
                sequence: 1,
                lane: "main",
                mutator: DeleteThread.name,
                arguments: ["id": .string(gone.description)]
            )
            #expect(try await world.push(guest, [deletion]).results.map(\.status) == [.applied])
            _ = try await world.authority.merge(guest, into: account.account)

            #expect(try await count(world, account, "$threads") == 1)
            _ = try await world.authority.removeDeletedThreads()
            #expect(try await count(world, account, "$messages") == 2)
            let refusal = await world.refusal { () async throws(Problem) in
                try await start(world, account, "m", in: gone)
            }
            #expect(refusal?.code == .notFound)
            try await ask(world, account, "n", in: kept)
            #expect(try await count(world, account, "$messages") == 4)
            #expect(try await world.authority.balance(account.account).held == 0)
            try await world.checkSums()
            try await world.checkCounts(account)
        }
    }

    private func push(
        _ world: MergeWorld,
        _ who: Identity,
        _ mutator: String,
        _ arguments: [String: JSONValue]
    ) async throws {
        let operation = PushedOperation(
            id: Identifier(at: world.clock.now()),
            sequence: 1,
            lane: "main",
            mutator: mutator,
            arguments: .object(arguments)
        )
        #expect(try await world.push(who, [operation]).results.map(\.status) == [.applied])
    }

    // An app may use a fixed id for a thread that each user has.
    @Test(arguments: StorageDriver.allCases)
    func `a thread of both sides becomes one, with the guest's messages behind the account's`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let both = Identifier(at: world.clock.now())
            for key in ["a", "b"] { try await ask(world, account, key, in: both) }
            for key in ["g", "h"] { try await ask(world, guest, key, in: both) }
            let id = JSONValue.string(both.description)
            try await push(world, guest, RenameThread.name, ["id": id, "title": "Mine"])
            _ = try await world.authority.merge(guest, into: account.account)

            let history = ThreadHistory(authority: world.authority)
            let last = try await history.last(20, of: RecordID(both), account.account)
            let messages = Array(last.reversed())
            #expect(messages.map(\.position) == Array(1...8))
            #expect(messages.compactMap(\.call) == ["a", "a", "b", "b", "g", "g", "h", "h"])
            let thread = try await world.authority.thread(RecordID(both), of: account.account)
            #expect(thread?.messages == 8 && thread?.lastPosition == 8)
            #expect(thread?.title == "Mine")
            try await ask(world, account, "next", in: both)
            let rules = HistoryRules(tokens: 4_000, messages: 40)
            let context = try await history.context(of: both, account.account, rules)
            #expect(context.count == 10)
            try await world.checkSums()
            try await world.checkCounts(account)
        }
    }

    // An app may derive a key, such as that of the reading of a day.
    @Test(arguments: StorageDriver.allCases)
    func `a joined thread counts the messages of a call that both sides made once`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let both = Identifier(at: world.clock.now())
            for key in ["today", "a"] { try await ask(world, account, key, in: both) }
            for key in ["today", "g"] { try await ask(world, guest, key, in: both) }
            _ = try await world.authority.merge(guest, into: account.account)

            #expect(try await count(world, account, "$messages") == 6)
            let thread = try await world.authority.thread(RecordID(both), of: account.account)
            #expect(thread?.messages == 6 && thread?.lastPosition == 8)
            try await world.checkCounts(account)
        }
    }

    @Test(arguments: StorageDriver.allCases, [true, false])
    func `a thread that one side deleted continues if the other side has it`(
        driver: StorageDriver,
        isDeletedByGuest: Bool
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage)
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            let both = Identifier(at: world.clock.now())
            try await ask(world, account, "a", in: both)
            try await ask(world, guest, "g", in: both)
            let id = JSONValue.string(both.description)
            let side = isDeletedByGuest ? guest : account
            try await push(world, side, DeleteThread.name, ["id": id])

            // The messages that are to be removed must not become those of the other thread.
            let refusal = await world.refusal { () async throws(Problem) in
                _ = try await world.authority.merge(guest, into: account.account)
            }
            #expect(refusal?.code == .operationInProgress && refusal?.retryAfter == 1)
            _ = try await world.authority.removeDeletedThreads()
            _ = try await world.authority.merge(guest, into: account.account)

            #expect(try await count(world, account, "$threads") == 1)
            #expect(try await count(world, account, "$messages") == 2)
            try await ask(world, account, "next", in: both)
            _ = try await world.authority.removeDeletedThreads()
            #expect(try await count(world, account, "$messages") == 4)
            try await world.checkSums()
            try await world.checkCounts(account)
        }
    }
}
