import Synchronization

/// The attempts whose outcome is not known yet.
///
/// An attempt counts against its limits before its outcome is known, so that concurrent attempts
/// cannot exceed them, and is forgiven if it succeeds. An attempt that finds a limit reached
/// therefore waits as long as undecided attempts may be among those counted: many people who sign
/// in at once behind one address with the right passwords are not refused.
///
/// Invariants:
/// 1. `running` has the number of undecided attempts of each subject; none is zero.
/// 2. Each waiting attempt shares a subject with an undecided one, and was counted last after the
///    latest outcome of such an attempt. At most ``limit`` wait.
///
/// Mutable state: `state`, guarded by its mutex, because an attempt ends without suspension.
final class PendingAttempts: Sendable {
    /// The number of attempts that may wait.
    static let limit = 64

    /// An undecided attempt.
    struct Attempt: Hashable, Sendable {
        /// The ids of its limits.
        var subjects: [String]
        /// The number of outcomes that were known when it began.
        fileprivate var outcomes: Int
    }

    private struct Waiter {
        var subjects: [String]
        var continuation: CheckedContinuation<Attempt?, Never>
    }

    private struct State {
        var running: [String: Int] = [:]
        var outcomes = 0
        var waiters: [Waiter] = []

        mutating func begin(_ subjects: [String]) -> Attempt {
            for subject in subjects { running[subject, default: 0] += 1 }
            return Attempt(subjects: subjects, outcomes: outcomes)
        }

        mutating func end(_ attempt: Attempt) {
            for subject in attempt.subjects {
                let others = running[subject, default: 1] - 1
                running[subject] = others > 0 ? others : nil
            }
        }

        func isUndecided(_ subjects: [String]) -> Bool {
            subjects.contains { running[$0] != nil }
        }

        /// Removes the waiting attempts that share no subject with an undecided one.
        mutating func removeStuck() -> [Waiter] {
            let running = running
            return remove { waiter in !waiter.subjects.contains { running[$0] != nil } }
        }

        /// Removes the waiting attempts that satisfy the condition.
        mutating func remove(where condition: (Waiter) -> Bool) -> [Waiter] {
            let removed = waiters.filter(condition)
            if !removed.isEmpty { waiters.removeAll(where: condition) }
            return removed
        }
    }

    private let state = Mutex(State())

    /// The number of attempts that wait.
    var waiting: Int { state.withLock { $0.waiters.count } }

    /// Records that an attempt begins, before it is counted.
    func begin(_ subjects: [String]) -> Attempt { state.withLock { $0.begin(subjects) } }

    /// Records that the outcome of an attempt is known; one that succeeded is no longer counted.
    func end(_ attempt: Attempt) {
        let next = state.withLock { state in
            state.end(attempt)
            state.outcomes += 1
            let subjects = Set(attempt.subjects)
            return state.remove { !subjects.isDisjoint(with: $0.subjects) }
                .map { waiter in (waiter.continuation, state.begin(waiter.subjects)) }
        }
        for (continuation, attempt) in next { continuation.resume(returning: attempt) }
    }

    /// Ends an attempt that was not counted, because a limit was reached, and waits for the outcome
    /// of another one.
    ///
    /// - Parameter attempt: The attempt.
    /// - Returns: The attempt that begins in its place; `nil` if no undecided attempt shares a
    ///   subject with it, or if too many wait.
    func waitForTurn(_ attempt: Attempt) async -> Attempt? {
        await withCheckedContinuation { continuation in
            var answer: Attempt??
            let stuck = state.withLock { state in
                state.end(attempt)
                // They have waited for this attempt only, which was refused as they were.
                let stuck = state.removeStuck()
                if state.outcomes != attempt.outcomes {
                    answer = .some(state.begin(attempt.subjects))
                } else if state.waiters.count < Self.limit, state.isUndecided(attempt.subjects) {
                    let waiter = Waiter(subjects: attempt.subjects, continuation: continuation)
                    state.waiters.append(waiter)
                } else {
                    answer = .some(nil)
                }
                return stuck
            }
            for waiter in stuck { waiter.continuation.resume(returning: nil) }
            if let answer { continuation.resume(returning: answer) }
        }
    }
}
