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

    private struct State {
        var work: OrderedDictionary<UInt64, Work> = [:]
        var isScheduled = false
        var lastOwner: UInt64 = 0
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
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule { Task { @MainActor in run() } }
    }

    @MainActor
    private func run() {
        let work = state.withLock { state in
            defer {
                state.work = [:]
                state.isScheduled = false
            }
            return state.work
        }
        for piece in work.values { piece() }
    }
}

/// Somebody's observation of a query; it ends when the last one who holds it lets go.
///
/// See ``SanguineClient/observe(_:_:)``.
public final class Following: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
