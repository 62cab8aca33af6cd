import NIOCore
import NIOHTTP1

/// One connection, which has one request at a time or is live.
///
/// Mutable state is confined to the event loop.
final class LoadConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private enum State {
        case connecting
        case idle(since: Duration)
        /// A request without a complete response.
        case busy
        case live
        case closed
    }

    private let engine: LoadEngine
    /// Whether it was opened for a live connection, outside of the pool.
    let isForLive: Bool
    private var state = State.connecting
    private var context: ChannelHandlerContext?
    /// The request that is sent, or waits for the connection to open.
    private(set) var request: LoadRun.Send?
    private var status = 0
    private var body: [UInt8] = []
    private var keepsAlive = false
    private var hasResponse = false
    private var failure = "connection closed"
    /// The number of requests before this one.
    private var served = 0

    init(engine: LoadEngine, request: LoadRun.Send) {
        self.engine = engine
        self.request = request
        isForLive = request.isLive
    }

    /// Whether the connection has been idle at most for this long.
    func isUsable(at now: Duration) -> Bool {
        guard case .idle(let since) = state else { return false }
        return now - since <= LoadLimits.idle
    }

    /// Sends a request on an idle connection.
    func send(_ request: LoadRun.Send) {
        self.request = request
        write()
    }

    /// Closes the connection, whose request has ended already.
    func close() {
        request = nil
        state = .closed
        context?.close(promise: nil)
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        // It may have been cancelled while it was opened.
        if case .closed = state { return context.close(promise: nil) }
        write()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            // Interim responses, such as 103, precede the actual one.
            guard head.status.code >= 200 else { return }
            hasResponse = true
            status = Int(head.status.code)
            keepsAlive = head.isKeepAlive
            guard let request, request.isLive, status == 200 else { return }
            state = .live
            self.request = nil
            engine.answered(request.number, status: status, body: [])
        case .body(let bytes):
            if case .live = state { return engine.liveReceived(bytes.readableBytes) }
            let room = LoadLimits.answerBytes - body.count
            if room > 0 { body.append(contentsOf: bytes.readableBytesView.prefix(room)) }
        case .end:
            guard case .busy = state, hasResponse, let request else { return }
            let (status, body) = (status, body)
            self.request = nil
            self.body = []
            served += 1
            state = keepsAlive ? .idle(since: engine.now) : .closed
            if !keepsAlive { context.close(promise: nil) }
            engine.answered(request.number, status: status, body: body)
            if keepsAlive { engine.released(self) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if case .live = state { engine.liveEnded() } else { failRequest() }
        state = .closed
        engine.closed(self)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        failure = LoadEngine.reason(of: error)
        context.close(promise: nil)
    }

    /// Records that the connection could not be opened.
    func couldNotOpen(_ error: any Error) {
        failure = LoadEngine.reason(of: error)
        failRequest()
        state = .closed
    }

    private func failRequest() {
        guard let request else { return }
        self.request = nil
        // A server may close an idle connection at the moment in which it is used again. Then it
        // has processed nothing, and the request is sent once more (RFC 9112, section 9.3.1).
        if served > 0, !hasResponse {
            engine.resend(request)
        } else {
            engine.failed(request.number, failure)
        }
    }

    private func write() {
        guard let request, let context else { return }
        state = .busy
        hasResponse = false
        let message = request.message
        var head = HTTPRequestHead(
            version: .http1_1,
            method: HTTPMethod(rawValue: message.method),
            uri: message.path
        )
        head.headers.add(name: "Host", value: engine.authority)
        if let token = message.token {
            head.headers.add(name: "Authorization", value: "Bearer \(token)")
        }
        if let key = message.key { head.headers.add(name: "Idempotency-Key", value: key) }
        if let body = message.body {
            head.headers.add(name: "Content-Type", value: "application/json")
            head.headers.add(name: "Content-Length", value: "\(body.utf8.count)")
        } else if message.method != "GET" {
            head.headers.add(name: "Content-Length", value: "0")
        }
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body = message.body {
            let bytes = context.channel.allocator.buffer(string: body)
            context.write(wrapOutboundOut(.body(.byteBuffer(bytes))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }
}
