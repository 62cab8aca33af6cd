import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Merges by an identity token whose response was lost.
@Suite("Repeated merges with identity tokens", .bounded)
struct IdentityMergeRepetitionTests {
    private let world: IdentityWorld

    init() throws { world = try IdentityWorld() }

    private func signIn(_ token: String, _ guest: Identity?) async throws(Problem) -> SignedIn {
        try await world.authority.signIn(
            provider: "example",
            identityToken: token,
            nonce: TestIssuer.nonce,
            as: guest
        )
    }

    private func refusal(_ token: String, _ guest: Identity?) async -> String? {
        await problem { () throws(Problem) in try await signIn(token, guest) }?.detail
    }

    /// Registers an account, and returns it with a token that signs in to it.
    private func registered() async throws -> (account: Identifier, token: String) {
        let owner = try await world.guest(1)
        try await world.register(try await world.issuer.token(), owner)
        return (owner.account, try await world.issuer.token(claims: ["jti": 1]))
    }

    @Test func `the guest that was merged gets the same session again`() async throws {
        let (account, token) = try await registered()
        let guest = try await world.guest(2)
        let first = try await signIn(token, guest)
        let again = try await signIn(token, guest)

        #expect(again.account.id == account && again.merged == first.merged)
        #expect(again.session.refreshToken == first.session.refreshToken)
    }

    @Test func `a repetition is refused once the session was used`() async throws {
        let (_, token) = try await registered()
        let guest = try await world.guest(2)
        let first = try await signIn(token, guest)
        _ = try await world.authority.refresh(
            RefreshRequest(refreshToken: first.session.refreshToken)
        )

        #expect(await refusal(token, guest) == IdentityTokenFault.used.problem.detail)
    }

    @Test func `a used token opens nothing without the token of the merged guest`() async throws {
        let (_, token) = try await registered()
        let guest = try await world.guest(2)
        _ = try await signIn(token, guest)
        let other = try await world.guest(3)

        #expect(await refusal(token, nil) == IdentityTokenFault.used.problem.detail)
        #expect(await refusal(token, other) == IdentityTokenFault.used.problem.detail)
        #expect(try await world.authority.account(other.account).0.kind == .guest)
    }
}
