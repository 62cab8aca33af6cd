import NIOCore
import NIOPosix

/// Sends cases to a server, and looks at what comes back.
struct FuzzTarget: Sendable {
    /// What a server did with a case.
    enum Outcome: Sendable, CustomStringConvertible {
        /// It answered, with these statuses.
        case answered([Int])
        /// It closed the connection without a word.
        case closed
        /// It did neither for ``FuzzTarget/patience``.
        case silent
        /// It could not be reached.
        case unreachable(String)

        /// Whether no server should do so.
        ///
        /// A server may be busy (503), and says when to come again.
        var isFailure: Bool {
            switch self {
            case .answered(let statuses): statuses.contains { $0 >= 500 && $0 != 501 && $0 != 505 }
            case .closed: false
            case .silent, .unreachable: true
            }
        }

        /// What is counted.
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

    /// How long a server has to answer or to close a connection whose peer has ended its side.
    static let patience = TimeAmount.seconds(20)

    let port: Int
    let tokens: [String]
    let seed: UInt64

    /// Sends the case on a connection of its own, ends that side, and reads to the end.
    func send(_ kind: FuzzCase.Kind, _ number: Int, isShown: Bool = false) async -> Outcome {
        let token = tokens[number % tokens.count]
        let bytes = FuzzCase(kind, number, seed: seed, token: token).bytes
        if isShown { print(String(decoding: bytes, as: UTF8.self)) }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = Answer(bytes: bytes, promise: loop.makePromise(of: Outcome.self))
        do {
            // A reset at the end leaves no port waiting: there are fewer ports than cases.
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

    /// Reads a whole connection's answers.
    ///
    /// Mutable state belongs to the event loop.
    private final class Answer: ChannelInboundHandler, @unchecked Sendable {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        /// The most that is kept of what comes.
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

        // A reset by the server is an end, too: it reads no more of what has no answer.
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
                // A status line is the first, or follows an answer's end; bodies hold none.
                guard place + 12 <= bytes.count, bytes[place..<(place + 7)].elementsEqual(mark),
                    bytes[place + 8] == UInt8(ascii: " ")
                else { return nil }
                return Int(String(decoding: bytes[(place + 9)..<(place + 12)], as: UTF8.self))
            }
        }
    }
}
