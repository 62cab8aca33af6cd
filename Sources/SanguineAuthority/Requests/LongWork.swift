import Foundation
package import SanguineModel
import Synchronization

/// Runs work of more than a millisecond, such as parsing long JSON, on separate threads.
///
/// There are half as many threads as cores, at a lower priority than other threads, so that short
/// requests are answered while long ones are parsed. Accounts take turns. All work without an
/// account shares one turn.
///
/// Mutable state: `state`, guarded by its mutex, and bounded by the requests in progress.
package final class LongWork: Sendable {
    /// The instance that the server uses.
    package static let shared = LongWork(
        threads: max(1, ProcessInfo.processInfo.activeProcessorCount / 2)
    )

    private struct State {
        var queue = FairQueue<Identifier?, UnownedTurn>()
        var threads = 0
        var sleeping = 0
    }

    /// A job with its executor, which must outlive it.
    private struct UnownedTurn {
        let job: UnownedJob
        let turn: Turn
    }

    private let limit: Int
    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)

    /// Creates an instance with at most `threads` threads, which start when they are needed.
    package init(threads: Int) { limit = threads }

    /// The number of jobs that wait for their turn.
    package var waiting: Int { state.withLock(\.queue.count) }

    /// Runs a closure when it is its account's turn.
    ///
    /// - Parameters:
    ///   - account: The account that caused the work; `nil` for none.
    ///   - work: The closure.
    /// - Returns: The closure's result.
    /// - Throws: The closure's error.
    package func perform<Value: Sendable, Failure: Error>(
        for account: Identifier?,
        _ work: () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let turn = Turn(self, account)
        defer { withExtendedLifetime(turn) {} }
        return try await withTaskExecutorPreference(turn) { () async throws(Failure) in
            try work()
        }
    }

    private func add(_ job: UnownedJob, _ turn: Turn) {
        let (mustWake, mustStart) = state.withLock { state -> (Bool, Bool) in
            state.queue.append(UnownedTurn(job: job, turn: turn), of: turn.account)
            if state.sleeping > 0 {
                state.sleeping -= 1
                return (true, false)
            }
            guard state.threads < limit else { return (false, false) }
            state.threads += 1
            return (false, true)
        }
        if mustWake { wake.signal() }
        if mustStart { start() }
    }

    private func start() {
        let thread = Thread { [self] in
            Self.yieldToOthers()
            while true {
                if let next = next() {
                    next.job.runSynchronously(on: next.turn.asUnownedTaskExecutor())
                } else {
                    wake.wait()
                }
            }
        }
        thread.name = "sanguine.long-work"
        thread.qualityOfService = .utility
        thread.start()
    }

    /// Returns the next job, or `nil` after marking this thread as sleeping.
    private func next() -> UnownedTurn? {
        state.withLock { state in
            let next = state.queue.popFirst()
            if next == nil { state.sleeping += 1 }
            return next
        }
    }

    /// Lowers the priority of this thread on Linux; on Darwin the quality of service does.
    private static func yieldToOthers() {
        #if os(Linux)
        // On Linux, 0 stands for the calling thread, not for the process.
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 5)
        #endif
    }

    /// The executor of one account's work.
    private final class Turn: TaskExecutor {
        let account: Identifier?
        private let threads: LongWork

        init(_ threads: LongWork, _ account: Identifier?) {
            (self.threads, self.account) = (threads, account)
        }

        func enqueue(_ job: consuming ExecutorJob) { threads.add(UnownedJob(job), self) }
    }
}
