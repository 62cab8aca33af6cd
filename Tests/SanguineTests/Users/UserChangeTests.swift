import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Sign-ins and sign-outs during reads leave no data for the next user.
@Suite("User change", .serialized, .bounded)
struct UserChangeTests {
    private static let another = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6bb")

    /// Requests records while the first user becomes known.
    private func clientWithRecords(on device: DeviceOfMany) async throws -> SanguineClient {
        device.authority.set("of-ada", to: 1)
        let client = try device.client()
        let reader = Task { try await client.value(of: .account) }
        let pull = Task { try await client.synchronize() }
        try await pull.finished()
        try await reader.finished()
        #expect(client.count("of-ada") == 1)
        return client
    }

    @Test func `records received before the user is known are removed with the user`() async throws
    {
        let device = DeviceOfMany()
        let client = try await clientWithRecords(on: device)
        device.hand(to: "bob")
        await client.signOut()
        #expect(client.records(Counter.self).isEmpty)
        client.close()
        let next = try device.client()
        #expect(next.records(Counter.self).isEmpty)
        next.close()
        #expect(try !device.folder.contains("of-ada"))
    }

    @Test func `the next user sees all of their own records and no others`() async throws {
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

    @Test func `no records are pulled before the account is known`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 1)
        let nobody = TestAuthorizer(account: nil)
        let client = try fixture.client(authorizer: nobody)
        await #expect(throws: SanguineError.userChanged) { try await client.synchronize() }
        #expect(fixture.pulls.isEmpty && client.count("a") == nil)
        fixture.network.hold()
        nobody.join(Self.another, in: client)
        #expect(client.count("a") == nil)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("a") == 1)
    }

    @Test func `a slow sign-out keeps the next user's records`() async throws {
        let device = DeviceOfMany()
        device.authority.set("of-ada", to: 1)
        let client = try device.client()
        try await client.synchronize()
        device.hand(to: "bob")
        device.log.arm("\(UserSwitcher.changes)")
        let leaving = Task.detached { await client.signOut() }
        try await eventually("the change of user is stopped") { device.log.isStopped }
        #expect(device.log.isStopped, "The sign-out has not begun.")
        // No user signs in before every component knows that the previous one has left.
        let anybodys = ValueQuery<Profile>.fleeting("1", audience: .device)
        let reader = Task { try await client.value(of: anybodys) }
        await #expect(throws: SanguineError.userChanged) { try await reader.finished() }
        #expect(device.account(of: "bob") == nil)
        device.log.release()
        try await leaving.finished()
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

    @Test func `another account's zone is removed even without a sign-out`() async throws {
        let device = DeviceOfMany()
        let client = try device.client()
        _ = try await client.value(of: .account)
        try client.setTimeZone("Asia/Tokyo")
        device.hand(to: "bob")
        device.authority.endSessions()
        // Ada's request is rejected; she has left once every component knows of Bob.
        await #expect(throws: SanguineError.userChanged) { try await client.refresh(.account) }
        try await eventually("Bob is known") {
            client.accountId == device.account(of: "bob")
        }
        #expect(client.accountId == device.account(of: "bob"))
        #expect(try FileBytes.files(in: device.folder.url, with: "Asia/Tokyo").isEmpty)
        client.close()
        let later = try device.client()
        #expect(later.timeZone != "Asia/Tokyo" && later.accountId == client.accountId)
    }
}
