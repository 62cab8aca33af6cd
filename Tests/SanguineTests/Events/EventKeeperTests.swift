import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Automatic fetches", .bounded)
struct EventKeeperTests {
    private struct World {
        let test: TestClient
        let lifecycle = ManualLifecycle()
        let connectivity = ManualConnectivity()

        init(change: (inout SanguineClient.Configuration) -> Void = { _ in }) throws {
            let (lifecycle, connectivity) = (lifecycle, connectivity)
            test = try TestClient(network: .profiles()) { configuration in
                configuration.lifecycle = lifecycle
                configuration.connectivity = connectivity
                configuration.timeZone = "Europe/Berlin"
                change(&configuration)
            }
        }

        var client: SanguineClient { test.client }
        var fetches: Int { test.network.requests.count }

        func query(_ policy: Policy) -> ValueQuery<Profile> {
            ValueQuery("profile", "ada", policy: policy) { try await $0.get("profiles/ada") }
        }

        /// Advances the delay clock in steps until the condition holds.
        func pass(
            _ step: Duration,
            line: Int = #line,
            until condition: () -> Bool
        ) async throws {
            for _ in 0..<1_000 {
                guard !condition() else { return }
                try await test.delay.waitForSleepers(1, line: line)
                test.delay.advance(by: step)
            }
            try await eventually("the condition holds after some time", line: line) { condition() }
        }
    }

    /// Observes a query until it has the value and is not being fetched.
    private final class Reader: Sendable {
        private let shown = WatchedState<ValueSnapshot<Profile>?>(nil)
        private let following: ObservationToken

        init(_ world: World, _ policy: Policy) {
            following = world.client.observe(world.query(policy)) { [shown] state in
                shown.withLock { $0 = state }
            }
        }

        func wait(for name: String, line: Int = #line) async throws {
            try await shown.wait(
                for: "'\(name)'",
                found: { "the shown name is \($0?.value?.name ?? "nothing")" },
                line: line
            ) {
                $0?.value?.name == name && $0?.isFetching == false
            }
        }
    }

    private func reader(_ world: World, _ policy: Policy) -> Reader { Reader(world, policy) }

    @Test func `returning after five minutes fetches observed values`() async throws {
        let world = try World()
        let reader = reader(world, .session.refetched(on: .foreground))
        try await reader.wait(for: "ada 1")
        world.lifecycle.enterBackground()
        world.test.wall.advance(by: .seconds(299))
        world.lifecycle.enterForeground()
        #expect(world.fetches == 1)
        world.lifecycle.enterBackground()
        world.test.wall.advance(by: .seconds(300))
        world.lifecycle.enterForeground()

        try await reader.wait(for: "ada 2")
        #expect(world.fetches == 2)
    }

    @Test func `returning makes unobserved values stale`() async throws {
        let world = try World()
        let query = world.query(.session.refetched(on: .foreground))
        _ = try await world.client.value(of: query)
        world.lifecycle.enterBackground()
        world.test.wall.advance(by: .minutes(5))
        world.lifecycle.enterForeground()
        #expect(world.fetches == 1)

        #expect(try await world.client.value(of: query).name == "ada 2")
    }

    @Test func `a query without refetch events is not fetched`() async throws {
        let world = try World()
        let query = world.query(.session)
        _ = try await world.client.value(of: query)
        world.lifecycle.enterBackground()
        world.test.wall.advance(by: .hours(50))
        world.connectivity.disconnect()
        world.lifecycle.enterForeground()
        world.connectivity.connect()

        #expect(try await world.client.value(of: query).name == "ada 1")
    }

    @Test func `the network's return fetches observed values`() async throws {
        let world = try World()
        let reader = reader(world, .session.refetched(on: .networkBack))
        try await reader.wait(for: "ada 1")
        world.connectivity.disconnect()
        #expect(world.fetches == 1)
        world.connectivity.connect()

        try await reader.wait(for: "ada 2")
        #expect(world.fetches == 2)
    }

    @Test func `observed values are fetched once at the user's midnight`() async throws {
        let world = try World()
        let reader = reader(world, .untilMidnight)
        try await reader.wait(for: "ada 1")
        // 12:00 GMT; Berlin's day ends at 23:00 GMT.
        world.test.wall.advance(by: .hours(11) - .milliseconds(1))
        world.test.delay.advance(by: .hours(10))
        #expect(try await world.client.value(of: world.query(.untilMidnight)).name == "ada 1")
        world.test.wall.advance(by: .seconds(6))
        // The steps are shorter than a request's timeout, since it may be in flight during them.
        try await world.pass(.seconds(10)) { world.fetches == 2 }
        try await reader.wait(for: "ada 2")

        #expect(try await world.client.value(of: world.query(.untilMidnight)).name == "ada 2")
        #expect(world.fetches == 2)
    }

    @Test func `an answer in flight at midnight belongs to the old day`() async throws {
        let world = try World()
        let query = world.query(.untilMidnight)
        world.test.network.hold()
        async let value = world.client.value(of: query)
        try await world.test.network.waitForHeld(1)
        world.test.wall.advance(by: .hours(11))
        world.test.network.release()
        _ = try await value

        #expect(!world.client.queries.isFresh(query))
    }

