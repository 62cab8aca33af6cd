import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The devices of a guest that another device has registered or merged.
@Suite("Devices of a registered guest", .bounded)
struct SharedGuestAccessTests {
    private let world = AccessWorld()
    private var authority: Authority { world.authority }

    /// A guest with the devices 1 and 2.
    private func shared() async throws -> (first: Identity, second: Identity) {
        let signedIn = try await world.open(1).signedIn
        let first = try await world.email.identity(of: signedIn)
        return (first, try await world.join(2, first))
    }

    private func registered(_ subject: String, _ caller: Identity) async throws -> Identity {
        let name = Login.Name.identity(provider: "example", subject: subject)
        return try await world.email.identity(
            of: try await authority.register(name, email: nil, caller).0
        )
    }

    private func open(
        _ number: Int,
        was guest: Identifier?
    ) async throws(Problem) -> GuestOutcome {
        var request = world.device(number)
        request.guest = guest
        return try await authority.guest(request)
    }

    private func refusal(_ number: Int, was guest: Identifier) async -> ProblemCode? {
        await problem { () throws(Problem) in try await open(number, was: guest) }?.code
    }

    @Test func `a device that was a merged guest is refused, and may begin as a new guest`()
        async throws
    {
        let (first, second) = try await shared()
        let owner = try await world.email.identity(of: world.open(3).signedIn)
        let account = try await registered("ana", owner).account
        _ = try await authority.merge(first, into: account)

        #expect(await refusal(2, was: second.account) == .guestRegistered)
        // The device that merged has access.
        #expect(try await open(1, was: first.account).signedIn.account.id == account)
        let outcome = try await open(2, was: nil)
        #expect(outcome.isNew && outcome.signedIn.account.kind == .guest)
    }

    @Test func `a device that was a registered guest is refused`() async throws {
        let (first, second) = try await shared()
        let account = try await registered("ana", first).account
        #expect(account == second.account)
        #expect(await refusal(2, was: account) == .guestRegistered)
        #expect(try await open(1, was: account).signedIn.account.id == account)
    }

    @Test func `a device that names a guest of others is not refused`() async throws {
        let (first, _) = try await shared()
        let owner = try await world.email.identity(of: world.open(3).signedIn)
        let account = try await registered("ana", owner).account
        _ = try await authority.merge(first, into: account)
        let outcome = try await open(4, was: first.account)
        #expect(outcome.isNew && outcome.signedIn.account.kind == .guest)
    }

    @Test func `a device is not refused after the account of the merge was deleted`()
        async throws
    {
        let (first, second) = try await shared()
        let owner = try await world.email.identity(of: world.open(3).signedIn)
        let account = try await registered("ana", owner).account
        _ = try await authority.merge(first, into: account)
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await authority.deleteAccount(account, by: note)
        #expect(try await open(2, was: second.account).isNew)
    }

    @Test func `an account knows its merged guests, and those whose device has joined it`()
        async throws
    {
        let (first, _) = try await shared()
        let owner = try await world.email.identity(of: world.open(3).signedIn)
        let account = try await registered("ana", owner)
        _ = try await authority.merge(first, into: account.account)
        let left = try await world.email.identity(of: world.open(5).signedIn)
        _ = try await world.join(5, account)
        let stranger = try await world.email.identity(of: world.open(6).signedIn)
        let asked = [left.account, stranger.account, first.account, account.account]

        let guests = try await authority.guests(of: account.account, among: asked).items
        #expect(guests.map(\.id) == [left.account, first.account])
        #expect(try await authority.guests(of: stranger.account, among: asked).items.isEmpty)
    }
}
