import Foundation
import SanguineModel
import Synchronization

/// Refetches queries when time passes, the network returns or the app comes to the foreground.
///
/// ``EventState`` decides; this class watches the clocks and acts.
///
/// Invariants:
///
/// 1. At most one timer, and none in the background, without anything to wait for, or after
///    ``close()``.
/// 2. Actions are performed outside of the lock, and never after ``close()``.
///
/// Mutable state: `guarded`, protected by its mutex. The timer's task holds this object weakly
/// while it sleeps.
///
/// A class with a mutex and not an actor: a notification must be recorded before the process may be
/// stopped.
final class EventKeeper: Sendable {
    /// Fetches the queries of the actions again.
    typealias Perform = @Sendable (EventState.Actions) -> Void

    private struct Timer {
        let number: UInt64
        /// By the clock for delays.
        let due: Duration
        let task: Task<Void, Never>
    }

    private struct Guarded {
        var state: EventState
        var zone: TimeZone
        var random: RandomSource
        var timer: Timer?
        var timers: UInt64 = 0
        var perform: Perform?
        var followings: [ObservationToken] = []
        var isClosed = false
    }

    private let guarded: Mutex<Guarded>
    private let lifecycle: any Lifecycle
    private let connectivity: any Connectivity
    private let clock: any WallClock
    private let delay: any Clock<Duration>
    private let uptime: Stopwatch

    /// Starts to measure time, but does nothing before ``start(_:)``.
    init(configuration: SanguineClient.Configuration, zone: TimeZone) {
        lifecycle = configuration.lifecycle
        connectivity = configuration.connectivity
        clock = configuration.clock
        delay = configuration.delay
        uptime = Stopwatch(configuration.delay)
        var random = configuration.random
        let now = clock.now()
        let spread = EventLimits.midnightSpread * Double.random(in: 0..<1, using: &random)
        let state = EventState(
            isForeground: lifecycle.isForeground.value,
            isOnline: connectivity.isOnline.value,
            at: .init(wall: now, uptime: .zero, day: LocalDay(containing: now, in: zone)),
            foregroundAfter: configuration.foregroundAfter,
            spread: spread
        )
        guarded = Mutex(Guarded(state: state, zone: zone, random: random))
    }

    deinit { close() }

    /// Starts to follow app and network.
    ///
    /// - Parameter perform: Fetches the queries of the actions again. Called with no lock held.
    func start(_ perform: @escaping Perform) {
        let followings = [
            lifecycle.isForeground.follow { [weak self] in self?.lifecycleChanged() },
            connectivity.isOnline.follow { [weak self] in self?.networkChanged() },
        ]
        guarded.withLock { guarded in
            guarded.perform = perform
            guarded.followings = followings
        }
        // Changes between the creation and now.
        lifecycleChanged()
        networkChanged()
    }

    /// Ends the timer, and stops following app and network.
    func close() {
        let (timer, followings) = guarded.withLock { guarded in
            defer { (guarded.timer, guarded.perform, guarded.followings) = (nil, nil, []) }
            guarded.isClosed = true
            return (guarded.timer, guarded.followings)
        }
        timer?.task.cancel()
        withExtendedLifetime(followings) {}  // Released here, with no lock held.
    }

    // MARK: - Events

    /// Records an observed query that is polled or follows the user's days.
    func observed(_ key: QueryKey, polling: Duration?, followsDays: Bool) {
        apply { state, moment, random in
            state.observed(
                key,
                polling: polling,
                followsDays: followsDays,
                at: moment,
                using: &random
            )
            return .nothing
        }
    }

    /// Records that a query is no longer observed.
    func unobserved(_ key: QueryKey, polling: Duration?, followsDays: Bool) {
        apply { state, _, _ in
            state.unobserved(key, polling: polling, followsDays: followsDays)
            return .nothing
        }
    }

    /// Sets the zone of the user's days.
    func zoneIs(_ zone: TimeZone) {
        guarded.withLock { $0.zone = zone }
        apply { state, moment, random in state.woke(at: moment, using: &random) }
    }

    private func lifecycleChanged() {
        apply { [lifecycle] state, moment, random in
            state.lifecycleIs(
                foreground: lifecycle.isForeground.value,
                at: moment,
                using: &random
            )
        }
    }

    private func networkChanged() {
        apply { [connectivity] state, moment, random in
            state.networkIs(online: connectivity.isOnline.value, at: moment, using: &random)
        }
    }

    private func woke(_ timer: UInt64) {
        guarded.withLock { guarded in
            if guarded.timer?.number == timer { guarded.timer = nil }
        }
        apply { state, moment, random in state.woke(at: moment, using: &random) }
    }

    // MARK: - Machinery

    /// Records an event and performs its actions; nothing changes in any other way.
    private func apply(
        _ event: (inout EventState, EventState.Moment, inout RandomSource) -> EventState.Actions
    ) {
        // The app's own clocks are read outside of the lock.
        let (wall, uptime) = (clock.now(), uptime.elapsed)
        let (perform, actions, overtaken) = guarded.withLock { guarded in
            guard !guarded.isClosed, let perform = guarded.perform else {
                return (nil as Perform?, EventState.Actions.nothing, nil as Timer?)
            }
            let day = LocalDay(containing: wall, in: guarded.zone)
            let moment = EventState.Moment(wall: wall, uptime: uptime, day: day)
            let actions = event(&guarded.state, moment, &guarded.random)
            return (perform, actions, arm(&guarded, at: moment))
        }
        overtaken?.task.cancel()
        if actions != .nothing { perform?(actions) }
    }

    /// Schedules a timer that wakes in time; returns the timer to cancel.
    private func arm(_ guarded: inout Guarded, at moment: EventState.Moment) -> Timer? {
        let wait = guarded.state.wait(at: moment)
        let overtaken = guarded.timer
        guard let wait else {
            guarded.timer = nil
            return overtaken
        }
        let due = moment.uptime + wait
        // A timer that wakes too early is scheduled again when it does.
        if let timer = guarded.timer, timer.due <= due { return nil }
        guarded.timers += 1
        let (number, delay) = (guarded.timers, delay)
        let task = Task { [weak self] in
            guard (try? await delay.sleep(for: wait)) != nil else { return }
            self?.woke(number)
        }
        guarded.timer = Timer(number: number, due: due, task: task)
        return overtaken
    }
}
