import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

extension ValueQuery where Value == [String] {
    static let today = ValueQuery("today", policy: .untilMidnight.stored(.onDisk)) { request in
        try await request.get("pages/today")
    }
}

/// The samples of the guides to automatic refetching and the storage matrix.
@Suite("Event snippets", .bounded)
struct EventSnippets {
    @Test func `the app can set the zone of the user's days`() throws {
        let client = try SanguineClient(.inMemory())

        try client.setTimeZone("Asia/Tokyo")  // the user moved or chose a zone
        let zone = client.timeZone  // "Asia/Tokyo"

        #expect(zone == "Asia/Tokyo")
    }

    @Test func `a policy can expire at midnight`() {
        let policy = Policy.fresh(for: .hours(6)).refetched(on: .midnight)

        #expect(policy.refetchEvents == .midnight)
    }

    @Test func `a policy names the events that make its values stale`() {
        let policy = Policy.fresh(for: .hours(1)).refetched(on: [.foreground, .networkBack])

        #expect(policy.refetchEvents == [.foreground, .networkBack])
    }

    @Test func `a policy sets a polling interval`() {
        let policy = Policy.fresh(for: .minutes(1)).polled(every: .seconds(30))

        #expect(policy.polling == .seconds(30))
    }

    @Test func `a policy sets the range of its adaptive freshness`() {
        let policy = Policy.fresh(for: .minutes(5)).adaptive(within: .minutes(1) ... .hours(12))

        #expect(policy.adaptive == .minutes(1) ... .hours(12))
    }

    @Test func `an app can post its own notifications`() {
        let (didOpen, didClose) = (Notification.Name("didOpen"), Notification.Name("didClose"))
        var configuration = SanguineClient.Configuration()

        configuration.lifecycle = NotificationLifecycle(foreground: didOpen, background: didClose)

        NotificationCenter.default.post(name: didClose, object: nil)
        #expect(!configuration.lifecycle.isForeground.value)
    }

    @Test func `a client prints its storage matrix`() throws {
        var configuration = SanguineClient.Configuration.inMemory()

        func matrix() throws -> StorageMatrix {
            configuration.queries = [
                ValueQuery.profile("").declaration, ValueQuery.today.declaration,
            ]
            configuration.functions = [Ask.self]
            let client = try SanguineClient(configuration)
            print(client.matrix())
            return client.matrix()
        }

        #expect(try matrix().rows.map(\.name) == ["ask", "profile", "today"])
    }

    @Test func `a test simulates an app returning from the background`() async throws {
        let clock = ManualWallClock()
        let lifecycle = ManualLifecycle()
        let network = ScriptedTransport { _ in .json(["Monday"]) }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.clock = clock
        configuration.lifecycle = lifecycle
        let client = try SanguineClient(configuration)
        let policy = Policy.session.refetched(on: .foreground)
        let page = ValueQuery<[String]>("page", policy: policy) { try await $0.get("page") }
        _ = try await client.value(of: page)

        lifecycle.enterBackground()
        clock.advance(by: .minutes(5))
        lifecycle.enterForeground()
        _ = try await client.value(of: page)

        #expect(network.requests.count == 2)
    }
}
