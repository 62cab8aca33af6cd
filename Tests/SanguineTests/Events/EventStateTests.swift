import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("App events", .bounded)
struct EventStateTests {
    /// The state, with clocks that a test advances.
    private struct World {
        static let key = QueryKey(name: "q", parameters: [])

        var state: EventState
        var wall: Timestamp
        var uptime = Duration.zero
        var zone: TimeZone
        var random = SplitMix64(seed: 1)

        init(
            isForeground: Bool = true,
            isOnline: Bool = true,
            at wall: String = "2026-11-21T12:00:00Z"
        ) throws {
            self.wall = try #require(Timestamp(wall))
            zone = .gmt
            state = EventState(
                isForeground: isForeground,
                isOnline: isOnline,
                at: .init(
                    wall: self.wall,
                    uptime: .zero,
                    day: LocalDay(containing: self.wall, in: .gmt)
                ),
                foregroundAfter: .minutes(5),
                spread: .seconds(2)
            )
        }

        var moment: EventState.Moment {
            .init(wall: wall, uptime: uptime, day: LocalDay(containing: wall, in: zone))
        }
        var wait: Duration? { state.wait(at: moment) }

        mutating func pass(_ duration: Duration) {
            wall = wall + duration
            uptime += duration
        }

        mutating func lifecycle(_ foreground: Bool) -> EventState.Actions {
            state.lifecycleIs(foreground: foreground, at: moment, using: &random)
        }

        mutating func network(_ online: Bool) -> EventState.Actions {
            state.networkIs(online: online, at: moment, using: &random)
        }

        mutating func wake() -> EventState.Actions { state.woke(at: moment, using: &random) }

        mutating func observe(polling: Duration? = nil, followsDays: Bool = false) {
            state.observed(
                Self.key,
                polling: polling,
                followsDays: followsDays,
                at: moment,
                using: &random
            )
        }
    }

    // MARK: - Foreground

    @Test(arguments: [(299, false), (300, true), (86_400, true)])
    func `a return counts after a long enough absence`(
        seconds: Int,
        counts: Bool
    ) throws {
        var world = try World(at: "2026-11-21T00:00:00Z")
        #expect(world.lifecycle(false) == .nothing)
        world.pass(.seconds(seconds))

        #expect(world.lifecycle(true).events.contains(.foreground) == counts)
    }

    @Test func `an absence is detected even if the clock was set back in the meantime`() throws {
        var world = try World()
        _ = world.lifecycle(false)
        world.pass(.minutes(10))
        world.wall = world.wall - .minutes(20)

        #expect(world.lifecycle(true).events == .foreground)
    }

    @Test func `an absence is detected even if the delay clock stood still`() throws {
        var world = try World()
        _ = world.lifecycle(false)
        world.wall = world.wall + .minutes(10)

        #expect(world.lifecycle(true).events == .foreground)
    }

    @Test func `an app that starts in the background returns like any other`() throws {
        var world = try World(isForeground: false)
        world.pass(.minutes(6))

        #expect(world.lifecycle(true).events == .foreground)
    }

    // MARK: - Network

    @Test func `the network's return is an event, and its loss is not`() throws {
        var world = try World()

        #expect(world.network(false) == .nothing)
        #expect(world.network(true).events == .networkBack)
        #expect(world.network(true) == .nothing)
    }

    @Test func `an unstable network counts once in ten seconds`() throws {
        var world = try World()
        _ = world.network(false)
        _ = world.network(true)
        for _ in 0..<9 {
            world.pass(.milliseconds(500))
            #expect(world.network(false) == .nothing)
            #expect(world.network(true) == .nothing)
        }
        #expect(world.wait == .milliseconds(5_500))
        world.pass(.milliseconds(5_500))

        #expect(world.wake().events == .networkBack)
        #expect(world.wait == nil)
    }

    @Test func `events that occurred without a network recur when it returns`() throws {
        var world = try World(isOnline: false)
        _ = world.lifecycle(false)
        world.pass(.minutes(5))
        #expect(world.lifecycle(true).events == .foreground)

        #expect(world.network(true).events == [.foreground, .networkBack])
        _ = world.network(false)
        world.pass(.minutes(1))
        #expect(world.network(true).events == .networkBack)
    }

    @Test func `a network that returns in the background counts in the foreground`() throws {
        var world = try World(isOnline: false)
        _ = world.lifecycle(false)
        #expect(world.network(true) == .nothing)

        #expect(world.lifecycle(true).events == .networkBack)
    }

    // MARK: - Midnight

    @Test func `midnight is checked hourly and detected just after it`() throws {
        var world = try World(at: "2026-11-21T21:30:00Z")
        #expect(world.wait == nil)
        world.observe(followsDays: true)

        #expect(world.wait == .hours(1))
        world.pass(.hours(1))
        #expect(world.wake() == .nothing)
        #expect(world.wait == .hours(1))
        world.pass(.hours(1))
        #expect(world.wake() == .nothing)
        #expect(world.wait == .minutes(30) + .seconds(2))
        world.pass(.minutes(30) + .seconds(2))
        #expect(world.wake().events == .midnight)
        #expect(world.wait == .hours(1))
    }

    @Test func `only a zone with a different day counts as a midnight`() throws {
        var world = try World(at: "2026-11-21T12:00:00Z")
        world.observe(followsDays: true)
        world.zone = try #require(TimeZone(identifier: "Europe/Berlin"))
        #expect(world.wake() == .nothing)
        world.zone = try #require(TimeZone(identifier: "Pacific/Kiritimati"))
        #expect(world.wake().events == .midnight)
        world.zone = .gmt
        #expect(world.wake().events == .midnight)
    }

