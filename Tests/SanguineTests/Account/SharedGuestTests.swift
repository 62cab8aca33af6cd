import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A guest with two devices, of which one merges or registers the guest while the other one has
/// operations that were not sent.
@Suite("A guest with two devices", .bounded)
struct SharedGuestTests {
    private let world = SharedGuestWorld()

    // MARK: - The account of the merge

    @Test func `a device of a guest merged elsewhere keeps everything until the sign-in`()
        async throws
    {
        let (phone, tablet, guest) = try await world.shared()
        let account = try await world.register("ada")
        let scope = tablet.users.current
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        #expect(phone.accountId == account)

        world.connect()
        let error = await #expect(throws: SanguineError.self) { try await tablet.synchronize() }
        #expect(error?.code == "guest_registered" && error?.errorClass == .needsSignIn)
        #expect(tablet.account.needsSignIn && tablet.accountId == guest)
        #expect(world.shown(on: tablet) == 2 && world.shown("a", on: tablet) == 3)

        try await world.signIn("ada", on: tablet)
        #expect(tablet.accountId == account && tablet.users.current === scope)
        #expect(!tablet.account.needsSignIn)
        try await tablet.synchronize()
        #expect(world.stored(of: account) == 2 && world.shown("a", on: tablet) == 3)
        #expect(tablet.outbox.pending.isEmpty && tablet.outbox.ofOthers == 0)
        #expect(world.stored(of: guest) == nil)
    }

    @Test func `a sign-in before the device has learned of the merge keeps everything too`()
        async throws
    {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        let scope = tablet.users.current
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        try await world.signIn("ada", on: tablet)
        try await tablet.synchronize()
        #expect(tablet.users.current === scope && tablet.accountId == account)
        #expect(world.stored(of: account) == 2 && tablet.outbox.ofOthers == 0)
    }

    @Test func `an identity token signs in a device whose guest was merged elsewhere`()
        async throws
    {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        _ = try? await tablet.synchronize()
        try await world.answerSignIn(with: account)
        try await tablet.signIn(provider: "apple", identityToken: "token", nonce: "nonce")
        try await tablet.synchronize()
        #expect(world.stored(of: account) == 2 && world.shown(on: tablet) == 2)
    }

    @Test func `a code signs in a device whose guest was merged elsewhere`() async throws {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        let code = try await phone.account.moveCode().code
        try await tablet.signIn(moveCode: code)
        try await tablet.synchronize()
        #expect(tablet.accountId == account && world.stored(of: account) == 2)
        #expect(tablet.outbox.ofOthers == 0)
    }

    @Test func `a new password signs in a device whose guest was merged elsewhere`() async throws {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        let email = "ada@example.org"
        try await tablet.account.resetPassword(email: email)
        let code = try await world.mailedCode()
        try await tablet.account.resetPassword(email: email, code: code, password: "another one")
        try await tablet.signIn(email: email, password: "another one")
        try await tablet.synchronize()
        #expect(tablet.accountId == account && world.stored(of: account) == 2)
    }

    @Test func `a device whose guest was registered elsewhere keeps everything until the sign-in`()
        async throws
    {
        let (phone, tablet, guest) = try await world.shared()
        let scope = tablet.users.current
        try world.write(2, on: tablet)
        try await world.upgrade("ada", on: phone)
        world.connect()
        let error = await #expect(throws: SanguineError.self) { try await tablet.synchronize() }
        #expect(error?.code == "guest_registered" && tablet.account.needsSignIn)
        try await world.signIn("ada", on: tablet)
        try await tablet.synchronize()
        #expect(tablet.users.current === scope && tablet.accountId == guest)
        #expect(world.stored(of: guest) == 2)
    }

