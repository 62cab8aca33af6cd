import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The number of logins of an account.
@Suite("Limit of logins", .bounded)
struct LoginLimitTests {
    private let authority: Authority

    init() {
        var settings = AuthoritySettings()
        settings.loginsPerAccount = 2
        authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: ManualClock()
        )
    }

    private func guest(_ number: UInt8) async throws -> Identity {
        let guest = GuestRequest(
            deviceId: "device-number-\(100_000 + Int(number))",
            deviceSecret: Base64URL.encode([UInt8](repeating: number, count: 32))
        )
        let session = try await authority.guest(guest).signedIn.session
        return try await authority.tokens.verify(session.accessToken)
    }

    private func bind(_ subject: String, to identity: Identity) async throws -> Identity {
        let login = Login.Name.identity(provider: "apple", subject: subject)
        let (signedIn, _) = try await authority.register(login, email: nil, identity)
        return try await authority.tokens.verify(signedIn.session.accessToken)
    }

    @Test func `a login beyond the limit is refused, and changes nothing`() async throws {
        var identity = try await bind("a", to: guest(1))
        identity = try await bind("b", to: identity)
        let refusal = await #expect(throws: Problem.self) {
            _ = try await bind("c", to: identity)
        }
        #expect(refusal?.code == .invalidContent && refusal?.detail.contains("at most 2") == true)
        // The login is free for another account, and the session of the first one is still valid.
        _ = try await bind("c", to: guest(2))
        _ = try await authority.tokens.verify(authority.tokens.issue(for: identity))
    }

    @Test func `a login that the account has already can be proved again`() async throws {
        var identity = try await bind("a", to: guest(1))
        identity = try await bind("b", to: identity)
        _ = try await bind("a", to: identity)
    }
}
