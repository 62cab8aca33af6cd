import HTTPTypes
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import SanguineAuthority

/// The state and limits that all connections of a port share.
struct Edge: Sendable {
    /// The time without a request after which a connection is closed.
    let idleTimeout: Duration
    /// The time that a peer has to read a piece of a response.
    let writeTimeout: Duration
    /// Counts the connections of each address.
    let permits: SharedPool
    /// Trusted proxies, whose connections are not counted against an address.
    let proxies: TrustedProxies
    /// The server's certificate and key, or `nil` for connections without TLS.
    let tls: TLSIdentity?
    /// Counts the connections that were closed because their peer did not read.
    let unread: Counter

    /// Counts a connection against its address.
    ///
    /// - Returns: A permit, which is released when the connection ends.
    func acquirePermit(of channel: any Channel) throws(SharedPool.Refusal) -> SharedPool.Permit {
        let peer = channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
        return try permits.acquire(address: proxies.contains(peer) ? nil : peer?.client)
    }

    /// Sets a timeout for unacknowledged data and limits the socket's buffers.
    func setOptions(of channel: any Channel) {
        let mark = ChannelOptions.Types.WriteBufferWaterMark(
            low: EdgeLimits.pieceBytes,
            high: 2 * EdgeLimits.pieceBytes
        )
        channel.setOption(.writeBufferWaterMark, value: mark).whenFailure { _ in }
        #if os(Linux)
        // See tcp(7). Without a timeout, the system accepts pings and responses for 15 minutes.
        set(18, to: Int(writeTimeout.wholeNanoseconds / 1_000_000), channel)  // TCP_USER_TIMEOUT
        set(25, to: EdgeLimits.unsentBytes, channel)  // TCP_NOTSENT_LOWAT
        #endif
    }

    private func set(_ option: CInt, to value: Int, _ channel: any Channel) {
        let option = ChannelOptions.Types.SocketOption(
            level: .tcp,
            name: NIOBSDSocket.Option(rawValue: option)
        )
        // Where the system does not support the option, the other limits still apply.
        channel.setOption(option, value: SocketOptionValue(value)).whenFailure { _ in }
    }

    /// Adds the handlers for HTTP/1 to a connection's pipeline.
    func configure(_ pipeline: ChannelPipeline.SynchronousOperations, logger: Logger) throws {
        try pipeline.configureHTTPServerPipeline(
            withPipeliningAssistance: false,  // One request is read at a time.
            withErrorHandling: false,  // `HTTP1Validator` handles errors.
            withOutboundHeaderValidation: false  // The types of the fields ensure validity.
        )
        try pipeline.addHandler(HTTP1Validator())
        try pipeline.addHandler(HTTP1ToHTTPServerCodec(secure: tls != nil))
        try configureParts(pipeline, logger: logger)
    }

    /// Adds the handlers that every version of HTTP needs.
    private func configureParts(
        _ pipeline: ChannelPipeline.SynchronousOperations,
        logger: Logger
    ) throws {
        try pipeline.addHandler(flow())
        try pipeline.addHandler(
            HTTPConnectionStateHandler(idleTimeout: idleTimeout, logger: logger)
        )
    }

    /// Returns a handler that closes the connection when the peer does not read.
    func flow() -> WriteBackpressure {
        WriteBackpressure(
            timeout: TimeAmount(writeTimeout),
            gaveUp: { [unread] in unread.increment() }
        )
    }
}
