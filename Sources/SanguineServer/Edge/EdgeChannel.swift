import HummingbirdCore
import HummingbirdHTTP2
import Logging
import NIOCore
import NIOHTTPTypes
import NIOSSL
import NIOTLS
import SanguineAuthority

/// Sets up a connection: HTTP/1.1 without TLS, or over TLS the protocol that client and server
/// negotiate (ALPN, RFC 7301), HTTP/2 or HTTP/1.1.
struct EdgeChannel: HTTPChannelHandler {
    typealias HTTP1 = NIOAsyncChannel<HTTPRequestPart, HTTPResponsePart>

    struct Value: ServerChildChannelValue {
        let channel: any Channel
        let agreed: EventLoopFuture<Agreed>
    }

    /// The negotiated protocol.
    enum Agreed: Sendable {
        case http1(HTTP1)
        case http2(HTTP2Channel.Value)
    }

    private struct UnknownProtocol: Error {}

    let responder: Responder
    private let edge: Edge
    private let http2: HTTP2Channel

    init(edge: Edge, responder: @escaping Responder) {
        self.edge = edge
        self.responder = responder
        http2 = HTTP2Channel(
            responder: responder,
            configuration: HTTP2Channel.Configuration(
                idleTimeout: edge.idleTimeout,
                gracefulCloseTimeout: edge.writeTimeout,
                streamConfiguration: HTTP1Channel.Configuration(
                    additionalChannelHandlers: [HTTP2Validator(), edge.flow()],
                    idleTimeout: TimeAmount(edge.idleTimeout)
                )
            )
        )
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            do {
                let permit = try edge.acquirePermit(of: channel)
                channel.closeFuture.whenComplete { _ in permit.release() }
                edge.setOptions(of: channel)
                guard let tls = edge.tls else {
                    let http1 = try http1(channel, logger)
                    let agreed = channel.eventLoop.makeSucceededFuture(Agreed.http1(http1))
                    return Value(channel: channel, agreed: agreed)
                }
                return Value(channel: channel, agreed: try agree(channel, tls, logger))
            } catch {
                channel.close(promise: nil)
                throw error
            }
        }
    }

    func handle(value: Value, logger: Logger) async {
        await withTaskExecutorPreference(LoopExecutor.of(value.channel.eventLoop)) {
            await serve(value, logger)
        }
    }

    private func serve(_ value: Value, _ logger: Logger) async {
        do {
            switch try await value.agreed.get() {
            case .http1(let http1): await handleHTTP(asyncChannel: http1, logger: logger)
            case .http2(let http2): await self.http2.handle(value: http2, logger: logger)
            }
        } catch {
            logger.trace("A connection ended before its protocol was negotiated: \(error)")
        }
    }

    /// Adds TLS to a channel, then the handlers of the negotiated protocol.
    private func agree(
        _ channel: any Channel,
        _ tls: TLSIdentity,
        _ logger: Logger
    ) throws -> EventLoopFuture<Agreed> {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(NIOSSLServerHandler(context: tls.context))
        let agreement = NIOTypedApplicationProtocolNegotiationHandler<Agreed> { result in
            switch result {
            case .negotiated("h2"):
                return startHTTP2(channel, logger)
            case .negotiated("http/1.1"), .fallback:
                return channel.eventLoop.makeCompletedFuture {
                    .http1(try http1(channel, logger))
                }
            case .negotiated:
                channel.close(promise: nil)
                return channel.eventLoop.makeFailedFuture(UnknownProtocol())
            }
        }
        try pipeline.addHandler(agreement)
        let agreed = agreement.protocolNegotiationResult
        let patience = TimeAmount.seconds(Int64(EdgeLimits.handshakeSeconds))
        let deadline = channel.eventLoop.scheduleTask(in: patience) { channel.close(promise: nil) }
        agreed.whenComplete { _ in deadline.cancel() }
        return agreed
    }

    private func startHTTP2(_ channel: any Channel, _ logger: Logger) -> EventLoopFuture<Agreed> {
        http2.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            // First in the pipeline, so that it also sees writes that belong to no stream.
            try pipeline.addHandler(edge.flow(), position: .first)
            try GoAwayTimeout.add(to: pipeline, timeout: TimeAmount(edge.writeTimeout))
            return .http2(value)
        }
    }

    private func http1(_ channel: any Channel, _ logger: Logger) throws -> HTTP1 {
        try edge.configure(channel.pipeline.syncOperations, logger: logger)
        return try NIOAsyncChannel(
            wrappingChannelSynchronously: channel,
            configuration: .init(isOutboundHalfClosureEnabled: true)
        )
    }
}
