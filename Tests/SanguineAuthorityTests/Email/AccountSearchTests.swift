import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Search for the account of an address", .bounded)
struct AccountSearchTests {
    private let world = EmailWorld()
    private var authority: Authority { world.authority }

    /// Creates an account that shows the address, but signs in with an identity.
    private func shown(_ number: Int) async throws -> Identifier {
        let guest = try await world.guest(number)
        let login = Login.Name.identity(provider: "example", subject: "ada-\(number)")
        _ = try await authority.register(login, email: "ana@example.org", guest)
        return guest.account
    }

    @Test func `an account that signs in with the address is found before an older one`()
        async throws
    {
        let older = try await shown(1)
        #expect(try await authority.account(email: "ana@example.org")?.id == older)
        let owner = try await world.registered(2)
        #expect(try await authority.account(email: "ana@example.org")?.id == owner.account)
    }

    @Test func `an address is found in upper and lower case`() async throws {
        let owner = try await world.registered()
        #expect(try await authority.account(email: "ANA@Example.org")?.id == owner.account)
        #expect(try await authority.account(email: "not an address") == nil)
    }

    @Test func `a deleted account is not found by its address`() async throws {
        let owner = try await world.registered()
        _ = try await authority.deleteAccount(owner, DeletionRequest())
        #expect(try await authority.account(email: "ana@example.org") == nil)
    }
}
