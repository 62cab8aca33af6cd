import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The limits of codes that move a guest.
@Suite("Attempts to redeem codes", .bounded)
struct AttemptLimiterTests {
    @Test func `strangers cannot use up the attempts of another address`() throws {
        let limiter = AttemptLimiter(perAddress: 10)
        for address in 0..<1_000 {
            for _ in 0..<10 { try limiter.count("address \(address)", at: ManualClock.start) }
        }
        #expect(throws: Problem.self) { try limiter.count("address 1", at: ManualClock.start) }
        try limiter.count("another address", at: ManualClock.start)
    }

    @Test func `the number of counters is bounded, and further addresses are still limited`()
        throws
    {
        let limiter = AttemptLimiter(perAddress: 2)
        for address in 0..<200_000 {
            try? limiter.count("address \(address)", at: ManualClock.start)
        }
        #expect(limiter.count <= AttemptLimiter.addresses + AttemptLimiter.groups)
        try? limiter.count("late", at: ManualClock.start)
        try? limiter.count("late", at: ManualClock.start)
        #expect(throws: Problem.self) { try limiter.count("late", at: ManualClock.start) }
        try limiter.count("late", at: ManualClock.start + .seconds(60))
    }

    @Test func `an account can request ten codes in ten minutes`() async throws {
        let clock = ManualClock()
        let authority = Authority(storage: MemoryStorage(), keys: SigningKeys(), clock: clock)
        let guests = try await ["device-0123456789", "device-9876543210"].asyncGuests(authority)
        let request = MoveCodeRequest()
        for _ in 0..<10 { _ = try await authority.issueMoveCode(guests[0], request) }
        let refusal = await #expect(throws: Problem.self) {
            _ = try await authority.issueMoveCode(guests[0], request)
        }
        #expect(refusal?.code == .rateLimited && refusal?.retryAfter == 600)
        _ = try await authority.issueMoveCode(guests[1], request)
        clock.advance(by: .seconds(600))
        _ = try await authority.issueMoveCode(guests[0], request)
    }
}

extension [String] {
    /// Creates a guest for each device id.
    fileprivate func asyncGuests(_ authority: Authority) async throws -> [Identity] {
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        var guests: [Identity] = []
        for id in self {
            let guest = GuestRequest(deviceId: id, deviceSecret: secret)
            let session = try await authority.guest(guest).signedIn.session
            guests.append(try await authority.tokens.verify(session.accessToken))
        }
        return guests
    }
}
