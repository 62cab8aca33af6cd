import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The secret of the device, and a registered user.
@Suite("Device secrets and registered users", .bounded)
struct DeviceAccessTests {
    private let fixture = AccountFixture(accounts: .onePerDevice)
    private let network: LosingNetwork

    init() { network = LosingNetwork(fixture.authority) }

    private var server: Authority { fixture.authority.authority }

    /// Returns a client whose guest has counted to 3 and requested a code, with the code.
    private func upgrading(_ device: TestDevice) async throws -> (SanguineClient, code: String) {
        let client = try device.launch()
        try await client.synchronize()
        try client.perform(Count(id: .of("a"), by: 3))
        try await client.synchronize()
        try await client.account.upgrade(email: "ada@example.org", password: "secret word")
        let mails = try await server.dueMail(limit: 9).due
        let text = try #require(mails.last?.text.firstMatch(of: #/(\d{4}) (\d{4})/#))
        return (client, String(text.1 + text.2))
    }

    @Test func `a registration whose answer was lost is found by the secret of the device`()
        async throws
    {
        let device = fixture.device(network: network) { $0.delay = SkippingClock() }
        let (client, code) = try await upgrading(device)
        defer { client.close() }
        let (account, scope) = (client.accountId, client.users.current)
        network.lost.withLock { $0 = "/v1/accounts/verify" }
        let verified = try await client.account.verify(code: code)
        #expect(verified.kind == .registered && verified.id == account)
        #expect(client.accountId == account && client.users.current === scope)
        #expect(client.account.current.kind == .registered)
        #expect(client.record(Counter.self, .of("a"))?.count == 3)
    }

    @Test func `a user found by a device secret becomes no guest when their session ends`()
        async throws
    {
        let device = fixture.device(network: network) { $0.delay = SkippingClock() }
        let (client, code) = try await upgrading(device)
        defer { client.close() }
        network.lost.withLock { $0 = "/v1/accounts/verify" }
        let account = try await client.account.verify(code: code).id
        try await server.endSessions(of: account)
        try client.perform(Count(id: .of("a"), by: 4))
        let guests = network.count("/v1/accounts/guest")
        let error = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(error?.code == "session_ended" && client.account.needsSignIn)
        #expect(network.count("/v1/accounts/guest") == guests)

        try await client.signIn(email: "ada@example.org", password: "secret word")
        try await client.synchronize()
        let stored = fixture.authority.record(Counter.self, .of("a"), of: account)
        #expect(stored?.count == 7 && client.accountId == account)
    }

    @Test func `after a sign-out that failed, the device is a guest and not the former user`()
        async throws
    {
        let device = fixture.device(network: network) { $0.delay = SkippingClock() }
        let (client, code) = try await upgrading(device)
        defer { client.close() }
        let account = try await client.account.verify(code: code).id
        let refusal = Problem(.overloaded, "Send the request again.", retryAfter: 1)
        fixture.authority.fail("/v1/sessions/current", with: refusal)
        await client.signOut()
        #expect(try await !server.sessions(of: account).items.isEmpty)
        try await client.synchronize()
        #expect(client.accountId != nil && client.accountId != account)
        #expect(client.record(Counter.self, .of("a")) == nil)
        let guest = try #require(client.accountId)
        #expect(try await server.account(guest).0.kind == .guest)
        #expect(try await server.balance(guest).available == 0)
    }

    @Test func `requests of lasting effect repeat the newest refresh token`() async throws {
        let device = fixture.device(network: network)
        let (client, _) = try await upgrading(device)
        defer { client.close() }
        _ = try await client.account.moveCode()
        for path in ["/v1/accounts/upgrade", "/v1/sessions/codes"] {
            let body = try #require(network.bodies(path).last)
            let sent = try WireCoding.decode(MoveCodeRequest.self, from: body)
            #expect(sent.refreshToken == client.users.current.session.refreshToken)
            #expect(sent.refreshToken != nil)
        }
    }

    @Test func `a merge repeats the guest's newest refresh token`() async throws {
        let (owner, code) = try await upgrading(fixture.device(network: network))
        defer { owner.close() }
        try await owner.account.verify(code: code)
        let (email, password) = ("ada@example.org", "secret word")

        let client = try fixture.device(seed: 2, network: network).launch()
        defer { client.close() }
        try await client.synchronize()
        let token = try #require(client.users.current.session.refreshToken)
        try await client.signIn(email: email, password: password)
        let body = try #require(network.bodies("/v1/sessions").last)
        #expect(try WireCoding.decode(SessionRequest.self, from: body).refreshToken == token)

        let other = try fixture.device(seed: 3, network: network).launch()
        defer { other.close() }
        try await other.synchronize()
        let guest = try #require(other.users.current.session.refreshToken)
        try await other.account.merge(
            try await other.account.previewMerge(email: email, password: password)
        )
        let merge = try #require(network.bodies("/v1/accounts/merge").last)
        #expect(try WireCoding.decode(MergeRequest.self, from: merge).refreshToken == guest)

        // A registered user has no guest to merge.
        try await other.signIn(email: email, password: password)
        let again = try #require(network.bodies("/v1/sessions").last)
        #expect(try WireCoding.decode(SessionRequest.self, from: again).refreshToken == nil)
    }

    @Test func `only after a sign-out is an account without credentials that of a former user`() {
        let session = SessionStateTests.session(1)
        #expect(!SessionState().hasNoUserYet)
        #expect(SessionState(isSignedOut: true).hasNoUserYet)
        #expect(!SessionState(restoring: session, isSignedOut: true).hasNoUserYet)
        var state = SessionState(isSignedOut: true)
        state.allowSignIn()
        #expect(state.hasNoUserYet)
        state.adopt(session)
        #expect(!state.hasNoUserYet)
    }
}

/// A network that loses the next answer of a path.
private final class LosingNetwork: StreamingTransport {
    private let authority: InMemoryAuthority
    private let sent = WatchedState<[TransportRequest]>([])
    /// The path whose next answer is lost.
    let lost = WatchedState<String?>(nil)

    init(_ authority: InMemoryAuthority) { self.authority = authority }

    func count(_ path: String) -> Int {
        sent.withLock { $0.count { $0.url.path() == path } }
    }

    func bodies(_ path: String) -> [Data] {
        sent.withLock { $0.filter { $0.url.path() == path }.compactMap(\.body) }
    }

    func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        sent.withLock { $0.append(request) }
        let response = try await authority.send(request)
        let isLost = lost.withLock { path in
            guard path == request.url.path() else { return false }
            path = nil
            return true
        }
        if isLost { throw .interrupted("lost") }
        return response
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await authority.stream(request)
    }
}
