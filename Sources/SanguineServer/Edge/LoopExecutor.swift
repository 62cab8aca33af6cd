import NIOCore
import NIOPosix

/// Runs tasks on the thread of an event loop.
///
/// A request that is read, handled and answered on its connection's thread never changes threads.
/// Each change costs a wake-up and, under load, a wait in a queue. Long work must not run here,
/// because other connections share the thread; see ``Endpoint/isBrief``.
///
/// Each loop of the process's singleton group has one executor, which lives as long as the process,
/// because tasks refer to it without owning it.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    private static let all: [ObjectIdentifier: LoopExecutor] = {
        let loops = MultiThreadedEventLoopGroup.singleton.makeIterator()
        return Dictionary(uniqueKeysWithValues: loops.map { (ObjectIdentifier($0), .init($0)) })
    }()

    private init(_ loop: any EventLoop) { self.loop = loop }

    /// The executor of a loop; `nil` for a loop of another group, which may end before its tasks.
    static func of(_ loop: any EventLoop) -> LoopExecutor? { all[ObjectIdentifier(loop)] }

    /// The executor of the current thread's event loop; `nil` on any other thread.
    static var current: LoopExecutor? {
        MultiThreadedEventLoopGroup.currentEventLoop.flatMap { of($0) }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
