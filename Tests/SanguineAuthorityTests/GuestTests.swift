import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Guests, who are identified by their device.
@Suite("Guests", .bounded)
struct GuestTests {
    private static let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
    private static let otherSecret = Base64URL.encode([UInt8](repeating: 8, count: 32))

    private func authority(
        _ storage: MemoryStorage = MemoryStorage(),
        _ settings: AuthoritySettings = AuthoritySettings()
    ) async throws -> Authority {
        Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: ManualClock()
        )
    }

    private func request(
        _ device: String = "device-0123456789",
        _ secret: String = secret,
        timeZone: String? = nil,
        language: String? = nil
    ) -> GuestRequest {
        GuestRequest(
            deviceId: device,
            deviceSecret: secret,
            timeZone: timeZone,
            language: language
        )
    }

    @Test func `a new device gets an account with a grant and a session`() async throws {
        let authority = try await authority()
        let guest = try await authority.guest(request(timeZone: "Europe/Istanbul", language: "tr"))
        let account = guest.signedIn.account

        #expect(guest.isNew && account.kind == .guest && account.plan == .free)
        #expect(account.timeZone == "Europe/Istanbul" && account.language == "tr")
        #expect(account.createdAt == ManualClock.start)
        let balance = try await authority.balance(account.id)
        #expect(balance.available == 100 && balance.head == guest.head)
        let identity = try await authority.tokens.verify(guest.signedIn.session.accessToken)
        #expect(identity.account == account.id)
        #expect(guest.signedIn.session.expiresIn == 900)
    }

    @Test func `a known device gets its account again, without a second grant`() async throws {
        let authority = try await authority()
        let first = try await authority.guest(request())
        let second = try await authority.guest(request(timeZone: "Asia/Tokyo"))

        #expect(!second.isNew && second.head == nil)
        #expect(second.signedIn.account == first.signedIn.account)
        #expect(second.signedIn.session.refreshToken != first.signedIn.session.refreshToken)
        #expect(try await authority.balance(first.signedIn.account.id).available == 100)
    }

    @Test func `a known device with another secret is refused`() async throws {
        let authority = try await authority()
        _ = try await authority.guest(request())

        let refused = await problem { () throws(Problem) in
            try await authority.guest(request("device-0123456789", Self.otherSecret))
        }
        #expect(refused?.code == .deviceSecretMismatch && refused?.status == 401)
    }

    @Test func `only a hash of the secret is stored`() async throws {
        let storage = MemoryStorage()
        _ = try await authority(storage).guest(request())
        let row = try await storage.load([.device("device-0123456789")])
            .device("device-0123456789")

        #expect(row?.secretHash.count == 32)
        #expect(row?.secretHash != [UInt8](repeating: 7, count: 32))
    }

    @Test func `an account without a grant has a balance of zero`() async throws {
        var settings = AuthoritySettings()
        settings.grant = 0
        let authority = try await authority(MemoryStorage(), settings)
        let guest = try await authority.guest(request())
        let balance = try await authority.balance(guest.signedIn.account.id)

        #expect(balance.available == 0 && balance.head == guest.head)
        #expect(try await authority.verifyLedger().differences.isEmpty)
    }

    @Test(arguments: [
        ("too-short-device", true), ("fifteen-letters", false), ("", false),
        (String(repeating: "d", count: 128), true), (String(repeating: "d", count: 129), false),
        (String(repeating: "é", count: 16), true), (String(repeating: "👍🏽", count: 128), true),
        ("device\u{0}0123456789", false), ("device\n0123456789", false),
        (String(repeating: "e\u{301}\u{301}\u{301}\u{301}\u{301}", count: 128), false),
    ])
    func `a device id is 16 to 128 printable characters`(id: String, isValid: Bool) async throws {
        let authority = try await authority()
        let refused = await problem { () throws(Problem) in try await authority.guest(request(id)) }

        #expect(refused?.code == (isValid ? nil : .invalidContent))
    }

    @Test(arguments: [
        "", "c2hvcnQ", Base64URL.encode([UInt8](repeating: 7, count: 31)),
        Base64URL.encode([UInt8](repeating: 7, count: 33)), secret + "=",
        Data(repeating: 0xFF, count: 32).base64EncodedString(), " " + secret,
        String(secret.dropLast()) + "d",  // Stray bits at the end.
    ])
    func `a device secret is 32 bytes in base64url, in canonical form`(secret: String) async throws
    {
        let authority = try await authority()
        let refused = await problem { () throws(Problem) in
            try await authority.guest(request("device-0123456789", secret))
        }

        #expect(refused?.code == .invalidContent)
    }

    @Test func `one of a thousand simultaneous first calls creates the account`() async throws {
        let authority = try await authority()
        let request = request()
        let outcomes = try await withThrowingTaskGroup { group in
            for _ in 1...1_000 { group.addTask { try await authority.guest(request) } }
            return try await group.reduce(into: [GuestOutcome]()) { $0.append($1) }
        }

        #expect(outcomes.count == 1_000)
        #expect(outcomes.count { $0.isNew } == 1)
        #expect(Set(outcomes.map(\.signedIn.account.id)).count == 1)
        for outcome in outcomes {
            _ = try await authority.tokens.verify(outcome.signedIn.session.accessToken)
        }
        let report = try await authority.verifyLedger()
        #expect((report.accounts, report.transfers) == (1, 1))
    }

    @Test func `support finds an account by its device`() async throws {
        let authority = try await authority()
        let guest = try await authority.guest(request())

        #expect(
            try await authority.account(deviceID: "device-0123456789")
                == guest.signedIn.account
        )
        #expect(try await authority.account(deviceID: "device-unknown-00") == nil)
    }
}
