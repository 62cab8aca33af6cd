import NIOCore
import NIOPosix

/// A language model of negligible cost, which answers every chat with the same bytes.
///
/// A streamed answer is sent at once, or begun and never ended if the prompt contains ``waiting``.
/// A whole answer fails or is late if the prompt contains a ``Fault``.
enum CannedUpstream {
    /// The word in a prompt that requests a stream without an end.
    static let waiting = "hold-open"

    /// Words in a prompt that make a whole answer fail or come late.
    enum Fault: String, CaseIterable {
        /// Status 400, an error of the caller.
        case refused = "please-refuse"
        /// Status 500.
        case failed = "please-fail"
        /// No answer.
        case silent = "please-say-nothing"
        /// An answer after half a second.
        case slow = "please-wait"
    }

    /// Starts the model on a free port of 127.0.0.1, on one thread.
    static func start() async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup(numberOfThreads: 1))
            .serverChannelOption(.backlog, value: 1_024)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answers())
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
    }

    private final class Answers: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private var received = ByteBuffer()

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            received.writeBuffer(&bytes)
            while let length = received.messageLength,
                let request = received.readSlice(length: length)
            {
                answer(request, context)
            }
            if received.readableBytes == 0 { received.clear() }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }

        private func answer(_ request: ByteBuffer, _ context: ChannelHandlerContext) {
            let text = String(buffer: request)
            let fault =
                text.contains("please-") ? Fault.allCases.first { text.contains($0.rawValue) } : nil
            switch fault {
            case nil: context.writeAndFlush(wrapOutboundOut(answer(to: text)), promise: nil)
            case .refused:
                context.writeAndFlush(wrapOutboundOut(CannedUpstream.refusal), promise: nil)
            case .failed:
                context.writeAndFlush(wrapOutboundOut(CannedUpstream.failure), promise: nil)
            case .silent: break
            case .slow:
                let channel = context.channel
                context.eventLoop.scheduleTask(in: .milliseconds(500)) {
                    channel.writeAndFlush(CannedUpstream.whole, promise: nil)
                }
            }
        }

        private func answer(to text: String) -> ByteBuffer {
            guard text.contains(#""stream":true"#) || text.contains(#""stream": true"#) else {
                return CannedUpstream.whole
            }
            return text.contains(CannedUpstream.waiting)
                ? CannedUpstream.begun : CannedUpstream.stream
        }
    }

    private static let words = ["Let", " us", " look", " at", " it", " together", ".", " Gladly."]
    private static let usage = """
        "usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28}
        """

    private static let whole = answer(
        "200 OK",
        """
        {"id":"chatcmpl-1","object":"chat.completion","created":0,"model":"stand-in","choices":\
        [{"index":0,"message":{"role":"assistant","content":"\(words.joined())"},\
        "finish_reason":"stop"}],\(usage)}
        """
    )

    private static let refusal = answer(
        "400 Bad Request",
        """
        {"error":{"message":"The prompt is too long.","type":"invalid_request_error",\
        "param":"messages","code":"context_length_exceeded"}}
        """
    )

    private static let failure = answer(
        "500 Internal Server Error",
        #"{"error":{"message":"The server had an error.","type":"server_error"}}"#
    )

    private static func answer(_ status: String, _ body: String) -> ByteBuffer {
        ByteBuffer(
            string: """
                HTTP/1.1 \(status)\r
                Content-Type: application/json\r
                Content-Length: \(body.utf8.count)\r
                \r
                \(body)
                """
        )
    }

    private static let streamHead = """
        HTTP/1.1 200 OK\r
        Content-Type: text/event-stream\r
        Transfer-Encoding: chunked\r
        \r\n
        """

    private static let begun = ByteBuffer(
        string: streamHead + event(delta(#""role":"assistant","content":"""#)) + event(word("Let"))
    )

    private static let stream = ByteBuffer(
        string: streamHead + event(delta(#""role":"assistant","content":"""#))
            + words.map { event(word($0)) }.joined()
            + event(chunk(#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#))
            + event(chunk(#""choices":[],"# + usage)) + event("[DONE]") + "0\r\n\r\n"
    )

    private static func word(_ word: String) -> String { delta(#""content":"\#(word)""#) }

    private static func delta(_ members: String) -> String {
        chunk(#""choices":[{"index":0,"delta":{\#(members)},"finish_reason":null}]"#)
    }

    private static func chunk(_ members: String) -> String {
        """
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":0,"model":"stand-in",\
        \(members)}
        """
    }

    private static func event(_ data: String) -> String {
        let line = "data: \(data)\n\n"
        return "\(String(line.utf8.count, radix: 16))\r\n\(line)\r\n"
    }
}