    @Test func `an operation whose answer was lost before the merge takes effect once`()
        async throws
    {
        let (phone, tablet, guest) = try await world.shared()
        let account = try await world.register("ada")
        world.network.loses("/v1/sync/push")
        world.connect()
        try tablet.perform(Count(id: .of("b"), by: 2))
        try await eventually("the operation arrived") { world.stored(of: guest) == 2 }
        world.disconnect()
        world.network.loses(nil)
        try tablet.perform(Count(id: .of("b"), by: 5))
        try await world.signIn("ada", on: phone)
        world.connect()
        try await world.signIn("ada", on: tablet)
        try await tablet.synchronize()
        #expect(world.stored(of: account) == 7 && world.shown(on: tablet) == 7)
    }

    @Test func `a queued call of a guest merged elsewhere is sent once, after the sign-in`()
        async throws
    {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        let call = TellLater(parts: 3)
        let answer = Task { try await tablet.result(of: call) }
        try await eventually("the call waits") { tablet.openCalls.map(\.state) == [.waiting] }
        try await world.signIn("ada", on: phone)
        world.connect()
        _ = try? await tablet.synchronize()
        #expect(tablet.account.needsSignIn && tablet.openCalls.count == 1)

        try await world.signIn("ada", on: tablet)
        #expect(try await answer.finished().output == call.text)
        let balance = try await tablet.refresh(.balance)
        #expect(tablet.accountId == account && balance.available == 197 && balance.held == 0)
        #expect(tablet.openCalls.isEmpty)
    }

    // MARK: - Kills

    @Test func `a kill before the sign-in loses no operation`() async throws {
        let (phone, tablet, guest) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        let again = try world.relaunchTablet()
        #expect(again.accountId == guest && world.shown(on: again) == 2)
        world.connect()
        _ = try? await again.synchronize()
        let last = try world.relaunchTablet()
        try await world.signIn("ada", on: last)
        try await last.synchronize()
        #expect(world.stored(of: account) == 2 && last.outbox.ofOthers == 0)
    }

    @Test func `a kill between the sign-in and the server's word loses no operation`()
        async throws
    {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        // The user begins as another guest, who signs in.
        await tablet.signOut()
        #expect(tablet.outbox.ofOthers == 1)
        world.network.fails("/v1/account/guests")
        try await world.signIn("ada", on: tablet)
        #expect(tablet.accountId == account && tablet.outbox.ofOthers == 1)
        world.network.fails(nil)
        let again = try world.relaunchTablet()
        try await eventually("the guest's operation is taken over") { again.outbox.ofOthers == 0 }
        try await again.synchronize()
        #expect(world.stored(of: account) == 2 && world.shown(on: again) == 2)
    }

    @Test func `a sign-in fails if the server cannot be asked about the guest`() async throws {
        let (phone, tablet, guest) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        _ = try? await tablet.synchronize()
        world.network.fails("/v1/account/guests")
        await #expect(throws: SanguineError.self) { try await world.signIn("ada", on: tablet) }
        #expect(tablet.accountId == guest && world.shown(on: tablet) == 2)
        world.network.fails(nil)
        try await world.signIn("ada", on: tablet)
        try await tablet.synchronize()
        #expect(world.stored(of: account) == 2)
    }

    // MARK: - Other accounts

    @Test func `the operations of a merged guest are never sent as another account`()
        async throws
    {
        let (phone, tablet, _) = try await world.shared()
        let account = try await world.register("ada")
        let other = try await world.register("bob")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        try await world.signIn("bob", on: tablet)
        try await tablet.synchronize()
        #expect(tablet.accountId == other && world.shown(on: tablet) == nil)
        #expect(tablet.outbox.ofOthers == 1)
        let again = try world.relaunchTablet()
        try await again.synchronize()
        #expect(world.stored(of: other) == nil && again.outbox.ofOthers == 1)

        try await world.signIn("ada", on: again)
        try await again.synchronize()
        #expect(world.stored(of: account) == 2 && again.outbox.ofOthers == 0)
        #expect(world.stored(of: other) == nil)
    }

