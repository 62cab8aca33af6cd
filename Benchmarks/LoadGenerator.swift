import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// Sends requests over keep-alive connections as fast as they are answered, and counts.
///
/// Each connection has one request under way. Bytes are written as they are given and answers are
/// only measured for their length, so that the generator costs as little as it can: server and
/// generator share the machine.
struct LoadGenerator {
    /// What a connection sends next.
    typealias Request = @Sendable (_ connection: Int, _ number: Int) -> String

    let port: Int
    let connections: Int
    let group: any EventLoopGroup
    /// From where requests come.
    var address = "127.0.0.1"
    /// How long each connection waits between an answer and the next request; `nil` for not at all.
    var pace: TimeAmount?

    /// The processor time that this process has used, in microseconds.
    private static var processorTime: Double {
        Double(clock())  // POSIX counts it in millionths of a second.
    }

    /// What came of a run.
    struct Outcome {
        var answered: Int
        var failed: Int
        var perSecond: Double
        /// Processor time of the whole process for one answer, in microseconds.
        ///
        /// The server's and the generator's. What else runs on the machine changes it little.
        var processorTime: Double
        /// How long each answer took, in milliseconds, the shortest first.
        var latencies: [Double]

        /// The latency below which so many of a hundred are; infinite where nothing was answered.
        func percentile(_ part: Int) -> Double {
            latencies.isEmpty
                ? .infinity : latencies[min(latencies.count - 1, latencies.count * part / 100)]
        }
    }

    /// Runs for the time, after which answers under way are not waited for.
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
                            Exchange(expecting: status, counter: counter, pace: pace) { number in
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
        let before = counters.reduce(0) { $0 + $1.answered.load(ordering: .relaxed) }
        for counter in counters { counter.latencies.withLock { $0 = [] } }
        try await clock.sleep(for: time)
        let answered = counters.reduce(0) { $0 + $1.answered.load(ordering: .relaxed) } - before
        let seconds = start.duration(to: clock.now) / .seconds(1)
        let spentTime = Self.processorTime
        for channel in channels { try? await channel.close() }
        return Outcome(
            answered: answered,
            failed: counters.reduce(0) { $0 + $1.failed.load(ordering: .relaxed) },
            perSecond: Double(answered) / seconds,
            processorTime: (spentTime - startTime) / Double(max(1, answered)),
            latencies: counters.flatMap { $0.latencies.withLock { $0 } }.sorted()
        )
    }

    /// Counts of one connection; written by its event loop, read by the run.
    private final class Counter: Sendable {
        let answered = Atomic(0)
        let failed = Atomic(0)
        let latencies = Mutex<[Double]>([])
    }

    /// One connection: sends, waits for the whole answer, sends again.
    private final class Exchange: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let expected: [UInt8]
        private let counter: Counter
        private let next: (Int) -> String
        private let pace: TimeAmount?
        private var number = 0
        private var received = ByteBuffer()
        private var sent = NIODeadline.now()

        init(
            expecting status: String,
            counter: Counter,
            pace: TimeAmount?,
            next: @escaping (Int) -> String
        ) {
            expected = Array("HTTP/1.1 \(status)".utf8)
            self.counter = counter
            self.pace = pace
            self.next = next
        }

        func channelActive(context: ChannelHandlerContext) { send(context) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            received.writeBuffer(&bytes)
            guard let length = answerLength(), received.readableBytes >= length else { return }
            if received.readableBytesView.starts(with: expected) {
                counter.answered.add(1, ordering: .relaxed)
            } else {
                counter.failed.add(1, ordering: .relaxed)
            }
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

        /// The bytes of head and body, or `nil` while the head is not whole.
        private func answerLength() -> Int? {
            received.withUnsafeReadableBytes { bytes -> Int? in
                var lineStart = 0
                var bodyLength = 0
                var index = 0
                while index + 1 < bytes.count {
                    guard bytes[index] == 13, bytes[index + 1] == 10 else {
                        index += 1
                        continue
                    }
                    if index == lineStart { return index + 2 + bodyLength }
                    if let length = Self.contentLength(bytes[lineStart..<index]) {
                        bodyLength = length
                    }
                    index += 2
                    lineStart = index
                }
                return nil
            }
        }

        private static let name = Array("content-length:".utf8)

        private static func contentLength(_ line: Slice<UnsafeRawBufferPointer>) -> Int? {
            guard line.count > name.count,
                zip(line, name).allSatisfy({ $0 | 0x20 == $1 | 0x20 })
            else { return nil }
            return line.dropFirst(name.count).reduce(0) { sum, byte in
                (48...57).contains(byte) ? sum * 10 + Int(byte - 48) : sum
            }
        }
    }
}
