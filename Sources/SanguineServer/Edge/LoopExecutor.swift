import NIOCore
import NIOPosix

/// Runs tasks on the thread of an event loop.
///
/// A request that is read, dealt with and answered on the thread of its connection is handed from
/// no thread to another on its way: each time costs a wake-up, and under load a place in a queue.
/// What takes long must not run there, because other connections share the thread; see
/// ``Endpoint/isBrief``.
///
/// There is one for each loop of the process's own group, for as long as the process lives: tasks
/// refer to it without owning it.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    private static let all: [ObjectIdentifier: LoopExecutor] = {
        let loops = MultiThreadedEventLoopGroup.singleton.makeIterator()
        return Dictionary(uniqueKeysWithValues: loops.map { (ObjectIdentifier($0), .init($0)) })
    }()

    private init(_ loop: any EventLoop) { self.loop = loop }

    /// That of a loop; `nil` for one of another group, which may end before its tasks do.
    static func of(_ loop: any EventLoop) -> LoopExecutor? { all[ObjectIdentifier(loop)] }

    /// That of the loop on whose thread this is called; `nil` on any other thread.
    static var current: LoopExecutor? {
        MultiThreadedEventLoopGroup.currentEventLoop.flatMap { of($0) }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
