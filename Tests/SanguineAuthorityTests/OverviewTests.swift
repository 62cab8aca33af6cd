import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Accounts as administrators see them.
@Suite("Overviews of accounts", .bounded)
struct OverviewTests {
    private let clock = ManualClock()

    private func authority() -> Authority {
        Authority(storage: MemoryStorage(), keys: SigningKeys(), clock: clock)
    }

    private func guest(_ number: Int, _ authority: Authority) async throws -> Identity {
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-012345678\(number)", deviceSecret: secret)
        let session = try await authority.guest(guest).signedIn.session
        return try await authority.tokens.verify(session.accessToken)
    }

    @Test func `a merged guest is shown with the account that has its data`() async throws {
        let authority = authority()
        let (account, guest) = (
            try await guest(1, authority), try await guest(2, authority)
        )
        let email = "ana@example.org"
        _ = try await authority.register(.email(email), email: email, account)
        _ = try await authority.merge(guest, into: account.account)

        let overview = try await authority.overview(of: guest.account)
        #expect(overview.state == "merged" && overview.mergedInto == account.account)
        #expect(overview.balance.available == 0)
    }

    @Test func `the ways to sign in are shown without secrets`() async throws {
        let authority = authority()
        let account = try await guest(1, authority)
        #expect(try await authority.overview(of: account.account).logins.isEmpty)
        let name = Login.Name.identity(provider: "apple", subject: "subject of ana")
        _ = try await authority.register(name, email: nil, account)
        let overview = try await authority.overview(of: account.account)
        #expect(overview.logins.map(\.provider) == ["apple"])
        #expect(overview.logins.map(\.boundAt) == [clock.now()])
        let text = String(decoding: ResponseEncoder.encode(overview), as: UTF8.self)
        #expect(!text.contains("subject of ana"))
    }

    @Test func `a plan that has ended is shown as free`() async throws {
        let authority = authority()
        let account = try await guest(1, authority).account
        let end = clock.now() + .seconds(10)
        _ = try await authority.setPlan(.premium, until: end, of: account)
        clock.advance(by: .seconds(10))
        #expect(try await authority.overview(of: account).account.plan == .free)
        #expect(try await authority.accounts().items.map(\.plan) == [.free])
    }
}
