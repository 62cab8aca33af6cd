import AsyncHTTPClient
import NIOCore

extension HTTPClient.Configuration {
    /// Returns the configuration of a client for servers that the operator names.
    ///
    /// Redirects are not followed, because they would send secrets and data to another host.
    /// Connecting is not retried, so that the caller can decide at once.
    ///
    /// - Parameters:
    ///   - connectTimeout: The time limit for connecting.
    ///   - connections: The maximum number of concurrent connections to a host.
    /// - Returns: The configuration, without time limits for responses.
    static func outgoing(connectTimeout: Duration, connections: Int) -> HTTPClient.Configuration {
        var pool = ConnectionPool()
        pool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        pool.retryConnectionEstablishment = false
        return HTTPClient.Configuration(
            redirectConfiguration: .disallow,
            timeout: .init(connect: .nanoseconds(connectTimeout.wholeNanoseconds)),
            connectionPool: pool
        )
    }
}