    @Test func `a value with a longer freshness is stale after midnight if its policy says so`()
        async throws
    {
        let world = try World()
        let query = world.query(.fresh(for: .hours(48)).refetched(on: .midnight))
        _ = try await world.client.value(of: query)
        world.test.wall.advance(by: .hours(11) - .milliseconds(1))
        #expect(world.client.queries.isFresh(query))
        world.test.wall.advance(by: .milliseconds(1))

        #expect(!world.client.queries.isFresh(query))
    }

    @Test func `a zone with a different day fetches observed values at once`() async throws {
        let world = try World()
        let reader = reader(world, .untilMidnight)
        try await reader.wait(for: "ada 1")
        try world.client.setTimeZone("Europe/Madrid")
        #expect(world.fetches == 1)
        try world.client.setTimeZone("Pacific/Kiritimati")

        try await reader.wait(for: "ada 2")
        #expect(world.client.timeZone == "Pacific/Kiritimati")
    }

    @Test(arguments: [true, false])
    func `yesterday's value does not become fresh again for a user who travels west`(
        isRestarted: Bool
    ) async throws {
        let folder = TemporaryFolder()
        // 10:00 in Tokyo.
        let wall = ManualWallClock(try #require(Timestamp("2026-11-21T01:00:00Z")))
        let lifecycle = ManualLifecycle()
        func client(in zone: String) throws -> TestClient {
            try TestClient(network: .profiles(), wall: wall, folder: folder) {
                $0.timeZone = zone
                $0.lifecycle = lifecycle
            }
        }
        let query = ValueQuery<Profile>("profile", "ada", policy: .untilMidnight.stored(.onDisk)) {
            try await $0.get("profiles/ada")
        }
        var test = try client(in: "Asia/Tokyo")
        _ = try await test.client.value(of: query)
        lifecycle.enterBackground()
        if isRestarted {
            test.client.close()
            test = try client(in: "America/Los_Angeles")
        } else {
            try test.client.setTimeZone("America/Los_Angeles")
        }
        // 12:00 on the same day there.
        wall.advance(by: .hours(19))
        let before = test.network.requests.count
        _ = try await test.client.value(of: query)

        #expect(test.network.requests.count == before + 1)
    }

    @Test func `an observed query is polled at its interval`() async throws {
        let world = try World()
        let policy = Policy.session.polled(every: .seconds(60))
        do {
            let reader = reader(world, policy)
            try await reader.wait(for: "ada 1")
            for name in ["ada 2", "ada 3"] {
                let fetches = world.fetches
                try await world.pass(.seconds(1)) { world.fetches > fetches }
                try await reader.wait(for: name)
            }
            #expect(world.test.delay.now.offset >= .seconds(2 * 54))
        }
        world.test.delay.advance(by: .hours(2))

        #expect(world.fetches == 3)
    }

    @Test func `after hours in the background a polled query is fetched once`() async throws {
        let world = try World()
        let reader = reader(world, .session.polled(every: .seconds(10)))
        try await reader.wait(for: "ada 1")
        world.lifecycle.enterBackground()
        world.test.delay.advance(by: .hours(8))
        #expect(world.fetches == 1)
        world.lifecycle.enterForeground()
        try await reader.wait(for: "ada 2")

        #expect(world.fetches == 2)
    }

    @Test func `a released client ends its timer`() async throws {
        let delay = ManualClock()
        let lifecycle = ManualLifecycle()
        weak var released: SanguineClient?
        weak var events: EventKeeper?
        do {
            let world = try World {
                $0.delay = delay
                $0.lifecycle = lifecycle
            }
            let reader = reader(world, .untilMidnight.polled(every: .seconds(60)))
            try await reader.wait(for: "ada 1")
            try await delay.waitForSleepers(1)
            (released, events) = (world.client, world.client.services.events)
            #expect(released != nil)
        }

        try await eventually("the client is released") { released == nil && events == nil }
        try await delay.waitForNoSleepers()
    }

    @Test func `a closed client does no automatic work`() async throws {
        let world = try World()
        let reader = reader(world, .session.refetched(on: .foreground).polled(every: .seconds(10)))
        try await reader.wait(for: "ada 1")
        world.client.close()
        world.lifecycle.enterBackground()
        world.test.wall.advance(by: .hours(1))
        world.test.delay.advance(by: .hours(1))
        world.lifecycle.enterForeground()

        #expect(world.fetches == 1)
    }

    @Test func `an adaptive freshness grows while nothing changes`() async throws {
        let network = ScriptedTransport { _ in .json(Profile(name: "ada")) }
        let test = try TestClient(network: network)
        let query = ValueQuery<Profile>(
            "profile",
            "ada",
            policy: .fresh(for: .minutes(1)).adaptive(within: .minutes(1) ... .hours(4))
        ) { try await $0.get("profiles/ada") }
        for _ in 0..<300 {
            _ = try await test.client.value(of: query)
            test.wall.advance(by: .minutes(1))
        }

        // At 0, 1, 3, 7, 15, 31, 63, 127 and 255 minutes: the interval doubles.
        #expect(network.requests.count == 9)
    }
}
