import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A server whose data was restored from an older copy.
@Suite("Epochs: records", .bounded) struct EpochTests {
    @Test(arguments: [true, false])
    func `after a restore a device shows the server's data, beyond its own position`(
        isNewProcess: Bool
    ) async throws {
        let fixture = RecordsFixture(onDisk: true)
        var client = try fixture.client()
        fixture.authority.set("kept", to: 1)
        let copy = fixture.authority.copy()
        for number in 0..<20 { fixture.authority.set("ghost\(number)", to: 1) }
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 21)

        fixture.authority.restore(copy)
        for number in 0..<40 { fixture.authority.set("new\(number)", to: 2) }
        if isNewProcess {
            client.close()
            client = try fixture.client()
        }
        try await client.synchronize()
        let ids = Set(client.records(Counter.self).map(\.id.text))
        #expect(ids == Set(["kept"] + (0..<40).map { "new\($0)" }))
    }

    @Test func `a restore of many pages is one step and survives another restore`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let client = try fixture.client()
        let empty = fixture.authority.copy()
        fixture.authority.set("ghost", to: 1)
        try await client.synchronize()

        fixture.authority.restore(empty)
        for number in 0..<3_000 { fixture.authority.set("new\(number)", to: 2) }
        fixture.network.hold()
        let synchronizing = Task { try await client.synchronize() }
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(1)
        #expect(client.count("ghost") == 1 && client.count("new1") == nil)
        fixture.authority.restore(empty)
        fixture.authority.set("newest", to: 3)
        fixture.network.release()
        try await synchronizing.finished()
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.id.text) == ["newest"])
    }

    @Test(arguments: [true, false])
    func `an operation that the lost history acknowledged is resent once`(
        isInCopy: Bool
    ) async throws {
        let fixture = RecordsFixture(onDisk: true)
        let client = try fixture.client()
        try await client.synchronize()
        let before = fixture.authority.copy()
        // No pull arrives before the restore.
        fixture.network.hold(.requests)
        let receipt = try client.add("a")
        try await fixture.network.releaseFirst(where: \.isPush)
        #expect(try await receipt.outcome == .applied)
        #expect(client.outbox.summary.settling == 1)
        let after = fixture.authority.copy()
        for number in 0..<5 { fixture.authority.set("ghost\(number)", to: 1) }

        fixture.authority.restore(isInCopy ? after : before)
        for number in 0..<9 { fixture.authority.set("new\(number)", to: 1) }
        fixture.network.release()
        try await client.synchronize()
        try await eventually("the operation is settled") {
            try? await client.synchronize()
            return client.outbox.summary == Outbox.Summary()
        }
        #expect(client.count("a") == 1 && client.records(Counter.self).count == 10)
        #expect(fixture.authority.record(Counter.self, .of("a"))?.count == 1)
        #expect(fixture.pushes.count == 2)
    }

    @Test func `data held back from a lost history is dropped when another history begins`() throws
    {
        let (second, third) = (try #require(Epoch("two")), try #require(Epoch("three")))
        var state = SyncState(schema: .standard, outbox: OutboxState(limit: 10, [:]), position: 1)
        state.outbox.enter(try #require(Epoch("one")))
        let id = Identifier(at: ManualWallClock().now())
        let mutation = CreateRecord(RecordKey("notes", .of("a")), [:])
        let operation = Replay.Operation(sequence: 1, id: id, mutation: mutation)
        var item = OutboxState.Item(id: id, sequence: 1, lane: "main")
        item.outcomeUnknown = true
        _ = try state.add(operation, as: item, over: RecordsFile.Base.empty)

        let page = PullAnswer(
            changes: [],
            next: 5,
            head: 8,
            hasMore: true,
            reset: true,
            epoch: second,
            operations: [PushResult(id: id, status: .applied, head: 5)]
        )
        _ = state.received(.init(page, since: 1, asked: [1]), over: RecordsFile.Base.empty)
        #expect(state.pullPosition == 5 && state.pullEpoch == second)
        let other = PullAnswer(
            changes: [],
            next: 3,
            head: 3,
            hasMore: false,
            reset: true,
            epoch: third
        )
        let actions = state.received(.init(other, since: 5), over: RecordsFile.Base.empty)
        #expect(actions.adopt == nil, "The second history has the operation that is sent again.")
        #expect(state.pullPosition == 3 && state.pullEpoch == third)
    }

    @Test(arguments: [true, false])
    func `an operation with a late acknowledgement from a lost history is resent`(
        isHeld: Bool
    ) throws {
        let (lost, present) = (try #require(Epoch("lost")), try #require(Epoch("present")))
        let base = RecordsFile.Base.empty
        var state = SyncState(
            schema: .standard,
            outbox: OutboxState(limit: 10, [.record: .init(operations: 1, sends: 1)]),
            position: 1
        )
        state.outbox.enter(lost)
        let id = Identifier(at: ManualWallClock().now())
        let mutation = CreateRecord(RecordKey("notes", .of("a")), [:])
        let operation = Replay.Operation(sequence: 1, id: id, mutation: mutation)
        let item = OutboxState.Item(id: id, sequence: 1, lane: "main")
        _ = try state.add(operation, as: item, over: base)
        let taken = state.outbox.startSend()
        let send = try #require(taken).send.number
        let answer = PullAnswer(
            changes: [],
            next: 8,
            head: 8,
            hasMore: false,
            reset: true,
            epoch: present
        )
        // The pull either asked about the operation, or it did not and is held back.
        let reset = SyncState.FeedBatch(answer, since: 1, asked: isHeld ? [] : [1])
        let first = state.received(reset, over: base)
        #expect((first.adopt == nil) == isHeld)
        if let batch = first.adopt { _ = try state.adopted(batch, over: base) }

        let result = PushResult(id: id, status: .applied, head: 5)
        let push = PushAnswer(results: [result], head: 5)
        let pushed = state.pushCompleted(send, push, epoch: lost, over: base)
        #expect(pushed.adopt == nil && pushed.missing == .more)
        let nothing = PullAnswer(changes: [], next: 8, head: 8, hasMore: false, epoch: present)
        let actions = state.received(.init(nothing, since: 8), over: base)
        #expect(actions.adopt == nil && actions.steps == [.reopened([1])])

        let again = state.outbox.startSend()
        let sendAgain = try #require(again).send.number
        let settled = state.pushCompleted(sendAgain, push, epoch: present, over: base)
        if let batch = settled.adopt { _ = try state.adopted(batch, over: base) }
        #expect(state.missing == .nothing)
        #expect(state.outbox.visible.isEmpty && state.position == 8)
    }

    @Test func `a session that only a lost history has ended continues`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let client = try fixture.client()
        try await client.synchronize()
        let copy = fixture.authority.copy()
        fixture.authority.endSessions()
        fixture.authority.restore(copy)
        fixture.authority.set("new", to: 1)
        try await client.synchronize()
        #expect(client.count("new") == 1)
    }

    @Test func `the epoch of an acknowledgement survives the process`() throws {
        let folder = TemporaryFolder()
        let place = try UserFolders(folder.url).current()
        let epoch = try #require(Epoch("one"))
        let row = OutboxFile.Row(
            id: Identifier(at: ManualWallClock().now()),
            lane: "",
            name: "count",
            arguments: Data()
        )
        let file = OutboxFile(place)
        let sequence = try file.insert(row, at: ManualWallClock().now())
        try file.write([.acknowledged(sequence, head: 7, epoch: epoch)])
        #expect(try file.rows().first?.epoch == epoch)
        try file.write([.reopened([sequence])])
        let reopened = try file.rows().first
        #expect(reopened?.phase == .queued && reopened?.outcomeUnknown == true)
        #expect(reopened?.epoch == nil)
        file.close()
    }
}

/// Balance and quota numbers in another epoch.
@Suite("Epochs: balance", .bounded) struct SpendingEpochTests {
    private let now = ManualWallClock().now()
    private let nothing = BalanceInquiry(keys: [], idle: [])

    private func balance(_ available: Int64, head: Int64) -> Balance {
        Balance(unit: "tokens", available: available, held: 0, head: head, asOf: now)
    }

    private func quota(used: Int64) -> Quota {
        Quota(
            name: "readings",
            limit: 3,
            used: used,
            resetsAt: now + .seconds(60),
            unlimited: false
        )
    }

    @Test func `a lower number in a new epoch is newer, and late answers are ignored`() throws {
        let (old, new) = (try #require(Epoch("old")), try #require(Epoch("new")))
        var state = SpendingState()
        var isTaken = state.enter(old)
        #expect(isTaken)
        state.fetched(balance(50, head: 100), for: nothing, at: now)
        state.fetched([quota(used: 3)], head: 100, at: now)

        isTaken = state.enter(new)
        #expect(isTaken)
        #expect(state.balance.visible?.available == 50, "It stays until another one arrives.")
        state.fetched(balance(90, head: 10), for: nothing, at: now)
        state.fetched([quota(used: 1)], head: 10, at: now)
        #expect(state.balance.visible?.available == 90)
        #expect(state.quotas.visible?.first?.used == 1)
        isTaken = state.enter(old)
        #expect(!isTaken)
        isTaken = state.enter(nil)
        #expect(isTaken)
    }

    @Test func `an epoch that arrived before a late answer of an older one becomes current again`()
        throws
    {
        let (old, new) = (try #require(Epoch("old")), try #require(Epoch("new")))
        var state = SpendingState()
        // The answer from the lost history arrives later, and nothing shows which one is older.
        let isFirst = state.enter(new)
        let isLate = state.enter(old)
        #expect(isFirst && isLate)
        let isUnasked = state.enter(new)
        #expect(!isUnasked)
        let isAsked = state.enter(new, asked: old)
        #expect(isAsked && state.epoch == new)
        let isTold = state.enter(old, asked: old)
        #expect(!isTold, "It was requested before the current epoch was known.")
    }

    private func answer(_ available: Int64, head: Int64) -> CallCost {
        CallCost(charged: 1, available: available, held: 0, head: head, cached: false)
    }

    @Test func `a call's answer from a new epoch is newer, and one from an old epoch is ignored`()
        throws
    {
        let (old, new) = (try #require(Epoch("old")), try #require(Epoch("new")))
        var state = SpendingState()
        _ = state.enter(old)
        state.fetched(balance(50, head: 100), for: nothing, at: now)

        state.answered("a", function: "ask", answer(89, head: 10), nil, epoch: new, at: now)
        #expect(state.epoch == new)
        #expect(state.balance.visible?.available == 89)
        state.answered("b", function: "ask", answer(49, head: 101), nil, epoch: old, at: now)
        #expect(state.epoch == new)
        #expect(state.balance.visible?.available == 89)
    }

    @Test(arguments: [true, false])
    func `the first call after a restore shows its balance at once`(isStreamed: Bool) async throws {
        let fixture = ClientFixture()
        let server = fixture.authority.server
        let client = try fixture.client { if isStreamed { $0.transport = server } }
        defer { client.close() }
        _ = try await client.value(of: .balance)
        let copy = server.copy()
        for _ in 0..<5 { _ = try await client.call(Ask(question: "Why?")) }
        #expect(client.cached(.balance)?.available == 85)

        server.restore(copy)
        if isStreamed {
            let stream = try client.stream(Ask(question: "Why?"))
            try await within(.seconds(20), "the stream's end") {
                _ = try await stream.reduce(0) { count, _ in count + 1 }
            }
        } else {
            _ = try await client.call(Ask(question: "Why?"))
        }
        #expect(client.cached(.balance)?.available == 97)
    }

    @Test
    func `a refresh after a restore asks again about calls that the lost history had settled`()
        async throws
    {
        let fixture = ClientFixture()
        let (authority, path) = (fixture.authority, ClientFixture.askPath)
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        let copy = authority.server.copy()
        authority.stop(path, at: .work)
        let running = Task { try? await client.call(Ask(question: "Slowly?")) }
        try await authority.reached(path, at: .work)
        authority.open(path, at: .work)
        // Settled at a number that no base has while the other call runs.
        _ = try await client.call(Ask(question: "At once?"))

        authority.server.restore(copy)
        let before = authority.count(ClientFixture.balancePath)
        try await client.refresh(.balance)
        #expect(client.cached(.balance)?.available == 97)
        #expect(authority.count(ClientFixture.balancePath) == before + 2)
        authority.clear(path, at: .work)
        _ = try await running.finished("the other call")
    }

    @Test func `quotas answered by the lost history are requested again`() async throws {
        let fixture = ClientFixture()
        let (authority, path) = (fixture.authority, "/v1/quotas")
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        let copy = authority.server.copy()
        authority.stop(path, at: .answer)
        let quotas = Task { try await client.value(of: .quotas) }
        try await authority.reached(path, at: .answer)
        authority.server.restore(copy)
        try await client.refresh(.balance)
        authority.clear(path, at: .answer)
        _ = try await quotas.finished("the quotas")
        #expect(authority.count(path) == 2)
    }

    @Test func `the epoch is stored with the balance`() throws {
        var state = SpendingState()
        let epoch = try #require(Epoch("one"))
        let isTaken = state.enter(epoch)
        #expect(isTaken)
        state.fetched(balance(50, head: 100), for: nothing, at: now)
        let archive = try #require(SpendingArchive(try SpendingArchive(state).encoded()))
        #expect(SpendingState(restoring: archive).epoch == epoch)
    }
}
