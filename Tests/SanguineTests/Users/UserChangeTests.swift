import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A user who signs in or out while others read: nothing of theirs is left for the next one.
@Suite("User change", .serialized, .bounded)
struct UserChangeTests {
    private static let another = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6bb")

    /// Has records asked for in the very moment in which the first user becomes known.
    private func clientWithRecords(on device: DeviceOfMany) async throws -> SanguineClient {
        device.authority.set("of-ada", to: 1)
        let client = try device.client()
        device.log.arm(SessionKeeper.changes)
        let reader = Task { try await client.value(of: .account) }
        try await eventually("the change of user to be stopped") { device.log.isStopped }
        #expect(device.log.isStopped, "Nobody has signed in.")
        let pull = Task { try await client.synchronize() }
        // Either the pull is answered now, or it waits beside the reader for the user's token.
        try await eventually("a pull, or a second caller who waits for the token") {
            device.pulls > 0 || client.session.waiting > 1
        }
        if device.pulls > 0 { try await pull.finished() }
        device.log.release()
        try await pull.finished()
        try await reader.finished()
        #expect(client.count("of-ada") == 1)
        return client
    }

    @Test func `records that came with the user's name go with the user`() async throws {
        let device = DeviceOfMany()
        let client = try await clientWithRecords(on: device)
        device.hand(to: "bob")
        await client.signOut()
        #expect(client.records(Counter.self).isEmpty)
        client.close()
        let next = try device.client()
        #expect(next.records(Counter.self).isEmpty)
        next.close()
        let file = try RecordsFile(folder: device.folder.url, schema: .counters)
        defer { file.close() }
        for space in 1...4 as ClosedRange<Int64> {
            #expect(try RecordsFile.Base(file: file, space: space).all(in: "counters").isEmpty)
        }
    }

    @Test func `the next user has their own records, all of them and no others`() async throws {
        let device = DeviceOfMany()
        let client = try await clientWithRecords(on: device)
        for number in 1...9 { device.authority.set("of-ada", to: Int64(number)) }
        try await client.synchronize()
        device.hand(to: "bob")
        await client.signOut()
        _ = try await client.value(of: .account)
        let bob = try #require(device.account(of: "bob"))
        device.authority.set(Counter(id: .of("of-bob"), count: 2), of: bob)
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.id) == [.of("of-bob")])
    }

    @Test func `what was pulled for nobody is no account's`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 1)
        let nobody = TestAuthorizer(account: nil)
        let client = try fixture.client(authorizer: nobody)
        await #expect(throws: SanguineError.userChanged) { try await client.synchronize() }
        #expect(fixture.pulls.isEmpty && client.count("a") == nil)
        fixture.network.hold()
        client.sync.adopt(SessionEpoch(number: 0, account: Self.another))
        #expect(client.count("a") == nil)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 1)
    }

    @Test(arguments: [nil, another])
    func `records of nobody knows whom are gone after a restart`(account: Identifier?) throws {
        let fixture = RecordsFixture(onDisk: true)
        try leaveRecords(of: OutboxFile.nobody, in: fixture)
        let client = try fixture.client(authorizer: TestAuthorizer(account: account))
        #expect(client.count("a") == nil)
        client.sync.adopt(SessionEpoch(number: 0, account: Self.another))
        #expect(client.count("a") == nil)
        client.close()
        let file = try RecordsFile(folder: fixture.folder?.url, schema: .counters)
        defer { file.close() }
        #expect(try file.place(of: OutboxFile.nobody) == nil)
        #expect(try RecordsFile.Base(file: file, space: 1).all(in: "counters").isEmpty)
    }

    /// What an earlier version may have left.
    private func leaveRecords(of owner: String, in fixture: RecordsFixture) throws {
        let file = try RecordsFile(folder: fixture.folder?.url, schema: .counters)
        let change = RecordChange(
            collection: "counters",
            id: .of("a"),
            seq: 1,
            value: .object(["count": .integer(1)])
        )
        let answer = PullAnswer(changes: [change], next: 1, head: 1, hasMore: false)
        _ = try file.begin(SyncState.FeedBatch(answer, since: 0), of: owner)
        try file.commit()
        file.close()
    }

    @Test func `a sign-out that is slow leaves the next user's records where they are`()
        async throws
    {
        let device = DeviceOfMany()
        device.authority.set("of-ada", to: 1)
        let client = try device.client()
        try await client.synchronize()
        device.hand(to: "bob")
        device.log.arm(SessionKeeper.changes)
        let leaving = Task.detached { await client.signOut() }
        try await eventually("the change of user to be stopped") { device.log.isStopped }
        #expect(device.log.isStopped, "Nobody has signed out.")
        // Nobody signs in before every part knows that the user has gone.
        let anybodys = Query<Profile>.fleeting("1", audience: .device)
        let reader = Task { try await client.value(of: anybodys) }
        try await eventually("a caller who waits for the token") {
            client.session.waiting > 0 || device.account(of: "bob") != nil
        }
        #expect(device.account(of: "bob") == nil)
        device.log.release()
        try await leaving.finished()
        _ = try? await reader.finished()
        _ = try await client.value(of: .account)
        let bob = try #require(device.account(of: "bob"))
        device.authority.set(Counter(id: .of("of-bob"), count: 2), of: bob)
        try await client.synchronize()
        #expect(client.records(Counter.self).map(\.id) == [.of("of-bob")])
        client.close()
        let later = try device.client()
        #expect(later.accountId == bob)
        #expect(later.records(Counter.self).map(\.id) == [.of("of-bob")])
    }

    @Test func `another account's zone goes, also without a sign-out`() async throws {
        let device = DeviceOfMany()
        let client = try device.client()
        _ = try await client.value(of: .account)
        try client.setTimeZone("Asia/Tokyo")
        device.hand(to: "bob")
        device.authority.endSessions()
        // Ada's request is refused: she has gone when all parts know of Bob.
        _ = try? await client.refresh(.account)
        try await eventually("Bob to be known") {
            client.accountId == device.account(of: "bob")
        }
        #expect(client.accountId == device.account(of: "bob"))
        #expect(try FileBytes.files(in: device.folder.url, with: "Asia/Tokyo").isEmpty)
        client.close()
        let later = try device.client()
        #expect(later.timeZone != "Asia/Tokyo" && later.accountId == client.accountId)
    }
}
