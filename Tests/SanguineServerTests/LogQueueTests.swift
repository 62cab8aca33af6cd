import Dispatch
import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// A sink that keeps its lines and, with a gate, makes the writer wait there.
final class MemorySink: LogSink {
    let writes: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    private let bytes = Mutex<[UInt8]>([])
    private let gate: DispatchSemaphore?

    init(gate: DispatchSemaphore? = nil) {
        self.gate = gate
        (writes, continuation) = AsyncStream.makeStream()
    }

    var lines: [String] {
        String(decoding: bytes.withLock { $0 }, as: UTF8.self).split(separator: "\n")
            .map { String($0) }
    }

    func write(_ lines: [UInt8]) {
        continuation.yield()
        _ = gate?.wait(timeout: .now() + 30)
        bytes.withLock { $0 += lines }
    }
}

struct FixedClock: WallClock {
    func now() -> Timestamp { Timestamp(millisecondsSince1970: 1_795_288_719_250) }
}

@Suite("Log queue", .bounded)
struct LogQueueTests {
    private func line(_ number: Int) -> [UInt8] { Array("line \(number)\n".utf8) }

    private func entry(_ number: Int) -> AccessLogEntry {
        AccessLogEntry(
            time: FixedClock().now(),
            method: "GET",
            route: "/v1/me",
            status: 200,
            duration: .microseconds(1_234),
            requestID: "r\(number)",
            requestBytes: 12,
            responseBytes: 345
        )
    }

    @Test func `lines and entries are written in order, and a flush waits for them`() async {
        let sink = MemorySink()
        let log = LogQueue(sink: sink)
        for number in 1...500 {
            log.append(line(number))
            log.append(entry(number))
        }
        #expect(await log.flush(within: .seconds(30)))
        #expect(sink.lines.count == 1_000)
        #expect(sink.lines.first == "line 1")
        #expect(sink.lines.last?.contains("\"r500\"") == true)
        #expect(log.dropped == 0)
    }

    @Test func `a blocked sink drops lines and counts them without blocking callers`()
        async throws
    {
        let gate = DispatchSemaphore(value: 0)
        let sink = MemorySink(gate: gate)
        let log = LogQueue(sink: sink, limitBytes: 100, clock: FixedClock())
        log.append(line(0))
        try await sink.writes.first("a write")
        // The writer waits at the gate. A line has 7 bytes, and the first one still counts.
        for number in 1...9 { log.append(line(number)) }
        for number in 1...9 { log.append(line(number)) }
        #expect(log.dropped == 5)
        for _ in 1...100 { gate.signal() }
        #expect(await log.flush(within: .seconds(30)))
        #expect(sink.lines.count == 15)
        let said = try #require(sink.lines.last)
        #expect(said == #"{"time":"\#(FixedClock().now())","type":"linesDropped","count":5}"#)
        log.append(line(11))
        #expect(await log.flush(within: .seconds(30)))
        #expect(sink.lines.last == "line 11")
        #expect(log.dropped == 5)
    }

    @Test func `access entries leave an eighth of the queue to other lines`() async throws {
        let gate = DispatchSemaphore(value: 0)
        let sink = MemorySink(gate: gate)
        let log = LogQueue(sink: sink, limitBytes: 8 * AccessLogEntry.lineBytes)
        log.append(entry(0))
        try await sink.writes.first("a write")
        for number in 1...20 { log.append(entry(number)) }
        #expect(log.dropped == 14)
        log.append(line(1))
        #expect(log.dropped == 14)
        for _ in 1...100 { gate.signal() }
        #expect(await log.flush(within: .seconds(30)))
        #expect(sink.lines.contains("line 1"))
    }

    @Test func `a flush gives up on a blocked sink after its timeout`() async throws {
        let gate = DispatchSemaphore(value: 0)
        defer { gate.signal() }
        let sink = MemorySink(gate: gate)
        let log = LogQueue(sink: sink)
        log.append(line(1))
        try await sink.writes.first("a write")
        let clock = ManualClock()
        let flush = Task { await log.flush(within: .seconds(1), delay: clock) }
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1))
        #expect(try await flush.finished() == false)
    }

    @Test func `dropped lines are a metric`() async throws {
        let gate = DispatchSemaphore(value: 0)
        let sink = MemorySink(gate: gate)
        let log = LogQueue(sink: sink, limitBytes: 10)
        log.append(line(0))
        try await sink.writes.first("a write")
        for number in 1...3 { log.append(line(number)) }
        try await LiveServer.with {
            $0.log = log
        } _: { server in
            let metrics = try await server.send("GET", "/metrics", toAdmin: true)
            #expect(metrics.body.contains("log_dropped_lines_total 3\n"))
        }
        for _ in 1...100 { gate.signal() }
    }

    @Test func `a non-blocking pipe that is read late still gets every line`()
        async throws
    {
        let pipe = Pipe()
        let descriptor = pipe.fileHandleForWriting.fileDescriptor
        #expect(fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0)
        let log = LogQueue(sink: StandardStream(descriptor: descriptor))
        // Four times the capacity of a pipe.
        let text = String(repeating: "x", count: 1_023) + "\n"
        for _ in 1...256 { log.append(Array(text.utf8)) }
        let read = Task.detached {
            var bytes = 0
            while bytes < 256 * 1_024 {
                bytes += pipe.fileHandleForReading.availableData.count
            }
            return bytes
        }
        #expect(try await read.finished() == 256 * 1_024)
        #expect(log.dropped == 0)
    }
}
