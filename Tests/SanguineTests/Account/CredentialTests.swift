import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Credentials change who the user is, and what stays on the device.
@Suite("Credentials", .bounded)
struct CredentialTests {
    private let fixture = AccountFixture(accounts: .onePerDevice)
    private let network: MergingNetwork

    init() { network = MergingNetwork(fixture.authority) }

    /// Returns a guest's device that has counted to 3.
    private func guest(_ device: TestDevice) async throws -> SanguineClient {
        let client = try device.launch()
        try await client.synchronize()
        try client.perform(Count(id: .of("a"), by: 3))
        try await client.synchronize()
        return client
    }

    private func member() -> Identifier {
        let account = fixture.authority.addAccount()
        network.state.withLock { $0.account = account }
        return account
    }

    private func count(_ id: String, of account: Identifier) -> Int64? {
        fixture.authority.record(Counter.self, .of(id), of: account)?.count
    }

    // MARK: - A guest becomes a part of an account

    @Test func `a merged guest keeps records and waiting operations`() async throws {
        let device = fixture.device(network: network)
        let client = try await guest(device)
        defer { client.close() }
        let (former, scope) = (client.accountId, client.users.current)
        let account = member()
        // Otherwise the guest's server could apply it first, and this network moves no records.
        device.connectivity.disconnect()
        try client.perform(Count(id: .of("b"), by: 2))
        try await client.signIn(email: "ada@example.org", password: "secret word")

        #expect(client.accountId == account && former != account)
        #expect(client.users.current === scope)
        #expect(client.account.current.kind == .registered)
        #expect(client.record(Counter.self, .of("b"))?.count == 2)
        try client.perform(Count(id: .of("b"), by: 1))
        device.connectivity.connect()
        try await client.synchronize()
        #expect(count("b", of: account) == 3)
        #expect(client.record(Counter.self, .of("b"))?.count == 3)
        #expect(client.outbox.pending.isEmpty && client.outbox.ofOthers == 0)
    }

    @Test func `the guest's token proves that the guest is meant`() async throws {
        let client = try await guest(fixture.device(network: network))
        defer { client.close() }
        _ = member()
        try await client.signIn(email: "ada@example.org", password: "secret word")
        let request = try #require(network.requests("/v1/sessions").first)
        let names = Set(request.headers.keys.map { $0.lowercased() })
        #expect(names.isSuperset(of: ["authorization", "idempotency-key"]))
    }

    @Test func `operations before, during and after a merge take effect once`() async throws {
        let device = fixture.device(network: network)
        let client = try await guest(device)
        let account = member()
        device.connectivity.disconnect()
        for _ in 0..<5 { try client.perform(Count(id: .of("b"))) }
        async let signedIn = client.signIn(email: "ada@example.org", password: "secret word")
        for _ in 0..<5 { try client.perform(Count(id: .of("b"))) }
        _ = try await signedIn
        for _ in 0..<5 { try client.perform(Count(id: .of("b"))) }
        #expect(client.record(Counter.self, .of("b"))?.count == 15)
        device.connectivity.connect()
        try await client.synchronize()
        #expect(count("b", of: account) == 15)
        #expect(client.record(Counter.self, .of("b"))?.count == 15)
        let done = fixture.authority.operations(of: account).map(\.id)
        #expect(Set(done).count == done.count)
        client.close()
    }

    @Test func `a merge survives a restart`() async throws {
        let device = fixture.device(network: network)
        var client = try await guest(device)
        let account = member()
        device.connectivity.disconnect()
        try client.perform(Count(id: .of("b"), by: 2))
        try await client.signIn(email: "ada@example.org", password: "secret word")
        try device.kill()
        client = try device.launch()
        defer { client.close() }
        #expect(client.accountId == account)
        #expect(client.record(Counter.self, .of("b"))?.count == 2)
        device.connectivity.connect()
        try await client.synchronize()
        #expect(count("b", of: account) == 2)
    }

    @Test func `a sign-in with a lost answer is sent again with the same key`() async throws {
        let device = fixture.device(network: network) { $0.delay = SkippingClock() }
        let client = try await guest(device)
        defer { client.close() }
        let account = member()
        network.state.withLock { $0.losesAnswer = true }
        try await client.signIn(email: "ada@example.org", password: "secret word")
        let keys = network.requests("/v1/sessions").map { request in
            request.headers.first { $0.key.lowercased() == "idempotency-key" }?.value
        }
        #expect(keys.count == 2 && Set(keys).count == 1)
        #expect(client.accountId == account)
    }

