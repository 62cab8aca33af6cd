import Foundation
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Transport streams", .bounded)
struct TransportStreamTests {
    private let cancelled = Counter()

    private final class Counter: Sendable {
        let count = Mutex(0)
    }

    private func stream(limitBytes: Int = 100) -> TransportStream {
        TransportStream(
            response: TransportResponse(status: 200),
            limitBytes: limitBytes
        ) { [cancelled] in
            cancelled.count.withLock { $0 += 1 }
        }
    }

    private var cancellations: Int { cancelled.count.withLock { $0 } }

    @Test func `available bytes are read at once, and then the end`() async throws {
        let stream = stream()
        stream.receive(Data("a".utf8))
        stream.receive(Data("b".utf8))
        stream.finish()
        #expect(try await stream.next() == Data("ab".utf8))
        #expect(try await stream.next() == nil)
        #expect(try await stream.next() == nil)
        #expect(cancellations == 0)
    }

    @Test func `a reader waits for bytes to arrive`() async throws {
        let stream = stream()
        async let bytes = stream.next()
        stream.receive(Data("a".utf8))
        #expect(try await bytes == Data("a".utf8))
    }

    @Test func `an interrupted body is an error, not an end`() async throws {
        let stream = stream()
        stream.finish(.interrupted("test"))
        await #expect(throws: TransportError.interrupted("test")) { try await stream.next() }
    }

    @Test func `exceeding the limit cancels the exchange`() async throws {
        let stream = stream(limitBytes: 3)
        stream.receive(Data("abc".utf8))
        #expect(cancellations == 0)
        stream.receive(Data("d".utf8))
        #expect(cancellations == 1)
        await #expect(throws: TransportError.bodyTooLarge(limitBytes: 3)) {
            try await stream.next()
        }
    }

    @Test func `a cancelled reader cancels the exchange`() async throws {
        let stream = stream()
        let reader = Task { try await stream.next() }
        reader.cancel()
        await #expect(throws: TransportError.cancelled) { try await reader.finished() }
        #expect(cancellations == 1)
    }

    @Test func `releasing a stream cancels the exchange`() {
        do { _ = stream() }
        #expect(cancellations == 1)
    }

    @Test func `a sender waits until the reader has read the available bytes`() async throws {
        let stream = stream()
        let room = stream.demand
        await room.wait()
        stream.receive(Data("a".utf8))
        let isTaken = WatchedState(false)
        let waiting = Task { () -> Bool in
            await room.wait()
            return isTaken.withLock { $0 }
        }
        isTaken.withLock { $0 = true }
        #expect(try await stream.next() == Data("a".utf8))
        #expect(try await waiting.finished())
    }

    @Test func `a sender that waits is released with the stream or by cancellation`() async throws {
        var stream: TransportStream? = stream()
        let room = try #require(stream?.demand)
        stream?.receive(Data("a".utf8))
        let cancelled = Task { await room.wait() }
        cancelled.cancel()
        try await cancelled.finished()
        let waiting = Task { await room.wait() }
        stream = nil
        try await waiting.finished()
    }
}

@Suite("URLSession streams", .bounded)
struct URLSessionStreamTests {
    private let server: LoopbackServer

    init() throws { server = try LoopbackServer() }

    @Test func `a body is read while it arrives, to its end`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let stream = try await transport.stream(TransportRequest(url: server.url("/chunked/9000")))
        #expect(stream.response.status == 200)
        var count = 0
        while let bytes = try await stream.next() { count += bytes.count }
        #expect(count == 9_000)
    }

    @Test func `a body that breaks off is an error`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let stream = try await transport.stream(TransportRequest(url: server.url("/half")))
        await #expect(throws: TransportError.self) {
            while try await stream.next() != nil {}
        }
    }

    @Test func `an unreachable server is an error`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        server.stop()
        await #expect(throws: TransportError.self) {
            try await transport.stream(TransportRequest(url: server.url("/hello")))
        }
    }

    @Test func `a silent server times out, and cancelling the caller ends the request`()
        async throws
    {
        let transport = URLSessionTransport()
        defer { transport.close() }
        var request = TransportRequest(url: server.url("/silent"))
        request.timeout = .milliseconds(50)
        let hasty = request
        await #expect(throws: TransportError.timedOut) { try await transport.stream(hasty) }
        request.timeout = .seconds(60)
        let patient = request
        let caller = Task { try await transport.stream(patient) }
        caller.cancel()
        await #expect(throws: TransportError.cancelled) { try await caller.finished() }
    }

    @Test func `a closed transport ends its streams and opens no others`() async throws {
        let transport = URLSessionTransport()
        let request = TransportRequest(url: server.url("/silent"))
        let waiting = Task { try await transport.stream(request) }
        try await server.waitForRequests(1)
        transport.close()
        await #expect(throws: TransportError.cancelled) { try await waiting.finished() }
        await #expect(throws: TransportError.cancelled) { try await transport.stream(request) }
    }
}
