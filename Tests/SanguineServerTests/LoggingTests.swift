import Foundation
import Logging
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Logging", .bounded)
struct LoggingTests {
    private let sink: MemorySink
    private let queue: LogQueue

    init() {
        sink = MemorySink()
        queue = LogQueue(sink: sink, clock: FixedClock())
    }

    private func logger(level: Logger.Level = .info) -> Logger {
        Logger(label: "test") {
            JSONLogHandler(label: $0, level: level, queue: queue, clock: FixedClock())
        }
    }

    private func onlyLine() async throws -> JSONValue {
        await queue.flush(within: .seconds(30))
        try #require(sink.lines.count == 1)
        return try JSONDecoder().decode(JSONValue.self, from: Data(sink.lines[0].utf8))
    }

    @Test func `a line is a JSON object with time, level, message and flat metadata`()
        async throws
    {
        logger().warning(
            "Said \"no\"\n\u{1}é",
            metadata: ["user": ["id": "7", "tags": ["a", "b"]], "level": "x", "n": "\(3)"]
        )
        let line = try await onlyLine()
        #expect(line["time"] == .string(FixedClock().now().description))
        #expect(line["level"] == "warning")
        #expect(line["message"] == "Said \"no\"\n\u{1}é")
        #expect(line["label"] == "test")
        #expect(line["user.id"] == "7")
        #expect(line["user.tags.0"] == "a")
        #expect(line["user.tags.1"] == "b")
        #expect(line["metadata.level"] == "x")
        #expect(line["n"] == "3")
        #expect(line["truncated"] == nil)
    }

    @Test func `a line's own metadata overrides the logger's`() async throws {
        var logger = logger()
        logger[metadataKey: "a"] = "logger"
        logger[metadataKey: "b"] = "logger"
        logger.info("x", metadata: ["a": "line"])
        let line = try await onlyLine()
        #expect(line["a"] == "line")
        #expect(line["b"] == "logger")
    }

    @Test func `lines below the log level are not written`() async {
        logger(level: .error).warning("x")
        await queue.flush(within: .seconds(30))
        #expect(sink.lines.isEmpty)
    }

    @Test(arguments: [500, 5_000, 200_000])
    func `a long line is truncated and stays valid JSON`(length: Int) async throws {
        let long = String(repeating: "é\"\n", count: length / 3)
        let pairs = (1...50).map { ("name\($0)", Logger.MetadataValue.string(long)) }
        logger().error("\(long)", metadata: Dictionary(uniqueKeysWithValues: pairs))
        let line = try await onlyLine()
        #expect(sink.lines[0].utf8.count < JSONLogHandler.lineBytes)
        #expect(line["level"] == "error")
        #expect(line["truncated"] == true)
    }

    private func entry(_ number: Int) -> AccessLogEntry {
        AccessLogEntry(
            time: FixedClock().now(),
            method: "POST",
            route: "/v1/holds/{id}/capture",
            status: 200,
            duration: .microseconds(1_234),
            requestID: "r\(number)",
            requestBytes: 12,
            responseBytes: 345
        )
    }

    @Test func `an access log entry is one line of JSON without personal data`() throws {
        let text = String(decoding: entry(1).line(), as: UTF8.self)
        let time = FixedClock().now().description
        #expect(
            text == """
                {"time":"\(time)","type":"access","method":"POST",\
                "route":"/v1/holds/{id}/capture","status":200,"durationMs":1.234,\
                "requestId":"r1","requestBytes":12,"responseBytes":345}\n
                """
        )
    }

    @Test func `an entry with an oversized request id is truncated`() throws {
        var entry = entry(1)
        entry.requestID = String(repeating: "\u{0}", count: 100_000)
        let line = entry.line()
        #expect(line.count <= AccessLogEntry.lineBytes)
        let json = try JSONDecoder().decode(JSONValue.self, from: Data(line))
        #expect(json["truncated"] == true)
    }

    @Test func `a standard stream writes whole lines`() async throws {
        let pipe = Pipe()
        let stream = StandardStream(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        await withTaskGroup { group in
            for number in 1...8 {
                group.addTask {
                    stream.write(Array((String(repeating: "\(number)", count: 5_000) + "\n").utf8))
                }
            }
        }
        try pipe.fileHandleForWriting.close()
        let read = try pipe.fileHandleForReading.readToEnd()
        let text = String(decoding: try #require(read), as: UTF8.self)
        let lines = text.split(separator: "\n")
        #expect(lines.count == 8)
        #expect(lines.allSatisfy { Set($0).count == 1 && $0.count == 5_000 })
    }

    @Test(arguments: [
        (StorageError.failed("/data/disk"), "error"), (.unknownOutcome("/data/disk"), "critical"),
    ])
    func `a storage failure is logged once with its reason`(
        failure: StorageError,
        level: String
    ) async throws {
        try await LiveServer.with {
            $0.storage = FaultyStorage(failure)
            $0.logger = logger(level: .error)
        } _: { server in
            let reply = try await server.send("GET", "/health/ready")
            #expect(reply.status == 503)
        }
        let line = try await onlyLine()
        #expect(line["level"]?.string == level)
        #expect(line["reason"]?.string == "/data/disk")
    }

    @Test func `a lasting failure is logged once a minute`() {
        let clock = ManualClock()
        let recent = RecentFailures(clock: clock)
        #expect(recent.isNews(.failed("a")))
        #expect(!recent.isNews(.failed("a")))
        #expect(recent.isNews(.failed("b")) && recent.isNews(.full("a")))
        clock.advance(by: RecentFailures.pause - .milliseconds(1))
        #expect(!recent.isNews(.failed("a")))
        clock.advance(by: .milliseconds(1))
        #expect(recent.isNews(.failed("a")) && !recent.isNews(.failed("a")))
        for number in 0..<2 * RecentFailures.limit { _ = recent.isNews(.failed("\(number)")) }
        #expect(!recent.isNews(.failed("a")) && recent.isNews(.failed("another")))
        #expect(recent.isNews(.failed("another")))
    }

    @Test func `a busy storage is not logged as a failure`() async throws {
        try await LiveServer.with {
            $0.storage = FaultyStorage(.overloaded(retryAfterSeconds: 1))
            $0.logger = logger(level: .error)
        } _: { server in
            let reply = try await server.send("GET", "/health/ready")
            #expect(reply.status == 503)
        }
        await queue.flush(within: .seconds(30))
        #expect(sink.lines.isEmpty)
    }
}
