import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Devices that have lost the access to a registered account, and must be attested.
@Suite("Attested devices without access", .bounded)
struct AttestedAccessTests {
    private static let address = "192.0.2.1"
    private let key = TestAppAttest.Key()

    /// Registers the guest of an attested device.
    private func registered(_ world: AttestedWorld) async throws -> Identity {
        let attestation = try world.service.attestation(of: key, try world.challenge())
        let outcome = try await world.guest(1, attestation, from: Self.address)
        let guest = try await world.authority.tokens.verify(
            outcome.signedIn.session.accessToken
        )
        let name = Login.Name.identity(provider: "example", subject: "ana")
        _ = try await world.authority.register(name, email: nil, guest)
        return guest
    }

    /// Ends the access of the device to its registered account.
    private func loseAccess(_ world: AttestedWorld) async throws {
        let session = try await world.guest(1).signedIn.session
        try await world.authority.signOut(
            try await world.authority.tokens.verify(session.accessToken)
        )
    }

    @Test func `a device that opens its registered account needs no other attestation`()
        async throws
    {
        let world = try AttestedWorld(guestsPerHour: 1)
        let ana = try await registered(world)
        let again = try await world.guest(1, from: Self.address)
        #expect(again.signedIn.account.id == ana.account && !again.isNew)
    }

    @Test func `a device that lost its access needs an attestation for its new guest`()
        async throws
    {
        let world = try AttestedWorld()
        let ana = try await registered(world)
        try await loseAccess(world)
        await world.expect(.missing) { _ = try await world.guest(1) }
        await world.expect(.missing) {
            let device = AttestedWorld.device(1)
            let assertion = try key.assertion(try world.challenge(), for: device, counter: 1)
            _ = try await world.guest(1, nil, assertion)
        }
        let new = TestAppAttest.Key()
        let guest = try await world.attested(new)
        #expect(guest.isNew && guest.signedIn.account.id != ana.account)
        #expect(try await world.authority.balance(guest.signedIn.account.id).available == 0)
    }

    @Test func `the new guest of a device that lost its access counts for the limit`()
        async throws
    {
        let world = try AttestedWorld(guestsPerHour: 1)
        _ = try await registered(world)
        try await loseAccess(world)
        func attested() async throws -> GuestOutcome {
            let new = TestAppAttest.Key()
            let attestation = try world.service.attestation(of: new, try world.challenge())
            return try await world.guest(1, attestation, from: Self.address)
        }
        let problem = await #expect(throws: Problem.self) { try await attested() }
        #expect(problem?.code == .rateLimited)
        world.clock.advance(by: .seconds(3_600))
        let guest = try await attested()
        #expect(guest.isNew)
        // The device opens its guest, and the count of the address is full.
        #expect(try await !world.guest(1, from: Self.address).isNew)
        let other = await #expect(throws: Problem.self) {
            try await world.guest(2, from: Self.address)
        }
        #expect(other?.code == .rateLimited)
    }

    /// A client ends the session of a former user and repeats its request.
    @Test func `an attestation that opened a registered account is accepted for the new guest`()
        async throws
    {
        let world = try AttestedWorld { $0.demandsAssertions = true }
        let ana = try await registered(world)
        let new = TestAppAttest.Key()
        let attestation = try world.service.attestation(of: new, try world.challenge())
        let former = try await world.guest(1, attestation).signedIn
        #expect(former.account.id == ana.account)
        try await world.authority.signOut(
            try await world.authority.tokens.verify(former.session.accessToken)
        )
        let guest = try await world.guest(1, attestation)
        #expect(guest.isNew && guest.signedIn.account.kind == .guest)

        // The key belongs to the new account, and the session needs its assertions.
        let name = AttestedKey.id(try #require(AttestationObject.bytes(new.id)))
        let row = try await world.authority.storage.load([AttestedKey.key(name)])
            .document(.attestation, name)
        #expect(row?.account == guest.signedIn.account.id)
        let token = guest.signedIn.session.refreshToken
        await world.expect(.assertionMissing) {
            _ = try await world.authority.refresh(RefreshRequest(refreshToken: token))
        }
        let assertion = try new.assertion(try world.challenge(), for: token, counter: 1)
        _ = try await world.authority.refresh(
            RefreshRequest(refreshToken: token, assertion: assertion)
        )
    }
}
