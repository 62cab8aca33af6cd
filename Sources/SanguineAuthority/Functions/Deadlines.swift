import HeapModule
import Synchronization

/// Calls back at moments, for which one task sleeps, however many they are.
///
/// A task that sleeps for each would cost a call more than all else that it does here, and would be
/// left to the system's timers until its time is over, also where the call ended long before.
///
/// Invariants:
/// 1. A deadline is called back once at most, at its moment or later. One that is left before its
///    moment is not; one that is left at its moment may just be called back.
/// 2. While there are deadlines, one task sleeps, and no longer than until the first of them, or
///    for ``spacing`` after it woke. It may find that this one was left: nobody is woken for that.
///
/// Mutable state: `state`, by its mutex. Who is called back is called outside of it.
package final class Deadlines: Sendable {
    /// One moment.
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
        /// Whom to call back, by number.
        var callBacks: [UInt64: @Sendable () -> Void] = [:]
        /// The turns of these, and of some that were left since.
        var turns = Heap<Turn>()
        var lastNumber: UInt64 = 0
        /// When the task wakes that sleeps; `nil` if none does.
        var wake: Duration?
        var sleeper: Task<Void, Never>?
    }

    /// How long the task sleeps at least between deadlines: 2 ms.
    ///
    /// They may be so much late.
    package static let spacing = Duration.milliseconds(2)

    private let clock: any Clock<Duration>
    private let now: @Sendable () -> Duration
    private let state = Mutex(State())

    /// Creates a list of none.
    package init(_ clock: any Clock<Duration>) {
        self.clock = clock
        now = Stopwatch(clock).elapsed
    }

    deinit { state.withLock { $0.sleeper }?.cancel() }

    /// How many there are.
    package var count: Int { state.withLock { $0.callBacks.count } }

    /// The moment that is so far away.
    package func moment(after time: Duration) -> Duration { now() + time }

    /// Calls back at a moment, on any thread; soon if it is past.
    package func add(at moment: Duration, _ callBack: @escaping @Sendable () -> Void) -> Ticket {
        state.withLock { state in
            state.lastNumber += 1
            state.callBacks[state.lastNumber] = callBack
            state.turns.insert(Turn(moment: moment, number: state.lastNumber))
            if state.wake.map({ moment < $0 }) ?? true { sleep(until: moment, &state) }
            return Ticket(number: state.lastNumber)
        }
    }

    /// Does not call back any more.
    package func leave(_ ticket: Ticket) {
        state.withLock { state in
            state.callBacks[ticket.number] = nil
            // Most are left long before their turn.
            guard state.turns.count > 2 * state.callBacks.count + Self.turnsLeft else { return }
            let numbers = state.callBacks
            state.turns = Heap(state.turns.unordered.filter { numbers[$0.number] != nil })
        }
    }

    /// Waits for a time, or until the task is cancelled.
    package func sleep(for time: Duration) async {
        let moment = moment(after: time)
        let wait = OneAnswer<Void>()
        let ticket = add(at: moment) { wait.resolve(()) }
        await withTaskCancellationHandler {
            await wait.wait()
        } onCancel: {
            wait.resolve(())
        }
        leave(ticket)
    }

    private func sleep(until moment: Duration, _ state: inout State) {
        state.sleeper?.cancel()
        state.wake = moment
        state.sleeper = Task { [clock, now, weak self] in
            guard (try? await clock.sleep(for: moment - now())) != nil else { return }
            self?.wake(at: moment)
        }
    }

    /// Calls back those whose moment has come, and sleeps until the next one.
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

    /// Turns of deadlines that were left, which are kept at least.
    private static let turnsLeft = 64
}
