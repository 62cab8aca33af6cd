import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Values that depend on the app's own settings become stale when these change.
@Suite("Dependencies on settings", .bounded)
struct SettingDependencyTests {
    /// The way in which a device learns of another device's change.
    enum Arrival: CaseIterable, Sendable {
        case feed
        case refresh
    }

    private let fixture = AccountFixture()
    private let fetches = WatchedState(0)

    /// A query whose value is the number of its fetches.
    private var chart: ValueQuery<Int> {
        let policy = Policy.forever.stored(.onDisk).depends(onSettings: "birth")
        return ValueQuery("chart", policy: policy) { [fetches] _ in
            fetches.withLock { count in
                count += 1
                return count
            }
        }
    }

    @Test func `a value is fetched again after its setting has changed, and only then`()
        async throws
    {
        let client = try fixture.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        #expect(try await client.value(of: chart) == 1)
        try client.account.update { $0.settings["theme"] = "dark" }
        #expect(try await client.value(of: chart) == 1)
        let receipt = try client.account.update { $0.settings["birth"] = "1990-05-17" }
        #expect(try await client.value(of: chart) == 2)
        #expect(try await receipt?.outcome == .applied)
        try await client.synchronize()
        #expect(try await client.value(of: chart) == 2)
    }

    @Test func `a setting that changes before the account is known makes the value stale`()
        async throws
    {
        let client = try fixture.device().launch()
        defer { client.close() }
        #expect(try await client.value(of: chart) == 1)
        try client.account.update { $0.settings["birth"] = "1990-05-17" }
        #expect(try await client.value(of: chart) == 2)
    }

    @Test(arguments: Arrival.allCases)
    func `another device's change makes the value stale`(arrival: Arrival) async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        try await client.synchronize()
        #expect(try await client.value(of: chart) == 1)
        try await fixture.patch(["settings": ["theme": "dark"]])
        try await receive(arrival, client)
        #expect(try await client.value(of: chart) == 1)
        try await fixture.patch(["settings": ["birth": "1990-05-17"]])
        try await receive(arrival, client)
        #expect(try await client.value(of: chart) == 2)
    }

    @Test(arguments: Arrival.allCases)
    func `a change that arrives after a restart makes the stored value stale`(
        arrival: Arrival
    ) async throws {
        let device = fixture.device()
        let former = try device.launch()
        _ = try await former.account.value()
        try await former.synchronize()
        #expect(try await former.value(of: chart) == 1)
        try await former.waitUntilIdle()
        former.close()
        try await fixture.patch(["settings": ["birth": "1990-05-17"]])

        let client = try device.launch()
        defer { client.close() }
        try await receive(arrival, client)
        #expect(client.account.current.settings["birth"] == "1990-05-17")
        #expect(try await client.value(of: chart) == 2)
    }

    @Test func `a refused change makes the value stale again`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        #expect(try await client.value(of: chart) == 1)
        let receipt = try client.account.update {
            $0.settings["birth"] = "1990-05-17"
            $0.language = "no language"
        }
        #expect(try await client.value(of: chart) == 2)
        guard case .refused = try await receipt?.outcome else {
            Issue.record("The server accepted a wrong tag.")
            return
        }
        #expect(client.account.current.settings["birth"] == nil)
        #expect(try await client.value(of: chart) == 3)
    }

    @Test func `an observed value is fetched at once`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        let seen = WatchedState<[Int]>([])
        let following = client.observe(chart) { observed in
            if let value = observed.value { seen.withLock { $0.append(value) } }
        }
        try await fetches.wait(for: "the first fetch") { $0 == 1 }
        try await client.waitUntilIdle()
        try client.account.update { $0.settings["birth"] = "1990-05-17" }
        try await seen.wait(for: "the second value") { $0.last == 2 }
        #expect(fetches.value == 2)
        withExtendedLifetime(following) {}
    }

    private func receive(_ arrival: Arrival, _ client: SanguineClient) async throws {
        switch arrival {
        case .feed: try await client.synchronize()
        case .refresh: _ = try await client.refresh(.account)
        }
    }
}