    @Test func `the server is asked about all former guests, also about those after a page`()
        async throws
    {
        let (phone, _, guest) = try await world.shared()
        _ = try await world.register("ada")
        try await world.signIn("ada", on: phone)
        let others = (0..<(2 * MergedGuests.limit)).map {
            Identifier(at: Timestamp(millisecondsSince1970: Int64($0)))
        }
        #expect(others.allSatisfy { $0 < guest }, "The merged guest is asked about last.")
        let confirmed = await MergedGuests(services: phone.services)
            .newlyConfirmed(Set(others + [guest]), for: phone.users.current)
        #expect(confirmed == [guest])
        let token = try await phone.users.current.session.accessToken()
        let again = try await MergedGuests(services: phone.services)
            .confirmed(others + [guest], token: token)
        #expect(again == [guest])
    }

    @Test func `a sign-out keeps the operations for the account of the merge`() async throws {
        let (phone, tablet, guest) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        _ = try? await tablet.synchronize()
        await tablet.signOut()
        try await tablet.synchronize()
        let next = try #require(tablet.accountId)
        #expect(next != guest && next != account && !tablet.account.needsSignIn)
        #expect(world.shown(on: tablet) == nil && tablet.outbox.ofOthers == 1)

        try await world.signIn("ada", on: tablet)
        try await tablet.synchronize()
        #expect(world.stored(of: account) == 2 && tablet.outbox.ofOthers == 0)
        #expect(world.stored(of: next) == nil)
    }

    @Test func `without the server's word the users change, and nothing is sent`() async throws {
        let (phone, tablet, guest) = try await world.shared()
        let account = try await world.register("ada")
        try world.write(2, on: tablet)
        try await world.signIn("ada", on: phone)
        world.connect()
        _ = try? await tablet.synchronize()
        world.network.answer("/v1/account/guests", Items<FormerGuest>(items: []))
        try await world.signIn("ada", on: tablet)
        try await tablet.synchronize()
        #expect(tablet.accountId == account && tablet.accountId != guest)
        #expect(world.stored(of: account) == nil && tablet.outbox.ofOthers == 1)
    }

    // MARK: - Joining by a code

    @Test func `a device that joins by a code brings its guest's waiting operations along`()
        async throws
    {
        let phone = try world.phone.launch()
        try await phone.synchronize()
        let account = try #require(phone.accountId)
        let tablet = try world.tablet.launch()
        try await tablet.synchronize()
        #expect(tablet.accountId != account && tablet.accountId != nil)
        world.disconnect()
        try world.write(2, on: tablet)
        let code = try await phone.account.moveCode().code
        try await tablet.signIn(moveCode: code)
        world.connect()
        try await tablet.synchronize()
        #expect(tablet.accountId == account && world.stored(of: account) == 2)
        #expect(tablet.outbox.ofOthers == 0 && world.shown(on: tablet) == 2)
    }
}

/// A guest's phone and tablet, and registered accounts, on a server in memory.
private struct SharedGuestWorld {
    private static let password = "secret word"

    let network: SharedGuestNetwork
    let phone: TestDevice
    let tablet: TestDevice
    private let laptop: TestDevice
    private let authority: InMemoryAuthority

    init() {
        let clock = ManualWallClock()
        var settings = AuthoritySettings()
        // A hash that takes no time.
        settings.passwordCost.logRounds = 1
        let authority = InMemoryAuthority(schema: .counters, settings: settings, clock: clock)
        let network = SharedGuestNetwork(authority)
        (self.authority, self.network) = (authority, network)
        let devices = (1...3).map { seed in
            TestDevice(network: network, clock: clock, seed: UInt64(seed)) { configuration in
                configuration.schema = .counters
                configuration.recordPolling = nil
                configuration.delay = SkippingClock()
                configuration.logger = .silent
            }
        }
        (phone, tablet, laptop) = (devices[0], devices[1], devices[2])
        authority.serve(Tell.self) { input in Tell(seed: input.seed, parts: input.parts).text }
    }

    // MARK: - Devices

