import HTTPTypes
import HummingbirdCore
import Logging
import Metrics
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1
import SanguineAuthority

/// What every connection of a server's port shares: its limits, and what counts against them.
struct Edge: Sendable {
    /// After how long without a request a connection is closed.
    let idleTimeout: Duration
    /// How long a peer may take for a piece of an answer.
    let writeTimeout: Duration
    /// What counts the connections of each address.
    let places: SharedPool
    /// The proxies that bring many clients each: they have no share of the connections.
    let proxies: TrustedProxies
    /// What the server proves itself with, or `nil` for connections in the clear.
    let tls: TLSIdentity?
    /// Counts connections that were closed because nobody read.
    let unread: Counter

    /// Counts a connection against its address.
    ///
    /// - Returns: Its place, which is left when the connection ends.
    func place(of channel: any Channel) throws(SharedPool.Refusal) -> SharedPool.Place {
        let peer = channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
        return try places.take(address: proxies.contains(peer) ? nil : peer?.client)
    }

    /// Prepares the socket: an end for peers that acknowledge nothing, and little in its buffers.
    func setOptions(of channel: any Channel) {
        let mark = ChannelOptions.Types.WriteBufferWaterMark(
            low: EdgeLimits.pieceBytes,
            high: 2 * EdgeLimits.pieceBytes
        )
        channel.setOption(.writeBufferWaterMark, value: mark).whenFailure { _ in }
        #if os(Linux)
        // tcp(7). Otherwise the system's buffers take pings and answers for a quarter of an hour.
        set(18, to: Int(writeTimeout.wholeNanoseconds / 1_000_000), channel)  // TCP_USER_TIMEOUT
        set(25, to: EdgeLimits.unsentBytes, channel)  // TCP_NOTSENT_LOWAT
        #endif
    }

    private func set(_ option: CInt, to value: Int, _ channel: any Channel) {
        let option = ChannelOptions.Types.SocketOption(
            level: .tcp,
            name: NIOBSDSocket.Option(rawValue: option)
        )
        // A socket that does not know it is bounded by the other limits.
        channel.setOption(option, value: SocketOptionValue(value)).whenFailure { _ in }
    }

    /// Adds what HTTP/1 needs between a connection's bytes and its requests.
    func configure(_ pipeline: ChannelPipeline.SynchronousOperations, logger: Logger) throws {
        try pipeline.configureHTTPServerPipeline(
            withPipeliningAssistance: false,  // One request is read at a time.
            withErrorHandling: false,  // `RequestForm` does.
            withOutboundHeaderValidation: false  // The types of the fields do.
        )
        try pipeline.addHandler(RequestForm())
        try pipeline.addHandler(HTTP1ToHTTPServerCodec(secure: tls != nil))
        try configureParts(pipeline, logger: logger)
    }

    /// Adds what every version of HTTP needs.
    private func configureParts(
        _ pipeline: ChannelPipeline.SynchronousOperations,
        logger: Logger
    ) throws {
        try pipeline.addHandler(flow())
        try pipeline.addHandler(
            HTTPConnectionStateHandler(idleTimeout: idleTimeout, logger: logger)
        )
    }

    /// What gives up a peer that does not read.
    func flow() -> AnswerFlow {
        AnswerFlow(
            timeout: TimeAmount(writeTimeout),
            gaveUp: { [unread] in unread.increment() }
        )
    }
}