    @Test func `wrong credentials change nothing`() async throws {
        let client = try await guest(fixture.device(network: network))
        defer { client.close() }
        let account = client.accountId
        fixture.authority.fail("/v1/sessions", with: Problem(.credentialsInvalid, "Try again."))
        let error = await #expect(throws: SanguineError.self) {
            try await client.signIn(email: "ada@example.org", password: "wrong")
        }
        #expect(error?.code == "credentials_invalid" && client.accountId == account)
        #expect(client.record(Counter.self, .of("a"))?.count == 3)
    }

    // MARK: - Other users

    @Test func `a user who signs in on a new device has their account`() async throws {
        let account = member()
        fixture.authority.set(Counter(id: .of("c"), count: 7), of: account)
        let client = try fixture.device(network: network).launch()
        defer { client.close() }
        try await client.signIn(email: "ada@example.org", password: "secret word")
        #expect(client.accountId == account)
        try await client.synchronize()
        #expect(client.record(Counter.self, .of("c"))?.count == 7)
    }

    @Test func `another registered user sees and sends nothing of the former one`() async throws {
        let device = fixture.device(network: network)
        let client = try device.launch()
        defer { client.close() }
        let first = member()
        try await client.signIn(email: "ada@example.org", password: "secret word")
        try await client.synchronize()
        device.connectivity.disconnect()
        try client.perform(Count(id: .of("a"), by: 4))
        let second = member()
        try await client.signIn(email: "bob@example.org", password: "secret word")
        #expect(client.accountId == second && client.record(Counter.self, .of("a")) == nil)
        #expect(client.outbox.pending.isEmpty && client.outbox.ofOthers == 1)
        device.connectivity.connect()
        try await client.synchronize()
        #expect(count("a", of: second) == nil && count("a", of: first) == nil)

        network.state.withLock { $0.account = first }
        try await client.signIn(email: "ada@example.org", password: "secret word")
        try await client.synchronize()
        #expect(count("a", of: first) == 4 && client.outbox.ofOthers == 0)
    }

    @Test func `a registered user whose session ended keeps everything until they sign in`()
        async throws
    {
        let device = fixture.device(network: network)
        let client = try device.launch()
        defer { client.close() }
        let account = member()
        try await client.signIn(email: "ada@example.org", password: "secret word")
        try await client.synchronize()
        fixture.authority.endSessions()
        try client.perform(Count(id: .of("a"), by: 4))
        let error = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(error?.code == "session_ended" && client.account.needsSignIn)
        #expect(client.accountId == account && client.record(Counter.self, .of("a"))?.count == 4)
        #expect(network.requests("/v1/accounts/guest").isEmpty)

        try await client.signIn(email: "ada@example.org", password: "secret word")
        try await client.synchronize()
        #expect(!client.account.needsSignIn && count("a", of: account) == 4)
    }

    // MARK: - Upgrade and second device

    @Test func `an upgrade keeps the account, the scope and everything in it`() async throws {
        let device = fixture.device(network: network)
        let client = try await guest(device)
        defer { client.close() }
        let account = try #require(client.accountId)
        let scope = client.users.current
        try client.perform(Count(id: .of("b"), by: 2))
        network.answer("POST /v1/accounts/verify", try await network.session(of: account))
        let verified = try await client.account.verify(code: "12345678")
        #expect(verified.id == account && client.accountId == account)
        #expect(client.users.current === scope && client.account.current.kind == .registered)
        try await client.synchronize()
        #expect(count("a", of: account) == 3 && count("b", of: account) == 2)
    }

    @Test func `a code from another device signs in to its account`() async throws {
        let client = try fixture.device(network: network).launch()
        defer { client.close() }
        let account = fixture.authority.addAccount()
        let path = "/v1/sessions/codes/redeem"
        network.answer("POST \(path)", try await network.session(of: account))
        try await client.signIn(moveCode: "ABCD-2345")
        #expect(client.accountId == account)
        let body = try #require(network.requests(path).first?.body)
        let sent = try WireCoding.decode(RedeemRequest.self, from: body)
        #expect(try sent.deviceId == client.session.deviceId() && sent.code == "ABCD-2345")
    }

    @Test func `a sign-out everywhere ends this device's user too`() async throws {
        let client = try await guest(fixture.device(network: network))
        defer { client.close() }
        network.answer("DELETE /v1/sessions", Data(), status: 204)
        try await client.sessions.signOutEverywhere()
        #expect(client.accountId == nil && client.record(Counter.self, .of("a")) == nil)
    }

    // MARK: - The end of an account

    @Test func `an account that was deleted on another device is wiped, with what waits`()
        async throws
    {
        let device = fixture.device(network: network)
        let client = try await guest(device)
        defer { client.close() }
        _ = member()
        try await client.signIn(email: "ada@example.org", password: "secret word")
        let gone = Problem(.accountDeleted, "Remove what the device has of this account.")
        let ended = Problem(.sessionEnded, "Sign in again.")
        network.answer("POST /v1/sessions/refresh", try WireCoding.encode(gone), status: 401)
        network.answer("POST /v1/sync/push", try WireCoding.encode(ended), status: 401)
        try client.perform(Count(id: .of("b")))
        try await eventually("the device is wiped") {
            client.accountId == nil && client.record(Counter.self, .of("b")) == nil
        }
        #expect(!client.account.needsSignIn)
        #expect(client.outbox.pending.isEmpty && client.outbox.ofOthers == 0)
    }

    /// Deletes an account as another device does, or as this one does if the answer is lost.
    private func delete(_ account: Identifier) async throws {
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await fixture.authority.authority.deleteAccount(account, by: note)
    }

    @Test func `a guest's deletion whose answer was lost succeeds, and wipes the device`()
        async throws
    {
        let client = try await guest(fixture.device(network: network))
        defer { client.close() }
        let account = try #require(client.accountId)
        try await delete(account)
        #expect(try await client.deleteAccount().account == account)
        #expect(client.accountId == nil && client.record(Counter.self, .of("a")) == nil)
        #expect(client.outbox.pending.isEmpty && client.outbox.ofOthers == 0)
        #expect(network.requests("/v1/accounts/guest").count == 1)
    }

    @Test func `a deletion succeeds if another request learns of it first`() async throws {
        let client = try await guest(fixture.device(network: network))
        defer { client.close() }
        let account = try #require(client.accountId)
        let user = client.users.current
        try await delete(account)
        network.hold("DELETE /v1/account")
        async let status = client.deleteAccount()
        try await eventually("the deletion is on its way") {
            !network.requests("/v1/account").filter { $0.method == "DELETE" }.isEmpty
        }
        try client.perform(Count(id: .of("b")))
        try await eventually("the device is wiped") { client.users.current !== user }
        network.release()
        #expect(try await status.account == account)
        #expect(client.accountId == nil && client.record(Counter.self, .of("a")) == nil)
    }

    @Test func `a guest who was deleted elsewhere is wiped, with what waits, and can begin again`()
        async throws
    {
        let client = try await guest(fixture.device(network: network))
        defer { client.close() }
        let account = try #require(client.accountId)
        try await delete(account)
        try client.perform(Count(id: .of("b")))
        try await eventually("the device is wiped") {
            client.accountId == nil && client.record(Counter.self, .of("b")) == nil
        }
        #expect(client.outbox.pending.isEmpty && client.outbox.ofOthers == 0)
        try client.perform(Count(id: .of("c")))
        try await client.synchronize()
        let next = try #require(client.accountId)
        #expect(next != account && count("c", of: next) == 1 && count("b", of: next) == nil)
    }

    @Test func `a deleted account is wiped from the device once the server has it`() async throws {
        let device = fixture.device(network: network)
        let client = try await guest(device)
        defer { client.close() }
        let account = try #require(client.accountId)
        let status = RemovalStatus(
            account: account,
            state: .running,
            startedAt: fixture.clock.now(),
            removed: 0
        )
        fixture.authority.fail("/v1/account", with: Problem(.overloaded, "Wait."))
        await #expect(throws: SanguineError.self) { try await client.deleteAccount() }
        #expect(client.accountId == account && client.record(Counter.self, .of("a")) != nil)

        network.answer("DELETE /v1/account", try WireCoding.encode(RemovalAnswer(removal: status)))
        #expect(try await client.deleteAccount().state == .running)
        #expect(client.accountId == nil && client.record(Counter.self, .of("a")) == nil)
        #expect(client.outbox.ofOthers == 0)
    }
}
