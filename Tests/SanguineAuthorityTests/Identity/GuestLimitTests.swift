import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The limit on new guests of an address.
@Suite("Guests per address", .bounded)
struct GuestLimitTests {
    private let clock = ManualClock()
    private let authority: Authority

    init() {
        authority = Self.authority(clock, limit: 3)
    }

    private static func authority(_ clock: ManualClock, limit: Int) -> Authority {
        var settings = AuthoritySettings()
        settings.guestsPerHour = limit
        return Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
    }

    private func guest(
        _ number: Int,
        from address: String? = "192.0.2.1",
        of authority: Authority? = nil
    ) async throws -> GuestOutcome {
        let request = GuestRequest(
            deviceId: "device-number-\(100_000 + number)",
            deviceSecret: Base64URL.encode([UInt8](repeating: 7, count: 32))
        )
        return try await (authority ?? self.authority).guest(request, from: address)
    }

    private func fill() async throws {
        for number in 1...3 { _ = try await guest(number) }
    }

    @Test func `one guest too many is refused with the time to wait`() async throws {
        try await fill()
        clock.advance(by: .seconds(600))
        let problem = await #expect(throws: Problem.self) { try await guest(4) }
        #expect(problem?.code == .rateLimited && problem?.retryAfter == 3_000)
    }

    @Test func `a known device is never refused`() async throws {
        try await fill()
        for number in 1...3 { #expect(try await !guest(number).isNew) }
    }

    @Test func `repetitions of a device's request count once`() async throws {
        for _ in 1...10 { _ = try await guest(1) }
        for number in 2...3 { #expect(try await guest(number).isNew) }
    }

    @Test func `another address has its own limit`() async throws {
        try await fill()
        #expect(try await guest(4, from: "192.0.2.2").isNew)
    }

    @Test func `a refused guest may be created an hour after the first one`() async throws {
        try await fill()
        clock.advance(by: .seconds(3_599))
        await #expect(throws: Problem.self) { try await guest(4) }
        clock.advance(by: .seconds(1))
        #expect(try await guest(4).isNew)
    }

    @Test func `a refused guest leaves no account`() async throws {
        try await fill()
        await #expect(throws: Problem.self) { try await guest(4) }
        #expect(try await authority.account(deviceID: "device-number-100004") == nil)
    }

    @Test func `a clock that is set back refuses nothing`() async throws {
        try await fill()
        clock.set(ManualClock.start + .seconds(-60))
        #expect(try await guest(4).isNew)
    }

    @Test func `of simultaneous new guests exactly the limit is created`() async throws {
        let created = await withTaskGroup(of: Bool.self) { group in
            for number in 1...20 {
                group.addTask { (try? await guest(number).isNew) == true }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(created == 3)
    }

    @Test func `zero means any number`() async throws {
        let authority = Self.authority(clock, limit: 0)
        for number in 1...50 { #expect(try await guest(number, of: authority).isNew) }
    }

    @Test func `the count does not reveal the address`() async throws {
        _ = try await guest(1, from: "192.0.2.1")
        let rows = try await authority.storage.documents(
            DocumentQuery(.guestCount, limit: 10)
        )
        let row = try #require(rows.first)
        #expect(rows.count == 1 && row.expiresAt == ManualClock.start + .seconds(3_600))
        #expect(!row.id.contains("192.0.2.1"))
        #expect(!String(decoding: row.body, as: UTF8.self).contains("192.0.2.1"))
    }
}
