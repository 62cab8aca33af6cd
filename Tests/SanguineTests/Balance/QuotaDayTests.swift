import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A quota changes at a known time.
@Suite("Quotas at midnight", .bounded)
struct QuotaDayTests {
    private let fixture = ClientFixture()
    private let delay = ManualClock()

    private func client(
        folder: URL? = nil,
        clock: ManualWallClock? = nil
    ) throws -> SanguineClient {
        try fixture.client(folder: folder) { configuration in
            configuration.clock = clock ?? fixture.clock
            configuration.delay = delay
            configuration.timeZone = "Pacific/Auckland"
        }
    }

    /// Returns a client that has used one unit of three.
    private func used(folder: URL? = nil) async throws -> SanguineClient {
        fixture.authority.server.serve(QuotaCallTests.Read.self) { "\($0)" }
        let client = try client(folder: folder)
        _ = try await client.value(of: .quotas)
        _ = try await client.call(QuotaCallTests.Read(1))
        #expect(client.cached(.quotas)?.first?.remaining == 2)
        return client
    }

    /// Returns the time until the quota's next day.
    private func left(_ client: SanguineClient) throws -> Duration {
        try #require(client.cached(.quotas)?.first).resetsAt - fixture.clock.now()
    }

    @Test func `a read after midnight shows a new day without a network`() async throws {
        let client = try await used()
        defer { client.close() }
        fixture.clock.advance(by: try left(client) - .milliseconds(1))
        #expect(client.cached(.quotas)?.first?.remaining == 2)
        fixture.clock.advance(by: .milliseconds(1))

        let quota = try #require(client.cached(.quotas)?.first)
        #expect(quota.used == 0 && quota.remaining == quota.limit)
        let zone = try #require(TimeZone(identifier: "Pacific/Auckland"))
        let now = fixture.clock.now()
        #expect(quota.resetsAt == CalendarDay.nextMidnight(after: now, in: zone))
        #expect(client.snapshot(of: .quotas).value?.first?.used == 0)
    }

    @Test func `observers are notified at midnight`() async throws {
        let client = try await used()
        defer { client.close() }
        let seen = WatchedState<[Int64]>([])
        let following = client.observe(.quotas) { state in
            if let left = state.value?.first?.remaining { seen.withLock { $0.append(left) } }
        }
        let time = try left(client)
        fixture.clock.advance(by: time)
        try await eventually("observers are notified") {
            delay.advance(by: time)
            return seen.value.last == 3
        }
        #expect(seen.value.contains { $0 < 3 })
        withExtendedLifetime(following) {}
    }

    @Test func `the next process shows the new day too`() async throws {
        try await ClientFixture.withFolder { folder in
            let first = try await used(folder: folder)
            let time = try left(first)
            first.close()
            fixture.clock.advance(by: time)
            let second = try client(folder: folder)
            defer { second.close() }
            #expect(second.cached(.quotas)?.first?.used == 0)
        }
    }

    @Test(arguments: [false, true])
    func `a list applies to its day even if the device's clock is past it`(
        isRestarted: Bool
    ) async throws {
        try await ClientFixture.withFolder { folder in
            let device = ManualWallClock()
            var client = try client(folder: folder, clock: device)
            fixture.authority.server.serve(QuotaCallTests.Read.self) { "\($0)" }
            let first = try #require(try await client.value(of: .quotas).first)
            // Two hours ahead of the server, and past the server's midnight.
            device.advance(by: first.resetsAt - device.now() + .seconds(3_600))
            fixture.clock.advance(by: first.resetsAt - fixture.clock.now() - .seconds(3_600))
            _ = try await client.call(QuotaCallTests.Read(1))
            #expect(try await client.refresh(.quotas).first?.used == 1)
            if isRestarted {
                client.close()
                client = try self.client(folder: folder, clock: device)
            }
            #expect(client.cached(.quotas)?.first?.used == 1)
            _ = try await client.call(QuotaCallTests.Read(2))
            #expect(client.cached(.quotas)?.first?.used == 2)

            // The server's day has ended, and with it the quota.
            fixture.clock.advance(by: .seconds(3_601))
            device.advance(by: .seconds(3_601))
            #expect(try await client.refresh(.quotas).first?.used == 0)
            client.close()
        }
    }

    @Test func `a list of quotas expires at the next day, without a network`() async throws {
        let device = ManualWallClock()
        let client = try client(clock: device)
        defer { client.close() }
        fixture.authority.server.serve(QuotaCallTests.Read.self) { "\($0)" }
        let first = try #require(try await client.value(of: .quotas).first)
        _ = try await client.call(QuotaCallTests.Read(1))
        device.advance(by: first.resetsAt - device.now() + .seconds(3_600))
        #expect(try await client.refresh(.quotas).first?.used == 1)
        device.advance(by: .seconds(23 * 3_600))
        #expect(client.cached(.quotas)?.first?.used == 0)
    }

    @Test func `the server's answer for the new day takes precedence`() async throws {
        let client = try await used()
        defer { client.close() }
        fixture.clock.advance(by: try left(client))
        #expect(client.cached(.quotas)?.first?.used == 0)
        _ = try await client.call(QuotaCallTests.Read(2))
        #expect(client.cached(.quotas)?.first?.used == 1)
        #expect(try await client.refresh(.quotas).first?.used == 1)
    }
}
