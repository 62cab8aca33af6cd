import Foundation
import Logging
import Metrics
import NIOCore

/// How the file descriptors that a process may open are shared out.
package struct Descriptors: Hashable, Sendable {
    /// What is kept for storage, logs, event loops, and the admin port: health, metrics and the
    /// end work when all connections are taken.
    ///
    /// An event loop has three, and there is one for each core: 192, or more past 16 cores.
    package static let reserve = max(192, 128 + 4 * System.coreCount)
    /// Connections to the admin port at a time.
    package static let adminConnections = 64

    /// Connections to the public port at a time.
    package let connections: Int
    /// Connections to the upstream at a time.
    package let upstream: Int

    /// Shares out what there is.
    ///
    /// - Parameters:
    ///   - limit: Descriptors that the process may open.
    ///   - connections: Connections that are wanted.
    ///   - upstream: Connections to the upstream that are wanted; 0 without one. They get a
    ///     quarter at most.
    /// - Throws: ``TooFew`` if there is not even one connection's worth.
    package init(limit: Int, connections: Int, upstream: Int) throws(TooFew) {
        let rest = limit - Self.reserve
        guard rest >= 16 else { throw TooFew(limit: limit) }
        self.upstream = min(upstream, rest / 4)
        self.connections = min(connections, rest - self.upstream)
    }

    /// Raises the soft limit of the process to the hard one, as far as the system lets it.
    ///
    /// - Returns: The limit from now on.
    package static func raiseLimit() -> Int {
        #if canImport(Darwin)
        let resource = RLIMIT_NOFILE
        #else
        let resource = __rlimit_resource_t(UInt32(RLIMIT_NOFILE.rawValue))
        #endif
        var limits = rlimit()
        guard getrlimit(resource, &limits) == 0 else { return 1_024 }
        if limits.rlim_cur < limits.rlim_max {
            var raised = limits
            raised.rlim_cur = limits.rlim_max
            if setrlimit(resource, &raised) == 0 { limits = raised }
        }
        return Int(clamping: limits.rlim_cur)
    }

    /// The process may open too few files to serve at all.
    package struct TooFew: Error, Hashable, CustomStringConvertible {
        /// How many it may open.
        package let limit: Int

        /// What happened, and what to do about it.
        package var description: String {
            """
            The process may open \(limit) files, which is too few to serve: raise the limit to \
            \(Descriptors.reserve + 16) or more, as with 'ulimit -n 65536'.
            """
        }
    }
}

/// Says so, once a minute at most, when no connection can be accepted for want of descriptors or
/// memory.
///
/// NIO waits a second then, and tries again; the connections wait in the system's queue.
///
/// Mutable state belongs to the event loop.
final class AcceptWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = Any

    private let logger: Logger
    private let failures: Counter
    private var quietUntil = NIODeadline.uptimeNanoseconds(0)

    init(logger: Logger, failures: Counter) {
        self.logger = logger
        self.failures = failures
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        failures.increment()
        let now = context.eventLoop.now
        if now >= quietUntil {
            quietUntil = now + .minutes(1)
            logger.error(
                "Connections cannot be accepted: raise the limit of open files",
                metadata: ["reason": "\(error)"]
            )
        }
        context.fireErrorCaught(error)
    }
}
