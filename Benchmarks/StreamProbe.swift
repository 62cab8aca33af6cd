import NIOCore
import NIOPosix

/// Requests streams of server-sent events and records when the first event of each arrives.
struct StreamProbe {
    let port: Int
    let group: any EventLoopGroup

    /// Requests one stream after the other on one connection.
    ///
    /// - Parameters:
    ///   - count: The number of streams.
    ///   - request: Returns the request for the stream with the number.
    /// - Returns: The times from the request to the first event, in microseconds.
    /// - Throws: ``BenchmarkError`` if a request is refused.
    func firstEvents(
        _ count: Int,
        _ request: @escaping @Sendable (Int) -> String
    ) async throws -> [Double] {
        let reader = Reader(eventLoop: group.next())
        let channel = try await connect(reader)
        var times: [Double] = []
        for number in 0..<count {
            let answer = reader.arm()
            let start = ContinuousClock.now
            try await channel.writeAndFlush(ByteBuffer(string: request(number)))
            times.append(start.duration(to: try await answer.first.get()) / .microseconds(1))
            try await answer.end.get()
        }
        try await channel.close()
        return times
    }

    /// Opens endless streams, each on its own connection, and waits for the first event of each.
    func open(
        _ count: Int,
        _ request: (Int) -> String
    ) async throws -> [any Channel] {
        var channels: [any Channel] = []
        while channels.count < count {
            let start = channels.count
            var answers: [EventLoopFuture<ContinuousClock.Instant>] = []
            for number in start..<min(start + 50, count) {
                let reader = Reader(eventLoop: group.next())
                let channel = try await connect(reader)
                answers.append(reader.arm().first)
                try await channel.writeAndFlush(ByteBuffer(string: request(number)))
                channels.append(channel)
            }
            for answer in answers { _ = try await answer.get() }
        }
        return channels
    }

    private func connect(_ reader: Reader) async throws -> any Channel {
        try await ClientBootstrap(group: reader.eventLoop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(reader))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }

    /// The promises that a connection's current stream fulfils.
    private final class Reader: Sendable {
        struct Answer {
            let first: EventLoopFuture<ContinuousClock.Instant>
            let end: EventLoopFuture<Void>
        }

        struct Promises {
            let first: EventLoopPromise<ContinuousClock.Instant>
            let end: EventLoopPromise<Void>
        }

        let eventLoop: any EventLoop
        /// The promises of the current stream, which belong to the event loop.
        let waiting: NIOLoopBoundBox<Promises?>

        init(eventLoop: any EventLoop) {
            self.eventLoop = eventLoop
            waiting = .makeBoxSendingValue(nil, eventLoop: eventLoop)
        }

        func arm() -> Answer {
            let promises = Promises(first: eventLoop.makePromise(), end: eventLoop.makePromise())
            // Set before the request is written, because both run on the event loop in order.
            eventLoop.execute { [waiting] in waiting.value = promises }
            return Answer(first: promises.first.futureResult, end: promises.end.futureResult)
        }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let reader: Reader
        private var answer = StreamedAnswer()

        init(_ reader: Reader) { self.reader = reader }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard let promises = reader.waiting.value else { return }
            do throws(BenchmarkError) {
                let hadEvent = answer.hasEvent
                try answer.read(unwrapInboundIn(data))
                if answer.hasEvent, !hadEvent { promises.first.succeed(.now) }
                guard answer.isWhole else { return }
                guard answer.hasEvent else { throw .refused(1) }
                answer = StreamedAnswer()
                reader.waiting.value = nil
                promises.end.succeed()
            } catch {
                end(error)
                context.close(promise: nil)
            }
        }

        func channelInactive(context: ChannelHandlerContext) { end(ChannelError.eof) }

        private func end(_ error: any Error) {
            reader.waiting.value?.first.fail(error)
            reader.waiting.value?.end.fail(error)
            reader.waiting.value = nil
        }
    }
}
