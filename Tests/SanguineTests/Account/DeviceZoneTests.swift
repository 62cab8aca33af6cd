import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The account follows the zone of the device that was used last.
@Suite("The device's time zone", .bounded)
struct DeviceZoneTests {
    private let fixture = AccountFixture()
    private let locale = DeviceLocale(timeZone: "Europe/Berlin")

    private func signedIn(_ device: TestDevice) async throws -> SanguineClient {
        let client = try device.launch()
        _ = try await client.value(of: .quotas)
        try await client.waitUntilIdle()
        return client
    }

    @Test func `a new account has the device's zone and nothing more is sent`() async throws {
        let client = try await signedIn(fixture.device(locale))
        defer { client.close() }
        #expect(try await fixture.stored().timeZone == "Europe/Berlin")
        #expect(client.timeZone == "Europe/Berlin" && client.outbox.pending.isEmpty)
    }

    @Test func `a change of the device's zone applies at once and is sent once`() async throws {
        let device = fixture.device(locale)
        let client = try await signedIn(device)
        defer { client.close() }
        device.connectivity.disconnect()
        locale.timeZone.set("Asia/Tokyo")
        #expect(client.timeZone == "Asia/Tokyo")
        device.lifecycle.enterBackground()
        device.lifecycle.enterForeground()
        #expect(client.outbox.pending.count == 1)
        device.connectivity.connect()
        try await client.waitUntilIdle()
        #expect(try await fixture.stored().timeZone == "Asia/Tokyo")
    }

    @Test func `a zone that changed while the app was killed is sent at the launch`()
        async throws
    {
        let device = fixture.device(locale)
        _ = try await signedIn(device)
        try device.kill()
        locale.timeZone.set("America/New_York")
        let client = try await signedIn(device)
        defer { client.close() }
        #expect(try await fixture.stored().timeZone == "America/New_York")
    }

    @Test func `two devices in two zones do not send in turns`() async throws {
        let first = try await signedIn(fixture.device(locale))
        let other = DeviceLocale(timeZone: "Asia/Tokyo")
        let device = fixture.device(seed: 2, other)
        let second = try await signedIn(device)
        defer { for client in [first, second] { client.close() } }
        #expect(try await fixture.stored().timeZone == "Asia/Tokyo")
        _ = try await first.account.value()
        try await first.refresh(.account)
        for client in [first, second] { try await client.waitUntilIdle() }
        #expect(try await fixture.stored().timeZone == "Asia/Tokyo")
        #expect(first.outbox.pending.isEmpty && second.outbox.pending.isEmpty)
    }

    @Test func `a zone that the app sets is kept when the device's changes`() async throws {
        let device = fixture.device(locale)
        var client = try await signedIn(device)
        let receipt = try client.account.update { $0.timeZone = "Europe/Rome" }
        _ = try await receipt?.outcome
        locale.timeZone.set("Asia/Tokyo")
        #expect(client.timeZone == "Europe/Rome")
        try device.kill()
        client = try await signedIn(device)
        #expect(client.timeZone == "Europe/Rome")
        #expect(try await fixture.stored().timeZone == "Europe/Rome")

        try client.account.followDeviceTimeZone()
        try await client.waitUntilIdle()
        #expect(client.timeZone == "Asia/Tokyo")
        #expect(try await fixture.stored().timeZone == "Asia/Tokyo")
        client.close()
    }

    @Test func `a zone that the server does not know is sent once, and leaves no operation`()
        async throws
    {
        let network = MergingNetwork(fixture.authority)
        let device = fixture.device(locale, network: network)
        let client = try await signedIn(device)
        defer { client.close() }
        _ = try await client.account.value()
        let problem = Problem(.invalidContent, "Set 'timeZone' to an IANA name.")
        network.answer("PATCH /v1/account", try WireCoding.encode(problem), status: 422)
        locale.timeZone.set("Asia/Tokyo")
        try await eventually("the refusal has arrived") {
            network.requests("/v1/account").contains { $0.method == "PATCH" }
                && client.outbox.pending.isEmpty && client.outbox.refused.isEmpty
        }
        for _ in 0..<2 {
            device.lifecycle.enterBackground()
            device.lifecycle.enterForeground()
        }
        try await client.refresh(.account)
        try await client.waitUntilIdle()
        #expect(network.requests("/v1/account").count { $0.method == "PATCH" } == 1)
        #expect(client.outbox.pending.isEmpty && client.outbox.refused.isEmpty)
        // The user's day is that of the device all the same.
        #expect(client.timeZone == "Asia/Tokyo")
    }

    @Test func `a configured zone is not replaced by the device's`() async throws {
        let device = fixture.device(locale) { $0.timeZone = "Europe/Rome" }
        let client = try await signedIn(device)
        defer { client.close() }
        locale.timeZone.set("Asia/Tokyo")
        #expect(client.timeZone == "Europe/Rome" && client.outbox.pending.isEmpty)
        let error = #expect(throws: SanguineError.self) {
            try client.account.followDeviceTimeZone()
        }
        #expect(error?.code == "not_configured")
    }

    @Test func `the language follows the device only if that is declared`() async throws {
        let client = try await signedIn(fixture.device(locale))
        defer { client.close() }
        locale.language.set("de")
        #expect(client.outbox.pending.isEmpty)
        let other = DeviceLocale(timeZone: "Europe/Berlin", language: "en")
        let device = fixture.device(seed: 2, other) { $0.followsDeviceLanguage = true }
        let follower = try await signedIn(device)
        defer { follower.close() }
        other.language.set("tr")
        try await follower.waitUntilIdle()
        #expect(try await fixture.stored().language == "tr")
    }

    @Test(arguments: [("UTC", "GMT"), ("Etc/UTC", "UTC"), ("Asia/Tokyo", "Asia/Tokyo")])
    func `names of one zone are the same zone`(one: String, other: String) {
        #expect(LocaleFollower.isSame(one, other))
        #expect(!LocaleFollower.isSame(one, "Europe/London"))
        #expect(!LocaleFollower.isSame(one, "Africa/Abidjan"))
    }

    @Test(arguments: ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Tokyo"])
    func `a journey grants no second quota`(zone: String) async throws {
        let device = fixture.device(locale)
        let client = try await signedIn(device)
        defer { client.close() }
        let limit = try #require(client.quotas["readings"]).limit
        for _ in 0..<limit { try await client.consume("readings") }
        locale.timeZone.set(zone)
        try await client.waitUntilIdle()
        #expect(try await fixture.stored().timeZone == zone)
        try await client.refresh(.quotas)
        let error = await #expect(throws: SanguineError.self) {
            try await client.consume("readings")
        }
        #expect(error?.code == "quota_exhausted")
    }
}
