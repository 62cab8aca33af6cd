import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// Sends requests over keep-alive connections as fast as they are answered, and counts the
/// responses.
///
/// Each connection has one request at a time. Only the length of a response is parsed, so that the
/// generator costs little, because it shares the machine with the server.
struct LoadGenerator {
    /// Returns the next request of a connection.
    typealias Request = @Sendable (_ connection: Int, _ number: Int) -> String

    let port: Int
    let connections: Int
    let group: any EventLoopGroup
    /// The address from which requests are sent.
    var address = "127.0.0.1"
    /// The pause of each connection between a response and the next request, or `nil` for none.
    var pace: TimeAmount?
    /// Receives each response as text, for requests that depend on the previous response.
    var onResponse: (@Sendable (_ connection: Int, _ response: String) -> Void)?
    /// The server's process, if its processor time is measured and it is not this process.
    var server: Int32?

    /// The processor time that this process has used, in microseconds.
    private static var processorTime: Double {
        Double(clock())  // POSIX counts it in millionths of a second.
    }

    /// The result of a run.
    struct Outcome {
        var answered: Int
        var failed: Int
        var perSecond: Double
        /// The processor time of this process per response, in microseconds.
        ///
        /// It includes the server's and the generator's, and other load on the machine changes it
        /// little.
        var processorTime: Double
        /// The processor time of the server's process per response, in microseconds, or NaN if it
        /// is not measured.
        var serverTime: Double
        /// The latency of each response in milliseconds, in ascending order.
        var latencies: [Double]

        /// Returns the latency at a percentile, or infinity without responses.
        func percentile(_ part: Int) -> Double {
            latencies.isEmpty
                ? .infinity : latencies[min(latencies.count - 1, latencies.count * part / 100)]
        }
    }

    /// Runs for the given time, without waiting for outstanding responses.
    func run(
        for time: Duration,
        expecting status: String,
        _ request: @escaping Request
    ) async throws
        -> Outcome
    {
        let counters = (0..<connections).map { _ in Counter() }
        var channels: [any Channel] = []
        for connection in 0..<connections {
            let counter = counters[connection]
            let channel = try await ClientBootstrap(group: group)
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .bind(to: SocketAddress(ipAddress: address, port: 0))
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(
                            Exchange(
                                expecting: status,
                                counter: counter,
                                pace: pace,
                                onResponse: onResponse.map { observe in
                                    { observe(connection, $0) }
                                }
                            ) { number in
                                request(connection, number)
                            }
                        )
                    }
                }
                .connect(host: "127.0.0.1", port: port)
                .get()
            channels.append(channel)
        }
        let clock = ContinuousClock()
        let start = clock.now
        let startTime = Self.processorTime
        let serverStart = try server.map { try ProcessorTime.microseconds(of: $0) } ?? .nan
        let before = counters.reduce(0) { $0 + $1.answered.load(ordering: .relaxed) }
        for counter in counters { counter.latencies.withLock { $0 = [] } }
        try await clock.sleep(for: time)
        let answered = counters.reduce(0) { $0 + $1.answered.load(ordering: .relaxed) } - before
        let seconds = start.duration(to: clock.now) / .seconds(1)
        let spentTime = Self.processorTime
        let serverEnd = try server.map { try ProcessorTime.microseconds(of: $0) } ?? .nan
        for channel in channels { try? await channel.close() }
        return Outcome(
            answered: answered,
            failed: counters.reduce(0) { $0 + $1.failed.load(ordering: .relaxed) },
            perSecond: Double(answered) / seconds,
            processorTime: (spentTime - startTime) / Double(max(1, answered)),
            serverTime: (serverEnd - serverStart) / Double(max(1, answered)),
            latencies: counters.flatMap { $0.latencies.withLock { $0 } }.sorted()
        )
    }

    /// The counts of one connection, written by its event loop and read by the run.
    private final class Counter: Sendable {
        let answered = Atomic(0)
        let failed = Atomic(0)
        let latencies = Mutex<[Double]>([])
    }

    /// One connection, which sends a request, waits for the whole response, and repeats.
    private final class Exchange: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let expected: [UInt8]
        private let counter: Counter
        private let next: (Int) -> String
        private let pace: TimeAmount?
        private let onResponse: ((String) -> Void)?
        private var number = 0
        private var received = ByteBuffer()
        private var sent = NIODeadline.now()

        init(
            expecting status: String,
            counter: Counter,
            pace: TimeAmount?,
            onResponse: ((String) -> Void)?,
            next: @escaping (Int) -> String
        ) {
            expected = Array("HTTP/1.1 \(status)".utf8)
            self.counter = counter
            self.pace = pace
            self.onResponse = onResponse
            self.next = next
        }

        func channelActive(context: ChannelHandlerContext) { send(context) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            received.writeBuffer(&bytes)
            guard let length = received.messageLength, received.readableBytes >= length else {
                return
            }
            if received.readableBytesView.starts(with: expected) {
                counter.answered.add(1, ordering: .relaxed)
            } else {
                counter.failed.add(1, ordering: .relaxed)
            }
            if let onResponse { onResponse(String(buffer: received)) }
            received.clear()
            let took = Double((NIODeadline.now() - sent).nanoseconds) / 1_000_000
            counter.latencies.withLock { $0.append(took) }
            guard let pace else { return send(context) }
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.eventLoop.scheduleTask(in: pace) {
                let (exchange, context) = bound.value
                exchange.send(context)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }

        private func send(_ context: ChannelHandlerContext) {
            let request = next(number)
            number += 1
            sent = .now()
            let bytes = context.channel.allocator.buffer(string: request)
            context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        }
    }
}
