import Dispatch
import Foundation
import OrderedCollections
import Synchronization

/// Collects work for the main actor and performs it in one turn, so that a hundred changes at one
/// moment redraw a view once.
///
/// New work of an owner replaces its pending work.
///
/// Mutable state: `state`, protected by its mutex, which is never held over the work.
final class MainActorBatch: Sendable {
    typealias Work = @MainActor @Sendable () -> Void

    private static let key = DispatchSpecificKey<Bool>()
    private static let mark: Void = DispatchQueue.main.setSpecific(key: key, value: true)

    /// Whether the caller runs on the main actor.
    ///
    /// Outside of Apple's platforms, this may not be the thread on which the process started.
    static var isNow: Bool {
        mark
        return Thread.isMainThread || DispatchQueue.getSpecific(key: key) == true
    }

    private struct State {
        var work: OrderedDictionary<UInt64, Work> = [:]
        var isScheduled = false
        var lastOwner: UInt64 = 0
        /// The number of callers that are collecting work for one turn.
        var gatherers = 0

        /// Whether a turn must be scheduled.
        mutating func mustSchedule() -> Bool {
            guard !isScheduled, gatherers == 0 else { return false }
            isScheduled = true
            return true
        }
    }

    private let state = Mutex(State())

    /// Returns a number that no other owner has.
    func newOwner() -> UInt64 {
        state.withLock { state in
            state.lastOwner += 1
            return state.lastOwner
        }
    }

    /// Schedules work for the main actor's next turn; it replaces the owner's pending work.
    func schedule(_ work: @escaping Work, for owner: UInt64) {
        let mustSchedule = state.withLock { state in
            state.work[owner] = work
            return state.mustSchedule()
        }
        if mustSchedule { Task { @MainActor in run() } }
    }

    /// Returns a closure that schedules this work, once for each turn, from any thread.
    func scheduling(_ work: @escaping Work) -> @Sendable () -> Void {
        let owner = newOwner()
        return { [self] in schedule(work, for: owner) }
    }

    /// Keeps the observation of a released model until the main actor's next turn, so that a caller
    /// that needs the same value in this turn joins its requests.
    func keep(_ following: ObservationToken?) {
        guard let following else { return }
        schedule({ withExtendedLifetime(following) {} }, for: newOwner())
    }

    /// Performs all work that the closure schedules in one turn.
    func performTogether(_ body: () -> Void) {
        state.withLock { $0.gatherers += 1 }
        body()
        let mustSchedule = state.withLock { state in
            state.gatherers -= 1
            return !state.work.isEmpty && state.mustSchedule()
        }
        if mustSchedule { Task { @MainActor in run() } }
    }

    @MainActor
    private func run() {
        let work = state.withLock { state in
            state.isScheduled = false
            guard state.gatherers == 0 else { return OrderedDictionary<UInt64, Work>() }
            defer { state.work = [:] }
            return state.work
        }
        for piece in work.values { piece() }
    }
}

/// The lifetime of an observation, which ends when the token is released.
///
/// After that, only a notification that another thread has already started may arrive. See
/// ``SanguineClient/observe(_:_:)``.
public final class ObservationToken: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
