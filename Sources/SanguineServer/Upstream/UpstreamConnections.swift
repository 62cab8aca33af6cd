public import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Synchronization

/// Sends requests to upstreams over kept connections, and over new ones if a kept one is lost.
///
/// ```swift
/// let connections = UpstreamConnections(configuration.httpClientConfiguration())
/// let upstream = UpstreamClient(configuration: configuration, connections: connections)
/// let answer = try await upstream.complete(prompt)
/// try await connections.shutdown()
/// ```
public struct UpstreamConnections: Sendable {
    private let kept: HTTPClient
    private let fresh: HTTPClient
    private let opened: Opened

    /// Creates connections, none of which is open yet.
    ///
    /// - Parameter configuration: How to connect, as
    ///   ``UpstreamConfiguration/httpClientConfiguration(connections:)`` says.
    public init(_ configuration: HTTPClient.Configuration) {
        let opened = Opened()
        var keeping = configuration
        keeping.http1_1ConnectionDebugInitializer = opened.before(
            configuration.http1_1ConnectionDebugInitializer
        )
        keeping.http2ConnectionDebugInitializer = opened.before(
            configuration.http2ConnectionDebugInitializer
        )
        var single = configuration
        single.maximumUsesPerConnection = 1
        kept = HTTPClient(eventLoopGroupProvider: .singleton, configuration: keeping)
        fresh = HTTPClient(eventLoopGroupProvider: .singleton, configuration: single)
        self.opened = opened
    }

    /// Closes all connections; requests that are under way fail.
    ///
    /// - Throws: What made it fail. The rest is closed nevertheless.
    public func shutdown() async throws {
        let first: Result<Void, any Error>
        do { first = .success(try await kept.shutdown()) } catch { first = .failure(error) }
        try await fresh.shutdown()
        try first.get()
    }

    /// How many connections were opened to be kept.
    var openedCount: Int { opened.count.load(ordering: .relaxed) }

    /// Sends a request, and once more on a new connection if a kept one is lost before the response
    /// begins.
    ///
    /// A server may close an idle connection just as the next request is sent, without reading that
    /// request (RFC 9112, section 9.3.1). A request that is lost on a new connection is not sent
    /// again, because the request itself may have made the server fail.
    ///
    /// - Parameters:
    ///   - request: The request, whose body tells `progress` when it leaves.
    ///   - progress: How far the attempt has come.
    /// - Returns: The beginning of the answer.
    /// - Throws: Why none came.
    func execute(
        _ request: HTTPClientRequest,
        _ progress: AttemptProgress
    ) async throws -> HTTPClientResponse {
        let before = openedCount
        do {
            // The deadline is the caller's: one given here would end with the answer's head.
            return try await kept.execute(request, deadline: .distantFuture)
        } catch  where Self.isLost(error) && !Task.isCancelled {
            // Another request may have opened one meanwhile, and then this one is not repeated.
            guard (progress.connectionsWhenSent ?? openedCount) == before else { throw error }
            return try await fresh.execute(request, deadline: .distantFuture)
        }
    }

    /// Whether a connection ended before it said anything.
    private static func isLost(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case is HTTPParserError, is CancellationError: false
        default: true
        }
    }

    private final class Opened: Sendable {
        let count = Atomic(0)

        /// Counts a connection, then sets it up as its configuration says.
        func before(_ initializer: Initializer?) -> Initializer {
            { channel in
                self.count.add(1, ordering: .relaxed)
                return initializer?(channel) ?? channel.eventLoop.makeSucceededVoidFuture()
            }
        }
    }

    private typealias Initializer = @Sendable (any Channel) -> EventLoopFuture<Void>
}
