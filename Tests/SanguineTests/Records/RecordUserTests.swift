import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct RecordUserTests {
    private let another = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6bb")

    @Test func `a sign-out removes the user's records from memory and disk`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 1)
        let client = try fixture.client()
        try await client.synchronize()
        #expect(client.count("a") == 1)
        fixture.authorizer.change(to: nil, in: client)
        #expect(client.count("a") == nil)
        client.close()
        let user = try #require(fixture.folder?.user)
        #expect(!FileManager.default.fileExists(atPath: user.path))
    }

    @Test func `a late answer shows nothing of the previous user`() async throws {
        let fixture = RecordsFixture()
        fixture.authority.set("a", to: 1)
        fixture.network.hold()
        let client = try fixture.client()
        _ = client.count("a")
        try await fixture.network.waitForHeld(1)
        fixture.authorizer.change(to: another, in: client)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == nil)
    }

    @Test func `another user neither sees nor sends operations, and they return with their owner`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        let first = try #require(fixture.authorizer.account)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.add("a")
        fixture.authorizer.change(to: another, in: client)
        await #expect(throws: SanguineError.userChanged) { try await receipt.outcome }
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(client.outbox.pending.isEmpty && fixture.pushes.isEmpty)
        #expect(client.outbox.ofOthers == 1)
        fixture.authorizer.change(to: first, in: client)
        #expect(client.outbox.ofOthers == 0)
        try await client.synchronize()
        #expect(fixture.pushes.flatMap(\.operations).map(\.id) == [receipt.id])
        #expect(client.count("a") == 1)
    }

    @Test func `operations stay with their owner even if the disk refuses the sign-out`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        let first = try #require(fixture.authorizer.account)
        let present = try #require(fixture.folder).url.appending(path: "present")
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.add("a")
        // The next user's folder cannot be named because a folder occupies the file's path.
        let something = present.appending(path: "something")
        try FileManager.default.createDirectory(at: something, withIntermediateDirectories: true)
        fixture.authorizer.change(to: another, in: client)
        client.close()
        try FileManager.default.removeItem(at: present)

        fixture.connectivity.connect()
        let second = try fixture.client()
        try await second.synchronize()
        #expect(second.outbox.pending.isEmpty && second.outbox.ofOthers == 1)
        #expect(fixture.pushes.isEmpty)
        fixture.authorizer.change(to: first, in: second)
        try await second.synchronize()
        #expect(fixture.pushes.flatMap(\.operations).map(\.id) == [receipt.id])
    }

    @Test func `nothing is changed while the owner of the files cannot be read`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let present = try #require(fixture.folder).url.appending(path: "present")
        fixture.connectivity.disconnect()
        let first = try fixture.client()
        try first.add("a")
        first.close()
        try Data("?".utf8).write(to: present)

        let second = try fixture.client()
        #expect(second.outbox.pending.isEmpty && second.outbox.ofOthers == 0)
        #expect(second.storeReport.failure != nil)
        second.close()
        try FileManager.default.removeItem(at: present)

        let third = try fixture.client()
        #expect(third.count("a") == 1 && third.outbox.pending.count == 1)
    }

    @Test func `a returning guest finds their unsent operations`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let guest = try #require(fixture.authorizer.account)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        let receipt = try client.add("a")
        fixture.authorizer.change(to: nil, in: client)
        await #expect(throws: SanguineError.userChanged) { try await receipt.outcome }
        #expect(client.outbox.pending.isEmpty)
        fixture.authorizer.join(guest, in: client)
        #expect(client.outbox.pending.map(\.id) == [receipt.id])
        #expect(client.count("a") == 1)
    }

    @Test func `a user's new account takes over the operations performed before it existed`() throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let nobody = TestAuthorizer(account: nil)
        let client = try fixture.client(authorizer: nobody)
        let receipt = try client.add("a")
        nobody.join(another, in: client)
        #expect(client.count("a") == 1)
        client.close()
        let later = try fixture.client(authorizer: TestAuthorizer(account: another), seed: 2)
        #expect(later.outbox.pending.map(\.id) == [receipt.id])
    }

    @Test
    func `an account that was not made for the guest takes nothing over, even after a restart`()
        throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let nobody = TestAuthorizer(account: nil)
        let client = try fixture.client(authorizer: nobody)
        let receipt = try client.add("a")
        nobody.change(to: another, in: client)
        #expect(client.outbox.pending.isEmpty)
        client.close()
        let later = try fixture.client(authorizer: TestAuthorizer(account: another), seed: 2)
        #expect(later.outbox.pending.isEmpty)
        later.close()
        let guest = TestAuthorizer(account: nil)
        let again = try fixture.client(authorizer: guest, seed: 3)
        _ = again.count("a")
        guest.join(Identifier("\(receipt.id)"), in: again)
        again.close()
        let owner = TestAuthorizer(account: Identifier("\(receipt.id)"))
        let last = try fixture.client(authorizer: owner, seed: 4)
        #expect(last.outbox.pending.map(\.id) == [receipt.id])
    }

    @Test func `another user never sees a record that the previous user read`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 1)
        let client = try fixture.client()
        try await client.synchronize()
        #expect(client.count("a") == 1)
        fixture.authorizer.change(to: another, in: client)
        #expect(client.count("a") == nil && client.records(Counter.self).isEmpty)
        try await client.synchronize()
        #expect(client.count("a") == nil && client.records(Counter.self).isEmpty)
    }

    @Test func `a value buffered in a stream is not shown to the next user`() async throws {
        let fixture = RecordsFixture()
        fixture.authority.set("a", to: 1)
        let client = try fixture.client()
        try await client.synchronize()
        let query = RecordQuery.record(Counter.self, .of("a"))
        var updates = client.updates(of: query).makeAsyncIterator()
        #expect(await updates.next()??.count == 1)
        var others = client.updates(of: query).makeAsyncIterator()
        #expect(await others.next()??.count == 1)
        try client.add("a")
        // Delivered in order, so the first stream now contains it too.
        #expect(await others.next()??.count == 2)
        fixture.authorizer.change(to: another, in: client)
        #expect(await updates.next() == .some(nil))
    }

    @Test func `observers of the outbox see it empty for the next user`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        var summaries = client.outbox.updates.makeAsyncIterator()
        #expect(await summaries.next()?.unsent == 1)
        fixture.authorizer.change(to: another, in: client)
        #expect(await summaries.next() == Outbox.Summary())
    }
}
