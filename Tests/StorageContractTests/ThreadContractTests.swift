import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The messages of threads, in the transactions that accept and end calls.
@Suite("Messages of calls", .bounded)
struct ThreadContractTests {
    private static let thread = Identifier(at: Timestamp(millisecondsSince1970: 1_763_752_719_250))

    private func withWorld(
        _ driver: StorageDriver,
        _ change: @escaping (inout AuthoritySettings) -> Void = { _ in },
        _ body: (MergeWorld) async throws -> Void
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await body(MergeWorld(over: storage, change))
        }
    }

    private func terms(
        _ world: MergeWorld,
        hold: Int64,
        _ question: JSONValue,
        in thread: Identifier
    ) -> CallTerms {
        var terms = CallTerms(
            operation: Identifier(at: world.clock.now()),
            function: "ask",
            hold: hold,
            life: .seconds(600)
        )
        terms.question = ThreadQuestion(thread: thread, content: MessageContent(question))
        return terms
    }

    private func start(
        _ world: MergeWorld,
        _ who: Identity,
        _ key: String,
        hold: Int64 = 5,
        in thread: Identifier = Self.thread
    ) async throws -> AcceptedCall {
        let terms = terms(world, hold: hold, ["question": "When?"], in: thread)
        let start = try await world.authority.start(
            who.account,
            Submission(key: key, fingerprint: Fingerprint(key), content: .success(terms))
        )
        guard case .accepted(let call) = start else {
            throw Problem(.internalFault, "The call was replayed.")
        }
        return call
    }

    private func settle(
        _ world: MergeWorld,
        _ call: AcceptedCall,
        _ end: CallEnd = .succeeded(charge: 2) { balance, _ in
            Array(#"{"head":\#(balance.head)}"#.utf8)
        },
        _ text: String? = "Soon."
    ) async throws -> Answer {
        let content = text.map { MessageContent(.string($0)) }
        return try await world.authority.settle(
            call,
            end,
            parts: nil,
            with: [],
            recording: nil,
            leaving: MessageEnd(content: content)
        )
    }

    /// Returns the messages in the account's feed, by their positions.
    private func messages(
        _ world: MergeWorld,
        _ who: Identity
    ) async throws -> [ChatMessage] {
        try await world.authority.pull(who.account, .init(since: 0, limit: 1_000)).changes
            .filter { $0.collection == "$messages" && !$0.deleted }
            .map { change in
                let json = try #require(change.value).encoded
                return try RecordValue(json: Data(json)).record(ChatMessage.self, id: change.id)
            }
            .sorted { $0.position < $1.position }
    }

    private func states(_ world: MergeWorld, _ who: Identity) async throws -> [ChatMessage.State] {
        try await messages(world, who).map(\.state)
    }

    private func thread(
        _ world: MergeWorld,
        _ who: Identity,
        _ id: Identifier = Self.thread
    ) async throws -> ChatThread? {
        try await world.authority.thread(RecordID(id), of: who.account)
    }

    @Test(arguments: StorageDriver.allCases)
    func `a call begins its thread with its hold, and ends its answer with its charge`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            #expect(try await states(world, who) == [.complete, .making])
            #expect(try await world.authority.balance(who.account).held == 5)

            let answer = try await settle(world, call)
            let found = try await messages(world, who)
            #expect(found.map(\.role) == [.user, .assistant])
            #expect(found.map(\.state) == [.complete, .complete])
            #expect(found.map(\.text) == ["When?", "Soon."])
            #expect(found.map(\.charged) == [nil, 2])
            #expect(found.map(\.call) == ["k", "k"])
            #expect(found.map(\.id.text) == ["k:1", "k:2"])
            let stored = try #require(try await thread(world, who))
            #expect(stored.messages == 2 && stored.function == "ask")
            let balance = try await world.authority.balance(who.account)
            #expect(balance.available == 98 && answer.stored.head == balance.head)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a repeated end writes nothing`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            let first = try await settle(world, call)
            let head = try await world.authority.balance(who.account).head
            let second = try await settle(world, call, text: "Never.")
            #expect(second.stored == first.stored)
            #expect(try await world.authority.balance(who.account).head == head)
            #expect(try await messages(world, who).map(\.text) == ["When?", "Soon."])
        }
    }

    private func settle(
        _ world: MergeWorld,
        _ call: AcceptedCall,
        text: String
    ) async throws -> Answer {
        try await settle(
            world,
            call,
            .succeeded(charge: 2) { _, _ in Array("{}".utf8) },
            text
        )
    }

    @Test(arguments: StorageDriver.allCases)
    func `an interrupted call leaves its text and its charge`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            let end = CallEnd.cut(charge: 3, takesQuota: false, Problem(.interrupted, "Cut."))
            _ = try await settle(world, call, end, "So")
            let answer = try #require(try await messages(world, who).last)
            #expect(answer.state == .cut && answer.charged == 3 && answer.text == "So")
            #expect(answer.finishReason == "interrupted")
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a call that fails leaves a failed answer, which its repetition replaces`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            _ = try await settle(world, call, .failed(Problem(.upstreamFailed, "Again.")), nil)
            #expect(try await states(world, who) == [.complete, .failed])
            let again = try await start(world, who, "k")
            #expect(try await states(world, who) == [.complete, .making])
            _ = try await settle(world, again)
            #expect(try await messages(world, who).map(\.text) == ["When?", "Soon."])
            #expect(try await thread(world, who)?.messages == 2)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a call that is withdrawn removes its messages and its empty thread`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            try await world.authority.withdraw(try await start(world, who, "k"))
            #expect(try await messages(world, who).isEmpty)
            #expect(try await thread(world, who) == nil)
            #expect(try await world.authority.balance(who.account).available == 100)

            _ = try await settle(world, try await start(world, who, "k"))
            try await world.authority.withdraw(try await start(world, who, "l"))
            #expect(try await thread(world, who)?.messages == 2)
        }
    }

    @Test(arguments: StorageDriver.allCases, [true, false])
    func `the expiry of a hold ends the answer of its call`(
        driver: StorageDriver,
        wasSent: Bool
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            if wasSent { _ = try await world.authority.markSent(call) }
            world.clock.advance(by: .seconds(601))
            try await world.authority.expireHolds()
            let answer = try #require(try await messages(world, who).last)
            #expect(answer.state == (wasSent ? .cut : .failed))
            #expect(answer.charged == (wasSent ? 5 : 0))
            let available = try await world.authority.balance(who.account).available
            #expect(available == (wasSent ? 95 : 100))
        }
    }

    @Test(arguments: StorageDriver.allCases, [0, 5])
    func `a process that dies leaves no answer that is being made`(
        driver: StorageDriver,
        hold: Int64
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            _ = try await start(world, who, "k", hold: hold)
            _ = try await world.authority.recover()
            #expect(try await states(world, who) == [.complete, .failed])
            #expect(try await world.authority.balance(who.account).available == 100)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a process that dies after it sent a call leaves an interrupted, paid answer`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            _ = try await world.authority.markSent(call)
            // Long before the hold expires.
            #expect(try await world.authority.recover() == 1)
            let answer = try #require(try await messages(world, who).last)
            #expect(answer.state == .cut && answer.charged == 5)
            #expect(answer.finishReason == "interrupted")
            let balance = try await world.authority.balance(who.account)
            #expect((balance.available, balance.held) == (95, 0))

            #expect(try await world.authority.recover() == 0)
            world.clock.advance(by: .seconds(601))
            #expect(try await world.authority.expireHolds() == 0)
        }
    }

    /// Replaces the stored value of the answer of a call.
    private func damage(
        _ world: MergeWorld,
        _ who: Identity,
        _ key: String,
        _ json: String
    ) async throws {
        let id = try #require(ChatMessage.answer(of: key))
        let name = RecordName("$messages", in: who.account, id)
        let command = Command<Void>(keys: [.record(name)]) { loaded in
            guard var row = loaded.record(name) else { return Decision(()) }
            row.value = Array(json.utf8)
            return Decision((), changes: [.put(.record(row))])
        }
        try await world.storage.perform(command).get()
    }

    private func stored(_ world: MergeWorld, _ who: Identity) async throws -> [JSONValue] {
        try await world.authority.pull(who.account, .init(since: 0, limit: 1_000)).changes
            .filter { $0.collection == "$messages" && !$0.deleted && $0.id.text.hasSuffix(":2") }
            .compactMap(\.value)
    }

    @Test(arguments: StorageDriver.allCases)
    func `an answer ends even if its message cannot be read`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            try await damage(world, who, "k", #"{"role":7,"state":"making","thread":"t"}"#)
            _ = try await settle(world, call)
            let answer = try #require(try await stored(world, who).first)
            #expect(answer["state"] == "complete" && answer["charged"] == 2)
            #expect(answer["text"] == "Soon." && answer["role"] == 7)
            #expect(try await world.authority.balance(who.account).available == 98)
        }
    }

    @Test(arguments: StorageDriver.allCases, [true, false])
    func `a message that is no object is removed by the end of its call`(
        driver: StorageDriver,
        isWithdrawn: Bool
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            try await damage(world, who, "k", "[]")
            if isWithdrawn {
                try await world.authority.withdraw(call)
            } else {
                _ = try await settle(world, call)
            }
            #expect(try await stored(world, who).isEmpty)
            let balance = try await world.authority.balance(who.account)
            #expect(balance.available == (isWithdrawn ? 100 : 98) && balance.held == 0)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an answer whose end does not fit in a record ends without it`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            let reason = String(repeating: "r", count: WireLimits.recordBytes)
            _ = try await world.authority.settle(
                call,
                .succeeded(charge: 2) { _, _ in Array("{}".utf8) },
                parts: nil,
                with: [],
                recording: nil,
                leaving: MessageEnd(content: MessageContent("Soon."), finishReason: reason)
            )
            let answer = try #require(try await messages(world, who).last)
            #expect(answer.state == .complete && answer.text == "Soon." && answer.charged == 2)
            #expect(answer.finishReason == "record_too_large" && answer.isCut)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a title that its thread cannot store is refused`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            _ = try await settle(world, try await start(world, who, "k"))
            let name = RecordName("$threads", in: who.account, RecordID(Self.thread))
            let command = Command<Void>(keys: [.record(name)]) { loaded in
                guard var row = loaded.record(name) else { return Decision(()) }
                row.value = Array("[]".utf8)
                return Decision((), changes: [.put(.record(row))])
            }
            try await world.storage.perform(command).get()
            let refusal = await world.refusal { () async throws(Problem) in
                try await world.authority.setTitle("Title", of: name.id, who.account)
            }
            #expect(refusal?.code == .invalidContent)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a refused call writes no message`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            await #expect(throws: Problem.self) { try await start(world, who, "k", hold: 500) }
            let long = String(repeating: "k", count: 128)
            await #expect(throws: Problem.self) { try await start(world, who, long) }
            #expect(try await messages(world, who).isEmpty)
            #expect(try await thread(world, who) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the thread of another account is neither read nor changed`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (one, other) = (try await world.guest(1), try await world.guest(2))
            _ = try await settle(world, try await start(world, one, "k"))
            let id = RecordID(Self.thread)
            for collection in ["$threads", "$messages"] {
                let refusal = await world.refusal { () async throws(Problem) in
                    try await world.authority.record(id, in: collection, for: other.account)
                }
                #expect(refusal?.code == .notFound)
            }
            // The same id is another thread.
            _ = try await settle(world, try await start(world, other, "k"))
            #expect(try await thread(world, one)?.messages == 2)
            #expect(try await messages(world, other).count == 2)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a merged guest's threads, and its running call, become those of the account`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            _ = try await settle(world, try await start(world, guest, "k"))
            let running = try await start(world, guest, "l")
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await states(world, account).last == .making)
            _ = try await settle(world, running)
            #expect(try await messages(world, account).map(\.position) == [1, 2, 3, 4])
            #expect(try await states(world, account).allSatisfy { $0 == .complete })
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a thread and an account with too many messages or threads refuse calls`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver, { ($0.messagesPerThread, $0.threadsPerAccount) = (3, 2) }) {
            world in
            let who = try await world.guest(1)
            _ = try await settle(world, try await start(world, who, "a"))
            let full = try await refusal(world, who, "b", Self.thread)
            #expect(full?.code == .storageFull)
            _ = try await start(world, who, "c", in: Identifier(at: world.clock.now()))
            let many = try await refusal(world, who, "d", Identifier(at: world.clock.now()))
            #expect(many?.code == .storageFull)
            #expect(try await world.authority.balance(who.account).held == 5)
            try await world.checkCounts(who)
            // The thread of a call that is withdrawn, or that is deleted, makes room.
            try await delete(world, who)
            let new = try await start(world, who, "e", in: Identifier(at: world.clock.now()))
            try await world.authority.withdraw(new)
            _ = try await start(world, who, "f", in: Identifier(at: world.clock.now()))
            try await world.checkCounts(who)
            let late = try await refusal(world, who, "g", Identifier(at: world.clock.now()))
            #expect(late?.code == .storageFull)
        }
    }

    private func refusal(
        _ world: MergeWorld,
        _ who: Identity,
        _ key: String,
        _ thread: Identifier
    ) async throws -> Problem? {
        let terms = terms(world, hold: 5, "?", in: thread)
        return await world.refusal { () async throws(Problem) in
            try await world.authority.start(
                who.account,
                Submission(key: key, fingerprint: Fingerprint(key), content: .success(terms))
            )
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an answer is stored even if it exceeds the account's storage`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver, { $0.bytesPerAccount = 4_000 }) { world in
            let who = try await world.guest(1)
            let call = try await start(world, who, "k")
            let text = String(repeating: "a", count: 10_000)
            _ = try await settle(world, call, text: text)
            #expect(try await messages(world, who).last?.text == text)
            #expect(try await refusal(world, who, "l", Self.thread)?.code == .storageFull)
        }
    }

    private func delete(
        _ world: MergeWorld,
        _ who: Identity,
        _ thread: String = Self.thread.description
    ) async throws {
        let operation = PushedOperation(
            id: Identifier(at: world.clock.now()),
            sequence: 1,
            lane: "main",
            mutator: DeleteThread.name,
            arguments: ["id": .string(thread)]
        )
        let results = try await world.push(who, [operation]).results
        #expect(results.map(\.status) == [.applied])
    }

    @Test(arguments: StorageDriver.allCases)
    func `a deleted thread loses its messages in bounded steps, and cannot begin again`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            for number in 0..<(ThreadCommands.removedAtOnce / 2 + 1) {
                let call = try await start(world, who, "k\(number)", hold: 0)
                let free = CallEnd.succeeded(charge: 0) { _, _ in Array("{}".utf8) }
                _ = try await settle(world, call, free)
            }
            let running = try await start(world, who, "last")
            try await delete(world, who)
            #expect(try await thread(world, who) == nil)
            #expect(try await refusal(world, who, "new", Self.thread)?.code == .notFound)

            #expect(try await world.authority.removeDeletedThreads(limit: 1) == 1)
            #expect(try await messages(world, who).count > 0)
            #expect(try await world.authority.removeDeletedThreads() == 1)
            #expect(try await messages(world, who).isEmpty)
            #expect(try await world.authority.removeDeletedThreads() == 0)

            // The call that ran is charged, and its deleted answer does not return.
            _ = try await settle(world, running)
            #expect(try await messages(world, who).isEmpty)
            #expect(try await world.authority.balance(who.account).available == 98)
            #expect(try await refusal(world, who, "new", Self.thread)?.code == .notFound)
        }
    }

    private func deletions(_ world: MergeWorld, _ who: Identity) async throws -> Int {
        let query = DocumentQuery(.deletedThread, of: who.account, limit: 10_000)
        return try await world.storage.documents(query).count
    }

    @Test(arguments: StorageDriver.allCases)
    func `a deletion is remembered for 90 days`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            try await delete(world, who)
            #expect(try await world.authority.removeDeletedThreads() == 1)
            world.clock.advance(by: DeletedThread.kept)
            try await world.authority.sweep()
            #expect(try await refusal(world, who, "late", Self.thread)?.code == .notFound)
            world.clock.advance(by: .seconds(1))
            try await world.authority.sweep()
            #expect(try await deletions(world, who) == 0)
            _ = try await start(world, who, "k")
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an account with many deletions forgets the oldest after a week`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            // One that is older than the others.
            try await delete(world, who)
            world.clock.advance(by: .seconds(1))
            let now = world.clock.now()
            let others = (1..<DeletedThread.number).map { _ in
                DeletedThread(account: who.account, thread: RecordID(Identifier(at: now)), at: now)
            }
            let command = Command<Void>(keys: []) { _ in
                Decision((), changes: others.map { .put($0) })
            }
            try await world.storage.perform(command).get()
            #expect(try await world.authority.removeDeletedThreads() == 1)
            #expect(try await deletions(world, who) == DeletedThread.number)

            // A late call may still arrive.
            try await delete(world, who, Identifier(at: world.clock.now()).description)
            #expect(try await world.authority.removeDeletedThreads() == 1)
            #expect(try await deletions(world, who) == DeletedThread.number + 1)
            #expect(try await refusal(world, who, "late", Self.thread)?.code == .notFound)

            world.clock.advance(by: DeletedThread.leastKept + .seconds(1))
            try await delete(world, who, Identifier(at: world.clock.now()).description)
            #expect(try await world.authority.removeDeletedThreads() == 1)
            #expect(try await deletions(world, who) == DeletedThread.number)
            // The oldest one is forgotten.
            _ = try await start(world, who, "k")
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a removal that cannot be read does not keep others`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            _ = try await settle(world, try await start(world, who, "k"))
            try await delete(world, who)
            // Its id comes before those of all accounts.
            let row = DocumentRow(kind: .threadRemoval, id: "!", body: Array("{}".utf8))
            let command = Command<Void>(keys: []) { _ in
                Decision((), changes: [.put(.document(row))])
            }
            try await world.storage.perform(command).get()
            let failure = await world.refusal { () async throws(Problem) in
                try await world.authority.removeDeletedThreads()
            }
            #expect(failure?.code == .internalFault)
            #expect(try await messages(world, who).isEmpty)
        }
    }

    // A device may delete a thread before the call that begins it has arrived.
    @Test(arguments: StorageDriver.allCases)
    func `a thread that was deleted before its first call cannot begin`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            try await delete(world, who)
            #expect(try await refusal(world, who, "late", Self.thread)?.code == .notFound)
            #expect(try await world.authority.removeDeletedThreads() == 1)
            #expect(try await messages(world, who).isEmpty)
            #expect(try await world.authority.balance(who.account).held == 0)
            _ = try await start(world, who, "k", in: Identifier(at: world.clock.now()))
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a thread is read and deleted by its id in upper case`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let upper = Self.thread.description.uppercased()
            let id = try #require(RecordID(upper))
            _ = try await settle(world, try await start(world, who, "k"))
            for order in [nil, "order", "-order"] {
                let request = Authority.RecordsRequest(
                    where: ["thread": .string(upper)],
                    order: order
                )
                let page = try await world.authority.records(
                    in: "$messages",
                    for: who.account,
                    request
                )
                #expect(page.items.count == 2, "\(order ?? "-")")
            }
            let one = try await world.authority.record(id, in: "$threads", for: who.account)
            #expect(one.id == RecordID(Self.thread))
            let byID = Authority.RecordsRequest(ids: [id])
            let found = try await world.authority.records(in: "$threads", for: who.account, byID)
            #expect(found.items.count == 1)

            try await delete(world, who, upper)
            #expect(try await thread(world, who) == nil)
            _ = try await world.authority.removeDeletedThreads()
            #expect(try await messages(world, who).isEmpty)

            let other = try await world.guest(2)
            try await delete(world, other, upper)
            #expect(try await refusal(world, other, "late", Self.thread)?.code == .notFound)
        }
    }

    @Test(arguments: StorageDriver.allCases, [false, true])
    func `the messages of a thread are listed in order, without those of others`(
        driver: StorageDriver,
        isDescending: Bool
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let others = [1, 0xFFFF_FFFF_FFFF].map {
                Identifier(at: Timestamp(millisecondsSince1970: $0))
            }
            for (number, id) in (others + [Self.thread, Self.thread, Self.thread]).enumerated() {
                _ = try await settle(world, try await start(world, who, "k\(number)", in: id))
            }
            var positions: [Int64] = []
            var cursor: String?
            repeat {
                let page = try await world.authority.records(
                    in: "$messages",
                    for: who.account,
                    Authority.RecordsRequest(
                        where: ["thread": .string(Self.thread.description)],
                        order: isDescending ? "-order" : "order",
                        limit: 4,
                        cursor: cursor
                    )
                )
                positions += page.items.compactMap { $0.value?["position"]?.integer }
                cursor = page.nextCursor
            } while cursor != nil
            let all = (1...6).map { Int64($0) }
            #expect(positions == (isDescending ? all.reversed() : all))
        }
    }
}
