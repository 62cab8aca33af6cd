import Dispatch
import Foundation
import OrderedCollections
import Synchronization

/// Work for the main actor, all of it in one turn: so that a hundred changes in one moment make a
/// view draw once.
///
/// Of two pieces of work of one owner only the later is done.
///
/// Mutable state: `state`, by its mutex, which is never held over the work.
final class MainTurn: Sendable {
    typealias Work = @MainActor @Sendable () -> Void

    private static let key = DispatchSpecificKey<Bool>()
    private static let mark: Void = DispatchQueue.main.setSpecific(key: key, value: true)

    /// Whether the main actor runs the caller.
    ///
    /// Outside of Apple's platforms it may run on another thread than the process began with.
    static var isNow: Bool {
        mark
        return Thread.isMainThread || DispatchQueue.getSpecific(key: key) == true
    }

    private struct State {
        var work: OrderedDictionary<UInt64, Work> = [:]
        var isScheduled = false
        var lastOwner: UInt64 = 0
        /// How many gather work that is to be done in one turn.
        var gatherers = 0

        /// Whether a turn must be asked for.
        mutating func mustSchedule() -> Bool {
            guard !isScheduled, gatherers == 0 else { return false }
            isScheduled = true
            return true
        }
    }

    private let state = Mutex(State())

    /// A number that no other owner has.
    func newOwner() -> UInt64 {
        state.withLock { state in
            state.lastOwner += 1
            return state.lastOwner
        }
    }

    /// Has the work done in the main actor's next turn, in place of its owner's former work.
    func schedule(_ work: @escaping Work, for owner: UInt64) {
        let mustSchedule = state.withLock { state in
            state.work[owner] = work
            return state.mustSchedule()
        }
        if mustSchedule { Task { @MainActor in run() } }
    }

    /// Goes on with what a model that is gone has followed until the main actor's next turn: who
    /// asks for the same in this one finds its requests under way.
    func keep(_ following: ObservationToken?) {
        guard let following else { return }
        schedule({ withExtendedLifetime(following) {} }, for: newOwner())
    }

    /// Has all that the body schedules done in one turn.
    func gather(_ body: () -> Void) {
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

/// Somebody's observation; it ends when the last one who holds it lets go.
///
/// From then on nothing is told but what another thread is about to tell at that moment. See
/// ``SanguineClient/observe(_:_:)``.
public final class ObservationToken: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
