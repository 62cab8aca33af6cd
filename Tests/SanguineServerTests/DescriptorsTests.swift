import Logging
import Metrics
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import SanguineServer

@Suite("File descriptors", .bounded)
struct DescriptorsTests {
    @Test func `a high limit grants the requested connections`() throws {
        let shared = try Descriptors(limit: 65_536, connections: 20_000, upstream: 1_000)
        #expect((shared.connections, shared.upstream) == (20_000, 1_000))
    }

    @Test func `a low limit leaves connections what remains after the reserve`() throws {
        let shared = try Descriptors(limit: 1_024, connections: 20_000, upstream: 0)
        #expect((shared.connections, shared.upstream) == (1_024 - Descriptors.reserve, 0))
    }

    @Test func `the upstream gets at most a quarter of the descriptors`() throws {
        let limit = Descriptors.reserve + 832
        let shared = try Descriptors(limit: limit, connections: 20_000, upstream: 1_000)
        #expect(shared.upstream == 208)
        #expect(shared.connections == 624)
        let modest = try Descriptors(limit: limit, connections: 100, upstream: 50)
        #expect((modest.connections, modest.upstream) == (100, 50))
    }

    @Test func `a limit that is too low is refused with the lowest that is enough`() throws {
        let least = Descriptors.reserve + 16
        #expect(try Descriptors(limit: least, connections: 20_000, upstream: 0).connections == 16)
        let error = #expect(throws: Descriptors.TooFew.self) {
            try Descriptors(limit: least - 1, connections: 1, upstream: 0)
        }
        #expect(error?.description.contains("\(least) or more") == true)
    }

    @Test func `the reserve covers twice the connections of the admin port`() {
        #expect(Descriptors.reserve >= 2 * Descriptors.adminConnections)
    }

    @Test func `each failure to accept is counted, and logged once a minute`() async throws {
        let sink = MemorySink()
        let log = LogQueue(sink: sink)
        let registry = OpenMetricsRegistry()
        let channel = EmbeddedChannel()
        let watch = AcceptErrorLogger(
            logger: Logger(label: "test") { JSONLogHandler(label: $0, queue: log) },
            failures: Counter(label: "accept_failures", factory: registry)
        )
        try channel.pipeline.syncOperations.addHandler(watch)
        let failure = IOError(errnoCode: 24, reason: "accept")
        func fail() {
            channel.pipeline.fireErrorCaught(failure)
            #expect(throws: IOError.self) { try channel.throwIfErrorCaught() }
        }
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        for _ in 1...5 { fail() }
        channel.embeddedEventLoop.advanceTime(by: .seconds(59))
        fail()
        #expect(await log.flush(within: .seconds(30)))
        #expect(sink.lines.count == 1)
        #expect(sink.lines.first?.contains("Raise the limit on open files") == true)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        fail()
        #expect(await log.flush(within: .seconds(30)))
        #expect(sink.lines.count == 2)
        #expect(registry.render().contains("accept_failures_total 7\n"))
        _ = try? channel.finish()
    }
}
