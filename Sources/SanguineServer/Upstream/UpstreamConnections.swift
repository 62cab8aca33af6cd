public import AsyncHTTPClient
import NIOCore
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// Sends requests to upstreams over reused connections, or a new one if a reused one is lost.
///
/// ```swift
/// let connections = UpstreamConnections(configuration.httpClientConfiguration())
/// let upstream = UpstreamClient(configuration: configuration, connections: connections)
/// let answer = try await upstream.complete(prompt)
/// try await connections.shutdown()
/// ```
public struct UpstreamConnections: Sendable {
    /// The time after sending within which a lost connection had been closed before: 2 s.
    ///
    /// If it is lost later, the server has probably read the request and worked on it.
    static let longestLoss = Duration.seconds(2)

    private let kept: HTTPClient
    private let fresh: HTTPClient
    private let opened = Opened()

    /// Creates the clients without opening connections.
    ///
    /// - Parameter configuration: The configuration from
    ///   ``UpstreamConfiguration/httpClientConfiguration(connections:)``.
    public init(_ configuration: HTTPClient.Configuration) {
        var keeping = configuration
        keeping.http1_1ConnectionDebugInitializer = { [opened] channel in
            ConnectionUse.add(opened.next(), to: channel).flatMap {
                configuration.http1_1ConnectionDebugInitializer?(channel)
                    ?? channel.eventLoop.makeSucceededVoidFuture()
            }
        }
        keeping.http2ConnectionDebugInitializer = { [opened] channel in
            HTTP2ConnectionUse.add(opened.next(), to: channel).flatMap {
                configuration.http2ConnectionDebugInitializer?(channel)
                    ?? channel.eventLoop.makeSucceededVoidFuture()
            }
        }
        keeping.http2StreamChannelDebugInitializer = { channel in
            ConnectionUse.add(toStream: channel).flatMap {
                configuration.http2StreamChannelDebugInitializer?(channel)
                    ?? channel.eventLoop.makeSucceededVoidFuture()
            }
        }
        var single = configuration
        single.maximumUsesPerConnection = 1
        kept = HTTPClient(eventLoopGroupProvider: .singleton, configuration: keeping)
        fresh = HTTPClient(eventLoopGroupProvider: .singleton, configuration: single)
    }

    /// Closes all connections; current requests fail.
    ///
    /// - Throws: The error of a client. The other one is still shut down.
    public func shutdown() async throws {
        let first: Result<Void, any Error>
        do { first = .success(try await kept.shutdown()) } catch { first = .failure(error) }
        try await fresh.shutdown()
        try first.get()
    }

    /// Sends a request, and once more on a new connection if a kept one is lost before the response
    /// begins.
    ///
    /// A server may close an idle connection just as the next request is sent, without reading that
    /// request (RFC 9112, section 9.3.1). The request is repeated once, and only if the connection
    /// is lost before the response begins. A request that is lost on a new connection is not
    /// repeated, because the request itself may have caused the failure.
    ///
    /// An HTTP/2 server says which requests it has not processed, with `REFUSED_STREAM` or the last
    /// stream of a `GOAWAY` frame (RFC 9113, section 8.7). Such a request is always repeated once,
    /// and one that the server may have processed never is.
    ///
    /// - Parameters:
    ///   - request: The request, without its body.
    ///   - body: The body, which reports to `progress` when it is sent.
    ///   - progress: The progress of the attempt.
    /// - Returns: The beginning of the response.
    /// - Throws: The error if there is no response.
    func execute(
        _ request: HTTPClientRequest,
        _ body: [UInt8],
        _ progress: AttemptProgress
    ) async throws -> HTTPClientResponse {
        let sending = Sending(after: opened.last)
        var request = request
        request.body = .bytes(
            SentBody(bytes: body) { [opened] in
                progress.sent()
                sending.sent(on: ConnectionUse.current ?? .init(number: opened.last))
            }
        )
        do {
            // The caller has the deadline: one given here would end with the head of the response.
            return try await kept.execute(request, deadline: .distantFuture)
        } catch {
            let isRecent = progress.timeSinceSent <= Self.longestLoss
            guard sending.isUnprocessed || (sending.isLost(with: error) && isRecent),
                !Task.isCancelled
            else { throw error }
            return try await fresh.execute(request, deadline: .distantFuture)
        }
    }

    /// The numbers of opened connections, from 1.
    private final class Opened: Sendable {
        private let count = Atomic(0)

        var last: Int { count.load(ordering: .relaxed) }

        func next() -> Int { count.add(1, ordering: .relaxed).newValue }
    }

    /// The first sending of a request.
    private final class Sending: Sendable {
        private enum State { case unsent, onKept, onNew }

        private let last: Int
        private let state = Mutex((State.unsent, StreamFate?.none))

        /// Begins after a connection of that number was opened.
        init(after last: Int) { self.last = last }

        /// Records the connection.
        func sent(on connection: ConnectionUse.Current) {
            let isKept = connection.number <= last || connection.requests > 1
            state.withLock { $0 = (isKept ? .onKept : .onNew, connection.fate) }
        }

        /// Whether the server has said that it did not process the request.
        var isUnprocessed: Bool { state.withLock { $0.1 }?.isProcessed == false }

        /// Returns whether the error means that a kept connection was lost before the response.
        ///
        /// A request that was not sent, on a connection that ended, had been given to a kept one.
        func isLost(with error: any Error) -> Bool {
            let isClosed = (error as? HTTPClientError) == .remoteConnectionClosed
            let (state, fate) = state.withLock { $0 }
            switch state {
            case .unsent:
                // A closing HTTP/2 connection refuses requests as if they were cancelled.
                return isClosed || error as? ChannelError == .ioOnClosedChannel
                    || error as? HTTPClientError == .cancelled || error is any NIOHTTP2Error
            case .onKept:
                // Other resets of an HTTP/2 stream are not among them: the server has read its
                // request.
                guard fate?.isProcessed != true else { return false }
                // The streams of a lost HTTP/2 connection may fail as if they were cancelled.
                let isCancelled = fate != nil && error as? HTTPClientError == .cancelled
                return isClosed || isCancelled || error is IOError || error is ChannelError
                    || error as? NIOSSLError == .uncleanShutdown
            case .onNew: return false
            }
        }
    }
}

/// A request's body, which reports that it is sent.
///
/// No stream: HTTPClient reads a collection in one go with the head. Of a stream it may hear the
/// end only after the answer, and then it closes the connection.
private struct SentBody: RandomAccessCollection, Sendable {
    let bytes: [UInt8]
    let leaves: @Sendable () -> Void

    var startIndex: Int { 0 }
    var endIndex: Int { bytes.count }

    subscript(index: Int) -> UInt8 {
        leaves()
        return bytes[index]
    }

    func withContiguousStorageIfAvailable<Value>(
        _ body: (UnsafeBufferPointer<UInt8>) throws -> Value
    ) rethrows -> Value? {
        leaves()
        return try bytes.withContiguousStorageIfAvailable(body)
    }
}
