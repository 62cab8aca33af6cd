import HeapModule
import Synchronization

/// Calls closures at given moments, with a single sleeping task for any number of them.
///
/// A sleeping task for each would be the most expensive part of a call, and the system would keep
/// its timer until the moment, even if the call ended long before.
///
/// Invariants:
/// 1. A deadline is called at most once, at its moment or later. If it is cancelled before its
///    moment, it is not called; if it is cancelled at its moment, it may be.
/// 2. While there are deadlines, one task sleeps until the first of them, or for ``spacing`` after
///    it last woke. That deadline may have been cancelled, because a cancellation does not wake the
///    task.
///
/// Mutable state: `state`, guarded by its mutex. Closures are called without holding it.
package final class Deadlines: Sendable {
    /// A scheduled deadline.
    package struct Ticket: Sendable {
        fileprivate let number: UInt64
    }

    private struct Turn: Comparable {
        var moment: Duration
        var number: UInt64

        static func < (lhs: Turn, rhs: Turn) -> Bool {
            (lhs.moment, lhs.number) < (rhs.moment, rhs.number)
        }
    }

    private struct State {
        /// The closures to call, by number.
        var callBacks: [UInt64: @Sendable () -> Void] = [:]
        /// The turns of the deadlines, and of some cancelled ones.
        var turns = Heap<Turn>()
        var lastNumber: UInt64 = 0
        /// The moment when the sleeping task wakes; `nil` if there is none.
        var wake: Duration?
        var sleeper: Task<Void, Never>?
    }

    /// The shortest sleep of the task between deadlines: 2 ms.
    ///
    /// Deadlines may be late by this much.
    package static let spacing = Duration.milliseconds(2)

    private let clock: any Clock<Duration>
    private let now: @Sendable () -> Duration
    private let state = Mutex(State())

    /// Creates an empty list.
    package init(_ clock: any Clock<Duration>) {
        self.clock = clock
        now = Stopwatch(clock).elapsed
    }

    deinit { state.withLock { $0.sleeper }?.cancel() }

    /// The number of deadlines.
    package var count: Int { state.withLock { $0.callBacks.count } }

    /// Returns the moment after a time.
    package func moment(after time: Duration) -> Duration { now() + time }

    /// Calls the closure at a moment, on any thread; soon if the moment is past.
    package func add(at moment: Duration, _ callBack: @escaping @Sendable () -> Void) -> Ticket {
        state.withLock { state in
            state.lastNumber += 1
            state.callBacks[state.lastNumber] = callBack
            state.turns.insert(Turn(moment: moment, number: state.lastNumber))
            if state.wake.map({ moment < $0 }) ?? true { sleep(until: moment, &state) }
            return Ticket(number: state.lastNumber)
        }
    }

    /// Cancels a deadline.
    package func cancel(_ ticket: Ticket) {
        state.withLock { state in
            state.callBacks[ticket.number] = nil
            // Most deadlines are cancelled long before their turn.
            guard state.turns.count > 2 * state.callBacks.count + Self.turnsLeft else { return }
            let numbers = state.callBacks
            state.turns = Heap(state.turns.unordered.filter { numbers[$0.number] != nil })
        }
    }

    /// Waits for a time, or until the task is cancelled.
    package func sleep(for time: Duration) async {
        let moment = moment(after: time)
        let wait = OneShotValue<Void>()
        let ticket = add(at: moment) { wait.resolve(()) }
        await withTaskCancellationHandler {
            await wait.wait()
        } onCancel: {
            wait.resolve(())
        }
        cancel(ticket)
    }

    private func sleep(until moment: Duration, _ state: inout State) {
        state.sleeper?.cancel()
        state.wake = moment
        state.sleeper = Task { [clock, now, weak self] in
            guard (try? await clock.sleep(for: moment - now())) != nil else { return }
            self?.wake(at: moment)
        }
    }

    /// Calls the closures that are due, and sleeps until the next moment.
    private func wake(at moment: Duration) {
        let due = state.withLock { state -> [@Sendable () -> Void] in
            // Another task has taken over.
            guard state.wake == moment else { return [] }
            (state.wake, state.sleeper) = (nil, nil)
            let now = max(moment, now())
            var due: [@Sendable () -> Void] = []
            while let turn = state.turns.min {
                let callBack = state.callBacks[turn.number]
                guard callBack == nil || turn.moment <= now else { break }
                state.turns.removeMin()
                state.callBacks[turn.number] = nil
                if let callBack { due.append(callBack) }
            }
            if let next = state.turns.min {
                sleep(until: max(next.moment, now + Self.spacing), &state)
            }
            return due
        }
        for callBack in due { callBack() }
    }

    /// The number of turns of cancelled deadlines that are kept without a cleanup.
    private static let turnsLeft = 64
}
