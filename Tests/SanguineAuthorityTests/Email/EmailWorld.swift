import Foundation
import SanguineModel

@testable import SanguineAuthority

/// An authority with cheap passwords, and the messages that it would send.
struct EmailWorld: Sendable {
    static let address = "198.51.100.7"

    let clock = ManualClock()
    let storage = InterruptedStorage()
    let authority: Authority

    init(_ change: (inout AuthoritySettings) -> Void = { _ in }) {
        var settings = AuthoritySettings()
        settings.passwordCost.logRounds = 2
        change(&settings)
        authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
    }

    /// The number of hashes of passwords so far.
    var hashes: Int { authority.passwords.operations }

    /// Creates a guest and returns its identity.
    func guest(_ number: Int = 1) async throws -> Identity {
        let secret = Base64URL.encode([UInt8](repeating: UInt8(number % 256), count: 32))
        let request = GuestRequest(deviceId: "device-0123456789-\(number)", deviceSecret: secret)
        return try await identity(of: try await authority.guest(request).signedIn)
    }

    func identity(of signedIn: SignedIn) async throws -> Identity {
        try await authority.tokens.verify(signedIn.session.accessToken)
    }

    /// Whether the session of the identity has not ended.
    func isLive(_ identity: Identity) async throws -> Bool {
        let row = try await storage.load([.session(identity.session)]).session(identity.session)
        return row.map { $0.endedAt == nil } ?? false
    }

    /// Sends a code and returns it.
    func upgrade(
        _ identity: Identity,
        _ email: String = "ana@example.org",
        _ password: String = "correct horse",
        from address: String? = nil
    ) async throws -> String {
        let earlier = try await mails(to: email)
        _ = try await authority.upgrade(
            UpgradeRequest(email: email, password: password),
            identity,
            from: address
        )
        return try await code(to: email, after: earlier)
    }

    /// Creates a registered account.
    func registered(
        _ number: Int = 1,
        _ email: String = "ana@example.org",
        _ password: String = "correct horse"
    ) async throws -> Identity {
        let guest = try await guest(number)
        let code = try await upgrade(guest, email, password)
        let (signedIn, _) = try await authority.verifyUpgrade(CodeRequest(code: code), guest)
        return try await identity(of: signedIn)
    }

    func signIn(
        _ email: String = "ana@example.org",
        _ password: String = "correct horse",
        from address: String? = nil
    ) async throws(Problem) -> SignedIn {
        try await authority.signIn(
            SessionRequest(email: email, password: password),
            from: address
        )
    }

    /// The messages to an address that wait to be sent, oldest first.
    func mails(to address: String) async throws -> [OutgoingMail] {
        try await authority.dueMail(limit: 1_000).due.filter { $0.to == address }
    }

    /// The code in a message to an address that is none of the earlier ones.
    func code(to address: String, after earlier: [OutgoingMail] = []) async throws -> String {
        for mail in try await mails(to: address) where !earlier.contains(mail) {
            if let found = mail.text.firstMatch(of: #/(\d{4}) (\d{4})/#) {
                return String(found.1 + found.2)
            }
        }
        throw Problem(.notFound, "There is no code for \(address).")
    }

    /// Another code than the given one.
    static func wrong(_ code: String) -> String { code == "00000000" ? "00000001" : "00000000" }
}
