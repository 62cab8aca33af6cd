import Foundation
package import SanguineModel
import Synchronization

/// Runs work of more than a millisecond, such as parsing long JSON, on separate threads.
///
/// There are half as many threads as cores, at a lower priority than other threads, so that short
/// requests are answered while long ones are parsed. Accounts take turns with each other, with
/// compression, with passwords, with copies of videos, and with requests without an account.
///
/// Mutable state: `state`, guarded by its mutex, and bounded by the requests in progress.
package final class LongWork: Sendable {
    /// The instance that the server uses.
    package static let shared = LongWork(
        threads: max(1, ProcessInfo.processInfo.activeProcessorCount / 2)
    )

    /// The number of bytes that a system call may read or write at once: 64 KiB.
    ///
    /// A Linux kernel without preemption switches threads between system calls, and at only a few
    /// places within them. A file of 20 MB that is written by one call gets its memory in pieces of
    /// 2 MB. Each piece took 6 ms on a virtual machine, while threads of higher priority waited for
    /// the processor, so that a commit took 25 ms. Calls of 64 KiB wrote the same file in a tenth
    /// of the time, and a thread that woke up waited for less than 0.3 ms.
    package static let systemCallBytes = 1 << 16

    /// The cause of work; each cause has its own turn.
    package enum Owner: Hashable, Sendable {
        case account(Identifier)
        /// Requests without an account.
        case anonymous
        /// The compression of responses.
        case compression
        /// The hashes of passwords.
        case passwords
        /// Copies of videos for FFmpeg.
        case video

        package init(_ account: Identifier?) {
            self = account.map(Owner.account) ?? .anonymous
        }
    }

    private struct State {
        var queue = FairQueue<Owner, UnownedTurn>()
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

    /// Runs a closure when it is its owner's turn.
    ///
    /// - Parameters:
    ///   - owner: The cause of the work.
    ///   - work: The closure.
    /// - Returns: The closure's result.
    /// - Throws: The closure's error.
    package func perform<Value: Sendable, Failure: Error>(
        for owner: Owner,
        _ work: () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let turn = Turn(self, owner)
        defer { withExtendedLifetime(turn) {} }
        return try await withTaskExecutorPreference(turn) { () async throws(Failure) in
            try work()
        }
    }

    /// Runs an asynchronous closure, each part of it when it is its owner's turn.
    ///
    /// - Parameters:
    ///   - owner: The cause of the work.
    ///   - work: The closure.
    /// - Returns: The closure's result.
    /// - Throws: The closure's error.
    package func run<Value: Sendable, Failure: Error>(
        for owner: Owner,
        _ work: @Sendable () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let turn = Turn(self, owner)
        defer { withExtendedLifetime(turn) {} }
        return try await withTaskExecutorPreference(turn) { () async throws(Failure) in
            try await work()
        }
    }

    private func add(_ job: UnownedJob, _ turn: Turn) {
        let (mustWake, mustStart) = state.withLock { state -> (Bool, Bool) in
            state.queue.append(UnownedTurn(job: job, turn: turn), of: turn.owner)
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
        let thread = Thread(named: "long-work") { [self] in
            Self.yieldToOthers()
            while true {
                if let next = next() {
                    next.job.runSynchronously(on: next.turn.asUnownedTaskExecutor())
                } else {
                    wake.wait()
                }
            }
        }
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
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 15)
        #endif
    }

    /// The executor of one owner's work.
    private final class Turn: TaskExecutor {
        let owner: Owner
        private let threads: LongWork

        init(_ threads: LongWork, _ owner: Owner) {
            (self.threads, self.owner) = (threads, owner)
        }

        func enqueue(_ job: consuming ExecutorJob) { threads.add(UnownedJob(job), self) }
    }
}
