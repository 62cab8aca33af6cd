import Foundation
import Sanguine
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// All tasks of the process, split into jobs that run one at a time in a random order.
///
/// A job is the work of a task between two suspensions. The runtime passes each job to a hook, and
/// those of the main actor to an executor that replaces the main one; here they wait until they are
/// chosen. So the interleaving of a whole client follows from a seed.
///
/// Work outside of tasks is not controlled: threads, dispatch queues, system timers, and
/// `Task.yield`. The client of the game uses none of these, see ``JobQueue/Work``.
///
/// Mutable state: `waiting`, protected by a mutex that is not held while jobs run.
package final class JobQueue: Sendable {
    /// The runtime has no such hook.
    package struct NoHook: Error, CustomStringConvertible {
        let name: String

        package var description: String { "This Swift runtime has no '\(name)'." }
    }

    private struct Job {
        let job: UnownedJob
        let isMain: Bool
    }

    static let shared = JobQueue()

    private let waiting = Mutex<[Job]>([])
    private let main = MainJobs()

    private init() {}

    /// Takes over all jobs of the process, permanently.
    ///
    /// - Throws: ``NoHook``.
    package static func takeOver() throws {
        let library = dlopen(nil, RTLD_LAZY)
        func set(_ name: String, _ hook: UnsafeRawPointer) throws {
            guard let symbol = dlsym(library, name) else { throw NoHook(name: name) }
            symbol.assumingMemoryBound(to: UnsafeRawPointer?.self).pointee = hook
        }
        let any: EnqueueHook = { job, _ in JobQueue.shared.add(job, isMain: false) }
        let main: MainHook = { _ in JobQueue.shared.main.asUnownedSerialExecutor() }
        try set("swift_task_enqueueGlobal_hook", unsafeBitCast(any, to: UnsafeRawPointer.self))
        try set("swift_task_getMainExecutor_hook", unsafeBitCast(main, to: UnsafeRawPointer.self))
    }

    // The runtime's own types: each hook receives the function that it replaces.
    private typealias EnqueueHook = @convention(thin) (UnownedJob, UnsafeRawPointer) -> Void
    private typealias MainHook = @convention(thin) (UnsafeRawPointer) -> UnownedSerialExecutor

    fileprivate func add(_ job: UnownedJob, isMain: Bool) {
        waiting.withLock { $0.append(Job(job: job, isMain: isMain)) }
    }

    /// The number of waiting jobs.
    var count: Int { waiting.withLock { $0.count } }

    /// Runs one of them on this thread.
    func run(_ index: Int) {
        let job = waiting.withLock { $0.remove(at: index) }
        // The generic executor, for jobs without an executor, is represented by two null words.
        let generic = unsafeBitCast((0, 0), to: UnownedSerialExecutor.self)
        job.job.runSynchronously(on: job.isMain ? main.asUnownedSerialExecutor() : generic)
    }

    /// Runs all jobs in order, including those that follow from them.
    func drain() {
        while count > 0 { run(0) }
    }
}

/// Replaces the main thread.
private final class MainJobs: SerialExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        JobQueue.shared.add(UnownedJob(job), isMain: true)
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }
}

extension JobQueue {
    /// The queue for a client's background writes: each piece of work is a job.
    ///
    /// Mutable state: `waiting`, protected by a mutex that is not held during the work.
    final class Work: SerialQueue {
        private let waiting = Mutex<[@Sendable () -> Void]>([])

        func async(_ work: @escaping @Sendable () -> Void) {
            waiting.withLock { $0.append(work) }
            Task.detached { [self] in _ = next() }
        }

        func sync(_ work: () -> Void) {
            while next() {}  // tidy: allow busy-wait: each turn does a piece of work.
            work()
        }

        private func next() -> Bool {
            let work = waiting.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            work?()
            return work != nil
        }
    }
}
