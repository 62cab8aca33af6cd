import Foundation
import Logging
import Metrics
import NIOCore

/// The distribution of the file descriptors that the process may open.
package struct Descriptors: Hashable, Sendable {
    /// Descriptors reserved for storage, logs, event loops and the admin port, so that health
    /// checks and metrics still work when all connections are in use.
    ///
    /// An event loop uses three, and each core has one loop: 192, or more on more than 16 cores.
    package static let reserve = max(192, 128 + 4 * System.coreCount)
    /// The maximum number of connections to the admin port.
    package static let adminConnections = 64

    /// The maximum number of connections to the public port.
    package let connections: Int
    /// The maximum number of connections to the upstream.
    package let upstream: Int

    /// Distributes the available descriptors.
    ///
    /// - Parameters:
    ///   - limit: The number of descriptors that the process may open.
    ///   - connections: The desired number of connections.
    ///   - upstream: The desired number of connections to the upstream; 0 without one. They get at
    ///     most a quarter.
    /// - Throws: ``TooFew`` if fewer than 16 descriptors are left after ``reserve``.
    package init(limit: Int, connections: Int, upstream: Int) throws(TooFew) {
        let rest = limit - Self.reserve
        guard rest >= 16 else { throw TooFew(limit: limit) }
        self.upstream = min(upstream, rest / 4)
        self.connections = min(connections, rest - self.upstream)
    }

    /// Raises the soft limit of the process to the hard limit, if the system permits it.
    ///
    /// - Returns: The limit that now applies.
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

    /// The process may open too few files to serve requests.
    package struct TooFew: Error, Hashable, CustomStringConvertible {
        /// The number of files that the process may open.
        package let limit: Int

        /// What happened, and how to fix it.
        package var description: String {
            """
            The process may open only \(limit) files, too few for a server. Raise the limit to \
            \(Descriptors.reserve + 16) or more, for example with 'ulimit -n 65536'.
            """
        }
    }
}

/// Logs, at most once a minute, that connections cannot be accepted for lack of descriptors or
/// memory.
///
/// NIO then waits a second before it tries again; connections wait in the system's queue.
///
/// Mutable state is confined to the event loop.
final class AcceptErrorLogger: ChannelInboundHandler, RemovableChannelHandler {
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
                "Connections cannot be accepted. Raise the limit on open files",
                metadata: ["reason": "\(error)"]
            )
        }
        context.fireErrorCaught(error)
    }
}