    /// Returns both devices' clients, after the guest has counted to 3; the tablet sends nothing
    /// more until ``connect()``.
    func shared() async throws -> (SanguineClient, SanguineClient, guest: Identifier) {
        let first = try phone.launch()
        try await first.synchronize()
        try first.perform(Count(id: .of("a"), by: 3))
        try await first.synchronize()
        let guest = try #require(first.accountId)
        let second = try tablet.launch()
        try await second.signIn(moveCode: try await first.account.moveCode().code)
        try await second.synchronize()
        #expect(second.accountId == guest && shown("a", on: second) == 3)
        disconnect()
        return (first, second, guest)
    }

    func relaunchTablet() throws -> SanguineClient {
        try tablet.kill()
        return try tablet.launch()
    }

    func disconnect() { tablet.connectivity.disconnect() }

    func connect() { tablet.connectivity.connect() }

    /// Counts on the tablet, which does not send it.
    func write(_ count: Int64, on client: SanguineClient) throws {
        try client.perform(Count(id: .of("b"), by: count))
    }

    func shown(_ id: String = "b", on client: SanguineClient) -> Int64? {
        client.record(Counter.self, .of(id))?.count
    }

    func stored(of account: Identifier) -> Int64? {
        authority.record(Counter.self, .of("b"), of: account)?.count
    }

    // MARK: - Accounts

    /// Registers an account on a third device, and returns it.
    func register(_ name: String) async throws -> Identifier {
        let client = try laptop.launch()
        try await client.synchronize()
        try await upgrade(name, on: client)
        let account = try #require(client.accountId)
        await client.signOut()
        laptop.quit()
        return account
    }

    func upgrade(_ name: String, on client: SanguineClient) async throws {
        let email = "\(name)@example.org"
        try await client.account.upgrade(email: email, password: Self.password)
        try await client.account.verify(code: try await mailedCode())
    }

    func signIn(_ name: String, on client: SanguineClient) async throws {
        try await client.signIn(email: "\(name)@example.org", password: Self.password)
    }

    /// The code of the only e-mail, which is removed.
    func mailedCode() async throws -> String {
        let mail = try #require(try await authority.authority.dueMail(limit: 9).due.last)
        try await authority.authority.mailSent(mail.id)
        let text = try #require(mail.text.firstMatch(of: #/(\d{4}) (\d{4})/#))
        return String(text.1 + text.2)
    }

    /// Answers the next sign-ins as if the credentials were those of the account.
    func answerSignIn(with account: Identifier) async throws {
        let token = await authority.accessToken(for: account)
        let session = Session(accessToken: token, expiresIn: 900, refreshToken: "unused")
        let profile = try await authority.authority.account(account).0
        network.answer("/v1/sessions", SignedIn(account: profile, session: session))
    }
}

/// A network that loses answers, fails requests, and answers in the server's place.
private final class SharedGuestNetwork: StreamingTransport {
    private struct State {
        var loses: String?
        var fails: String?
        var answers: [String: Data] = [:]
    }

    private let authority: InMemoryAuthority
    private let state = WatchedState(State())

    init(_ authority: InMemoryAuthority) { self.authority = authority }

    /// Loses the answers of a path; `nil` loses none.
    func loses(_ path: String?) { state.withLock { $0.loses = path } }

    /// Fails requests to a path; `nil` fails none.
    func fails(_ path: String?) { state.withLock { $0.fails = path } }

    /// Answers requests to a path.
    func answer(_ path: String, _ body: some Encodable) {
        state.withLock { $0.answers[path] = try? WireCoding.encode(body) }
    }

    func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        let path = request.url.path()
        let state = state.withLock { $0 }
        if state.fails == path { throw .interrupted("failed") }
        if let body = state.answers[path] {
            let headers = ["content-type": "application/json"]
            return TransportResponse(status: 200, headers: headers, body: body)
        }
        let response = try await authority.send(request)
        if state.loses == path { throw .interrupted("lost") }
        return response
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await authority.stream(request)
    }
}
