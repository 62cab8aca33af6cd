import NIOCore
import NIOPosix

/// Sends cases to a server and examines the responses.
struct FuzzTarget: Sendable {
    /// The server's reaction to a case.
    enum Outcome: Sendable, CustomStringConvertible {
        /// The server responded with these statuses.
        case answered([Int])
        /// The server closed the connection without a response.
        case closed
        /// The server did neither within ``FuzzTarget/patience``.
        case silent
        /// The server could not be reached.
        case unreachable(String)

        /// Whether the outcome is a failure of the server.
        ///
        /// The statuses 501 and 505 are valid responses to unknown methods and versions of HTTP.
        var isFailure: Bool {
            switch self {
            case .answered(let statuses): statuses.contains { $0 >= 500 && $0 != 501 && $0 != 505 }
            case .closed: false
            case .silent, .unreachable: true
            }
        }

        /// The names that count the outcome.
        var names: [String] {
            switch self {
            case .answered(let statuses): statuses.map { "\($0)" }
            case .closed: ["closed"]
            case .silent: ["silent"]
            case .unreachable: ["unreachable"]
            }
        }

        var description: String {
            if case .unreachable(let reason) = self { return "unreachable, \(reason)" }
            return names.joined(separator: " ")
        }
    }

    /// The time for a server to respond, or to close a connection that its peer has half-closed.
    static let patience = TimeAmount.seconds(20)

    let port: Int
    let tokens: [String]
    let seed: UInt64

    /// Sends the case on a new connection, closes that direction, and reads to the end.
    func send(_ kind: FuzzCase.Kind, _ number: Int, isShown: Bool = false) async -> Outcome {
        let token = tokens[number % tokens.count]
        let bytes = FuzzCase(kind, number, seed: seed, token: token).bytes
        if isShown { print(String(decoding: bytes, as: UTF8.self)) }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = Answer(bytes: bytes, promise: loop.makePromise(of: Outcome.self))
        do {
            // A reset at the end leaves no port in TIME_WAIT, because there are fewer ports than
            // cases.
            _ = try await ClientBootstrap(group: loop)
                .channelOption(.allowRemoteHalfClosure, value: true)
                .channelInitializer { channel in
                    let end = (channel as? any SocketOptionProvider)?
                        .setSoLinger(linger(l_onoff: 1, l_linger: 0))
                    end?.whenFailure { _ in }
                    return channel.pipeline.addHandler(answer)
                }
                .connect(host: "127.0.0.1", port: port).get()
            return try await answer.promise.futureResult.get()
        } catch {
            answer.promise.succeed(.closed)
            return .unreachable("\(error)")
        }
    }

    /// Reads all responses of a connection.
    ///
    /// Mutable state belongs to the event loop.
    private final class Answer: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        /// The maximum number of received bytes that are kept.
        private static let limit = 1 << 20

        let promise: EventLoopPromise<Outcome>
        private let bytes: [UInt8]
        private var received: [UInt8] = []
        private var timer: Scheduled<Void>?

        init(bytes: [UInt8], promise: EventLoopPromise<Outcome>) {
            self.bytes = bytes
            self.promise = promise
        }

        func channelActive(context: ChannelHandlerContext) {
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            timer = context.eventLoop.scheduleTask(in: FuzzTarget.patience) {
                let (answer, context) = bound.value
                answer.end(.silent, context)
            }
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
            context.close(mode: .output, promise: nil)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let buffer = unwrapInboundIn(data)
            guard received.count < Self.limit else { return }
            received += buffer.readableBytesView
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard case .inputClosed? = event as? ChannelEvent else { return }
            end(outcome, context)
        }

        func channelInactive(context: ChannelHandlerContext) { end(outcome, context) }

        // A reset by the server ends the exchange too, if it stops reading without a response.
        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            end(outcome, context)
        }

        private var outcome: Outcome {
            let statuses = Self.statuses(in: received)
            return statuses.isEmpty ? .closed : .answered(statuses)
        }

        private func end(_ outcome: Outcome, _ context: ChannelHandlerContext) {
            timer?.cancel()
            promise.succeed(outcome)
            context.close(promise: nil)
        }

        private static func statuses(in bytes: [UInt8]) -> [Int] {
            let mark = Array("HTTP/1.".utf8)
            return bytes.indices.compactMap { place in
                // A status line comes first or after the end of a response. Bodies contain none.
                guard place + 12 <= bytes.count, bytes[place..<(place + 7)].elementsEqual(mark),
                    bytes[place + 8] == UInt8(ascii: " ")
                else { return nil }
                return Int(String(decoding: bytes[(place + 9)..<(place + 12)], as: UTF8.self))
            }
        }
    }
}
