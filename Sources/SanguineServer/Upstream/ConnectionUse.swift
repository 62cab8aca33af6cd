import NIOCore
import NIOHTTP1
import NIOHTTP2
import NIOPosix
import Synchronization

/// Whether the server has processed the request of an HTTP/2 stream.
///
/// Mutable state: `state`, guarded by its mutex.
final class StreamFate: Sendable {
    private let state = Mutex<Bool?>(nil)

    /// `false` if the server certainly did not process the request, `true` if it may have; `nil` if
    /// it did not say.
    var isProcessed: Bool? { state.withLock { $0 } }

    func end(isProcessed: Bool) {
        state.withLock { if $0 == nil { $0 = isProcessed } }
    }
}

/// Numbers an HTTP/1 connection and counts its requests, or does so for one stream of HTTP/2.
///
/// `HTTPClient` writes a request's head and then reads its body, on the connection's thread and
/// without a suspension, unless the body has more than 4 MiB. So ``current`` is about the
/// body's connection while the body is read.
///
/// Mutable state: `requests`, which the connection's event loop changes and reads.
final class ConnectionUse: ChannelDuplexHandler, @unchecked Sendable {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    /// The connection of a request.
    struct Current: Sendable {
        /// The number of the connection.
        var number: Int
        /// The number of requests on it, which includes this one; 1 for a stream.
        var requests = 1
        /// The end of a stream; `nil` in HTTP/1.
        var fate: StreamFate?
    }

    private static let latest = ThreadSpecificVariable<ConnectionUse>()

    private let number: Int
    private let stream: (connection: HTTP2ConnectionUse, fate: StreamFate)?
    private var requests = 0

    private init(_ number: Int) {
        self.number = number
        stream = nil
    }

    private init(_ connection: HTTP2ConnectionUse) {
        number = connection.number
        stream = (connection, StreamFate())
    }

    /// The connection whose head this thread is writing, or has just written.
    static var current: Current? {
        latest.currentValue.map {
            Current(number: $0.number, requests: $0.requests, fate: $0.stream?.fate)
        }
    }

    /// Adds a number to a connection.
    static func add(_ number: Int, to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.submit {
            let pipeline = channel.pipeline.syncOperations
            let encoder = try pipeline.handler(type: HTTPRequestEncoder.self)
            try pipeline.addHandler(ConnectionUse(number), position: .after(encoder))
        }
    }

    /// Adds its connection's number to a stream, on the stream's event loop.
    ///
    /// This does not suspend: `HTTPClient` writes the request afterwards, and a stream that ends in
    /// between would never answer it.
    static func add(toStream channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            guard
                let connection = try? channel.parent?.pipeline.syncOperations
                    .handler(type: HTTP2ConnectionUse.self),
                let codec = try? pipeline.handler(type: HTTP2FramePayloadToHTTP1ClientCodec.self)
            else { return }
            try pipeline.addHandler(ConnectionUse(connection), position: .after(codec))
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .head = unwrapOutboundIn(data) {
            requests += 1
            Self.latest.currentValue = self
            context.eventLoop.execute {
                if Self.latest.currentValue === self { Self.latest.currentValue = nil }
            }
        } else {
            Self.latest.currentValue = nil
        }
        context.write(data, promise: promise)
    }

    // The request fails only after these, because its handler is behind this one.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let stream, let closed = error as? NIOHTTP2Errors.StreamClosed {
            let isRefused = closed.errorCode == .refusedStream
            let isDropped = stream.connection.mayHaveProcessed(closed.streamID) == false
            stream.fate.end(isProcessed: !isRefused && !isDropped)
        }
        context.fireErrorCaught(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        let options = context.channel.syncOptions
        if let stream, let id = try? options?.getOption(HTTP2StreamChannelOptions.streamID),
            let isProcessed = stream.connection.mayHaveProcessed(id)
        {
            stream.fate.end(isProcessed: isProcessed)
        }
        context.fireChannelInactive()
    }
}

/// Numbers an HTTP/2 connection, and records which of its streams a server that closes it has
/// processed (RFC 9113, section 6.8).
///
/// Mutable state: `lastStream`, which the connection's event loop changes and reads.
final class HTTP2ConnectionUse: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias InboundOut = HTTP2Frame

    let number: Int
    private var lastStream: Int?

    private init(_ number: Int) { self.number = number }

    /// Adds a number to a connection.
    static func add(_ number: Int, to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.submit {
            let pipeline = channel.pipeline.syncOperations
            let frames = try pipeline.handler(type: NIOHTTP2Handler.self)
            try pipeline.addHandler(HTTP2ConnectionUse(number), position: .after(frames))
        }
    }

    /// Returns whether the server may have processed a stream; `nil` if it did not say.
    ///
    /// The largest number of a stream announces that the connection will be closed, and says
    /// nothing about the streams.
    func mayHaveProcessed(_ stream: HTTP2StreamID) -> Bool? {
        guard let lastStream, lastStream < Int(Int32.max) else { return nil }
        return Int(stream) <= lastStream
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .goAway(let last, _, _) = unwrapInboundIn(data).payload { lastStream = Int(last) }
        context.fireChannelRead(data)
    }
}