    @Test func `a day that ended in its former zone is a midnight, even if it has just begun here`()
        throws
    {
        // 10:00 in Tokyo.
        var world = try World(at: "2026-11-21T01:00:00Z")
        world.zone = try #require(TimeZone(identifier: "Asia/Tokyo"))
        _ = world.wake()
        _ = world.lifecycle(false)
        world.zone = try #require(TimeZone(identifier: "America/Los_Angeles"))
        world.pass(.hours(19))

        #expect(world.moment.day.day == CalendarDay("2026-11-21"))
        #expect(world.lifecycle(true).events == [.foreground, .midnight])
    }

    @Test func `a day that ends earlier in its former zone is checked at that time too`() throws {
        // 23:00 in Tokyo, and 06:00 of the same day in Los Angeles.
        var world = try World(at: "2026-11-21T14:00:00Z")
        world.zone = try #require(TimeZone(identifier: "Asia/Tokyo"))
        world.observe(followsDays: true)
        world.zone = try #require(TimeZone(identifier: "America/Los_Angeles"))
        #expect(world.wake() == .nothing)
        world.pass(.minutes(30))
        #expect(world.wait == .minutes(30) + .seconds(2))
        world.pass(.minutes(30))

        #expect(world.wake().events == .midnight)
        #expect(world.wake() == .nothing)
    }

    @Test func `setting the clock to another day is a midnight`() throws {
        var world = try World()
        world.observe(followsDays: true)
        world.wall = world.wall - .hours(24)

        #expect(world.wake().events == .midnight)
    }

    @Test func `a midnight in the background counts once on return`() throws {
        var world = try World(at: "2026-11-21T23:59:00Z")
        world.observe(followsDays: true)
        _ = world.lifecycle(false)
        #expect(world.wait == nil)
        world.pass(.hours(50))
        #expect(world.wake() == .nothing)

        #expect(world.lifecycle(true).events == [.foreground, .midnight])
        #expect(world.wake() == .nothing)
    }

    @Test func `an observer that starts after midnight is not notified of it`() throws {
        var world = try World(at: "2026-11-21T23:59:00Z")
        world.pass(.minutes(2))
        world.observe(followsDays: true)

        #expect(world.wake() == .nothing)
    }

    // MARK: - Polls

    @Test func `an observed key is polled in the foreground with a network`() throws {
        var world = try World()
        world.observe(polling: .seconds(60))
        world.pass(.seconds(70))
        #expect(world.wake().polls == [World.key])

        _ = world.lifecycle(false)
        world.pass(.seconds(200))
        #expect(world.wake() == .nothing)
        #expect(world.lifecycle(true) == .init(polls: [World.key]))

        _ = world.network(false)
        world.pass(.seconds(200))
        #expect(world.wake() == .nothing)
        #expect(world.wait == nil)
        #expect(world.network(true) == .init(events: .networkBack, polls: [World.key]))
        world.state.unobserved(World.key, polling: .seconds(60), followsDays: false)
        world.pass(.hours(1))
        #expect(world.wake() == .nothing)
        #expect(world.state.polled == 0)
    }

    // MARK: - Fuzz

    @Test(arguments: UInt64(1)...20)
    func `there are no timers or polls in the background, and no storms`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var world = try World()
        var lastNetwork: Duration?
        var lastPoll: Duration?
        var day = world.moment.day
        var observers = 0
        for _ in 0..<5_000 {
            if Bool.random(using: &random) {
                world.pass(.milliseconds(Int.random(in: 0...600_000, using: &random)))
            }
            var actions = EventState.Actions.nothing
            switch Int.random(in: 0..<8, using: &random) {
            case 0: actions = world.lifecycle(.random(using: &random))
            case 1: actions = world.network(.random(using: &random))
            case 2: world.wall = world.wall + .hours(.random(in: -30...30, using: &random))
            case 3 where observers < 3:
                if observers == 0 { (day, lastPoll) = (world.moment.day, world.uptime) }
                observers += 1
                world.observe(polling: .seconds(60), followsDays: true)
            case 4 where observers > 0:
                observers -= 1
                world.state.unobserved(World.key, polling: .seconds(60), followsDays: true)
            default: actions = world.wake()
            }
            if actions.events.contains(.networkBack) {
                #expect(world.state.isOnline)
                #expect(lastNetwork.map { world.uptime - $0 >= .seconds(10) } ?? true)
                lastNetwork = world.uptime
            }
            if actions.events.contains(.midnight), !actions.events.contains(.networkBack) {
                #expect(observers == 0 || world.moment.day != day)
            }
            if world.state.isForeground, actions != .nothing || observers == 0 {
                day = world.moment.day
            }
            if !actions.polls.isEmpty {
                #expect(actions.polls == [World.key] && observers > 0 && world.state.isOnline)
                #expect(lastPoll.map { world.uptime - $0 >= .seconds(54) } ?? true)
                lastPoll = world.uptime
            }
            if !world.state.isForeground {
                #expect(actions == .nothing && world.wait == nil)
            } else if observers > 0 {
                let wait = try #require(world.wait)
                #expect((Duration.seconds(1) ... .hours(1)).contains(wait))
            }
        }
    }
}
