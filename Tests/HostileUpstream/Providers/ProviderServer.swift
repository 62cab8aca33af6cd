import NIOCore
import NIOHTTP1
import NIOPosix
import SanguineModel
package import SanguineTesting

/// A provider on loopback.
///
/// Mutable state: `requests`, behind its mutex, for tests to await.
package final class ProviderServer: Sendable {
    /// The complete requests.
    package let requests: WatchedState<[Provider.Request]>
    private let channel: any Channel

    private init(_ channel: any Channel, _ requests: WatchedState<[Provider.Request]>) {
        (self.channel, self.requests) = (channel, requests)
    }

    /// The URL to configure.
    package var url: String { "http://127.0.0.1:\(channel.localAddress?.port ?? 0)" }

    /// Runs a provider while the body runs.
    package static func with<Result: Sendable>(
        _ provider: Provider,
        _ body: @escaping @Sendable (ProviderServer) async throws -> Result
    ) async throws -> Result {
        let box = WatchedState<[Provider.Request]>([])
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)
                    let operations = channel.pipeline.syncOperations
                    try operations.addHandler(ByteToMessageHandler(decoder))
                    try operations.addHandler(
                        ProviderConnection { request in
                            box.withLock { $0.append(request) }
                            return provider.answer(request)
                        }
                    )
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let server = ProviderServer(channel, box)
        do {
            let result = try await body(server)
            try await channel.close().get()
            return result
        } catch {
            try? await channel.close().get()
            throw error
        }
    }
}

/// One connection, on whose event loop everything runs.
private final class ProviderConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    private let answer: @Sendable (Provider.Request) -> Provider.Reply
    private var body: [UInt8] = []

    init(_ answer: @escaping @Sendable (Provider.Request) -> Provider.Reply) {
        self.answer = answer
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head: body = []
        case .body(let buffer): body += buffer.readableBytesView
        case .end:
            let json = (try? JSONParser.parse(body, limits: .tolerant).value) ?? .null
            let reply = answer(Provider.Request(bytes: body, json: json))
            let type = reply.type.isEmpty ? "" : "Content-Type: \(reply.type)\r\n"
            var buffer = ByteBuffer(
                string: """
                    HTTP/1.1 \(reply.status) X\r\n\(type)\
                    Content-Length: \(reply.body.count)\r\n\r\n
                    """
            )
            buffer.writeBytes(reply.body)
            context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}
