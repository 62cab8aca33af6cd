import Foundation
import SanguineModel
import Synchronization

/// Fetches again what the time, the network and the app's coming and going make stale.
///
/// ``EventState`` decides; this watches the clocks and performs.
///
/// Invariants:
///
/// 1. One timer at most, and none in the background, without anything to wait for, or after
///    ``close()``.
/// 2. What is to be done is done outside of the lock, and never after ``close()``.
///
/// Mutable state: `guarded`, by its mutex. The timer's task holds this object weakly while it
/// sleeps.
///
/// A class with a mutex and not an actor: what a notification says must be taken in before the
/// process may be stopped.
final class EventKeeper: Sendable {
    /// Fetches again what its actions name.
    typealias Perform = @Sendable (EventState.Actions) -> Void

    private struct Timer {
        let number: UInt64
        /// On the clock of waits.
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

    /// Begins to count, and does nothing before ``start(_:)``.
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

    /// Follows the app and the network from now on.
    ///
    /// - Parameter perform: Fetches again what its actions name. Called under no lock.
    func start(_ perform: @escaping Perform) {
        let followings = [
            lifecycle.isForeground.follow { [weak self] in self?.lifecycleChanged() },
            connectivity.isOnline.follow { [weak self] in self?.networkChanged() },
        ]
        guarded.withLock { guarded in
            guarded.perform = perform
            guarded.followings = followings
        }
        // What changed between the creation and now.
        lifecycleChanged()
        networkChanged()
    }

    /// Ends the timer, and follows nothing any more.
    func close() {
        let (timer, followings) = guarded.withLock { guarded in
            defer { (guarded.timer, guarded.perform, guarded.followings) = (nil, nil, []) }
            guarded.isClosed = true
            return (guarded.timer, guarded.followings)
        }
        timer?.task.cancel()
        withExtendedLifetime(followings) {}  // Released here, under no lock.
    }

    // MARK: - Events

    /// A query is observed that is to be polled or follows the user's days.
    func observed(_ key: QueryKey, polling: Duration?, followsDays: Bool) {
        change { state, moment, random in
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

    /// It is no longer.
    func unobserved(_ key: QueryKey, polling: Duration?, followsDays: Bool) {
        change { state, _, _ in
            state.unobserved(key, polling: polling, followsDays: followsDays)
            return .nothing
        }
    }

    /// The user's days are those of this zone from now on.
    func zoneIs(_ zone: TimeZone) {
        guarded.withLock { $0.zone = zone }
        change { state, moment, random in state.woke(at: moment, using: &random) }
    }

    private func lifecycleChanged() {
        change { [lifecycle] state, moment, random in
            state.lifecycleIs(
                foreground: lifecycle.isForeground.value,
                at: moment,
                using: &random
            )
        }
    }

    private func networkChanged() {
        change { [connectivity] state, moment, random in
            state.networkIs(online: connectivity.isOnline.value, at: moment, using: &random)
        }
    }

    private func woke(_ timer: UInt64) {
        guarded.withLock { guarded in
            if guarded.timer?.number == timer { guarded.timer = nil }
        }
        change { state, moment, random in state.woke(at: moment, using: &random) }
    }

    // MARK: - Machinery

    /// The one door through which anything changes.
    private func change(
        _ event: (inout EventState, EventState.Moment, inout RandomSource) -> EventState.Actions
    ) {
        // The app's own clocks, so not under the lock.
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

    /// Sees to it that the timer wakes in time; returns the one to cancel.
    private func arm(_ guarded: inout Guarded, at moment: EventState.Moment) -> Timer? {
        let wait = guarded.state.wait(at: moment)
        let overtaken = guarded.timer
        guard let wait else {
            guarded.timer = nil
            return overtaken
        }
        let due = moment.uptime + wait
        // One that wakes too early is put off when it does.
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
