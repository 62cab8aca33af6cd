import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Live feed", .bounded)
struct LiveFeedTests {
    private let network = ScriptedStreams()
    private let delay = ManualClock()
    private let lifecycle = ManualLifecycle()
    private let connectivity = ManualConnectivity()
    private let user = TestUser()
    private let seen = Seen()

    private func feed() -> LiveFeed {
        LiveFeed(
            call: ServerCall(
                server: URL(string: "http://sanguine.test"),
                exchange: Exchange(transport: network, clock: ManualWallClock()),
                authorizer: user
            ),
            environment: LiveFeed.Environment(
                lifecycle: lifecycle,
                connectivity: connectivity,
                delay: delay,
                random: RandomSource(SplitMix64(seed: 1))
            ),
            handlers: LiveFeed.Handlers(
                position: { [seen] in seen.position.map { FeedMark(number: $0) } },
                receive: { [seen] batch in
                    seen.note("batch \(batch.since)-\(batch.next)")
                    seen.position = batch.next
                },
                pull: { [seen] in seen.note("pull") },
                setLive: { [seen] in seen.note($0 ? "live" : "polled") },
                lists: PublishedLists(
                    shown: { [seen] in seen.lists },
                    changed: { [seen] in seen.note("changed \($0.sorted())") }
                )
            )
        )
    }

    /// Advances the clock until the feed opens another stream.
    private func reconnect(line: Int = #line) async throws {
        let before = network.requests.count
        try await eventually("another request is sent", line: line) {
            if network.requests.count == before { delay.advance(by: .milliseconds(100)) }
            return network.requests.count > before
        }
    }

    private func change(_ seq: Int64, head: Int64) -> String {
        """
        event: change\nid: \(seq)\ndata: {"collection":"notes","deleted":false,"head":\(head),\
        "id":"n\(seq)","seq":\(seq),"through":\(seq),"value":{}}\n\n
        """
    }

    @Test func `changes arrive as batches after the position where the last pull ended`()
        async throws
    {
        let feed = feed()
        feed.start()
        let stream = try await network.open()
        #expect(network.queries == ["since=7"])
        #expect(network.requests[0].headers["Accept"] == "text/event-stream")
        #expect(network.requests[0].headers["Authorization"] == "Bearer token-0-0")
        stream.receive(Data("retry: 2000\n\n\(change(8, head: 9))".utf8))
        stream.receive(Data(change(9, head: 9).utf8))
        try await seen.wait(for: "batch 7-9")
        #expect(seen.notes == ["live", "batch 7-9"])
        feed.close()
    }

    @Test func `a connection names the shown collections, and is replaced to follow another one`()
        async throws
    {
        let feed = feed()
        seen.lists = ["posts"]
        feed.start()
        let stream = try await network.open()
        #expect(network.queries == ["since=7&lists=posts"])
        let note = "event: list\ndata: {\"collection\":\"posts\"}\n\n"
        stream.receive(Data(note.utf8))
        try await seen.wait(for: #"changed ["posts"]"#)
        // A collection that is no longer shown needs no other connection.
        seen.lists = []
        feed.followLists()
        seen.lists = ["posts", "likes"]
        feed.followLists()
        _ = try await network.open()
        try await network.waitForCancelled(1)
        #expect(network.requests.count == 2)
        #expect(network.queries.last?.contains("likes") == true)
        // The gap may have hidden a change of the list that was followed before.
        try await seen.wait(for: #"changed ["posts"]"#, times: 2)
        #expect(!seen.notes.contains("polled"))
        feed.close()
    }

    @Test(arguments: [true, false])
    func `a list that waited long for its first connection is refreshed when it opens`(
        isLong: Bool
    ) async throws {
        let feed = feed()
        seen.position = nil
        seen.lists = ["posts"]
        feed.start()
        try await delay.waitForSleepers(1)
        delay.advance(by: FeedLimits.listGap + (isLong ? .seconds(1) : .zero))
        seen.position = 7
        feed.pulled()
        let stream = try await network.open()
        stream.receive(Data(change(8, head: 8).utf8))
        try await seen.wait(for: "batch 7-8")
        #expect(seen.notes.contains(#"changed ["posts"]"#) == isLong)
        feed.close()
    }

    @Test func `a connection that ends is reopened after the last batch`() async throws {
        let feed = feed()
        feed.start()
        let stream = try await network.open()
        stream.receive(Data("retry: 4000\n\n\(change(8, head: 8))".utf8))
        try await seen.wait(for: "batch 7-8")
        stream.finish()
        try await reconnect()
        _ = try await network.open()
        #expect(network.queries == ["since=7", "since=8"])
        #expect(!seen.notes.contains("polled"))
        feed.close()
    }

    @Test func `the first connection opens without a delay when the first pull has ended`()
        async throws
    {
        seen.position = nil
        let feed = feed()
        feed.start()
        try await delay.waitForSleepers(1)
        #expect(network.requests.isEmpty)
        seen.position = 7
        feed.pulled()
        _ = try await network.open()
        #expect(network.queries == ["since=7"] && !seen.notes.contains("pull"))
        feed.close()
    }

    @Test func `a reset triggers a pull`() async throws {
        let feed = feed()
        feed.start()
        let stream = try await network.open()
        stream.receive(Data("event: reset\nid: 0\ndata: {}\n\n\(change(1, head: 9))".utf8))
        try await seen.wait(for: "pull")
        #expect(seen.notes == ["live", "pull"])
        feed.close()
    }

    @Test func `a feed without a starting position for too long pulls`() async throws {
        seen.position = nil
        let feed = feed()
        feed.start()
        try await delay.waitForSleepers(1)
        #expect(seen.notes.isEmpty)
        // The first wait may be another one.
        try await delay.advancing { [seen] in try await seen.wait(for: "pull") }
        #expect(network.requests.isEmpty)
        feed.close()
    }

    @Test func `silence for two and a half pings ends a connection`() async throws {
        let feed = feed()
        feed.start()
        let stream = try await network.open()
        try await delay.waitForSleepers(1)
        delay.advance(by: .seconds(49))
        stream.receive(Data(": ping\n\n\(change(8, head: 8))".utf8))
        try await seen.wait(for: "batch 7-8")
        try await delay.waitForSleepers(1)
        delay.advance(by: .seconds(49))
        #expect(network.cancelled == 0)
        delay.advance(by: .seconds(1))
        try await network.waitForCancelled(1)
        try await reconnect()
        _ = try await network.open()
        #expect(network.queries == ["since=7", "since=8"])
        feed.close()
    }

    @Test func `the connection closes in the background and reopens in the foreground`()
        async throws
    {
        let feed = feed()
        feed.start()
        _ = try await network.open()
        lifecycle.enterBackground()
        try await network.waitForCancelled(1)
        lifecycle.enterForeground()
        _ = try await network.open()
        #expect(network.requests.count == 2)
        feed.close()
        try await network.waitForCancelled(2)
    }

    @Test func `after three failures the feed is polled, and it is live again when possible`()
        async throws
    {
        let feed = feed()
        feed.start()
        let stream = try await network.open()
        try await seen.wait(for: "live")
        stream.cancel(.interrupted("test"))
        for _ in 0..<2 {
            try await reconnect()
            try await network.fail(.offline("test"))
        }
        try await seen.wait(for: "polled")
        try await reconnect()
        _ = try await network.open()
        try await seen.wait(for: "live", times: 2)
        #expect(seen.notes == ["live", "polled", "live"])
        feed.close()
    }

    @Test func `an expired token is refreshed`() async throws {
        let feed = feed()
        feed.start()
        let problem = try JSONEncoder().encode(Problem(.tokenExpired, "Refresh it."))
        let refused = try await network.open(status: 401)
        refused.receive(problem)
        refused.finish()
        let stream = try await network.open()
        stream.receive(Data(change(8, head: 8).utf8))
        try await seen.wait(for: "batch 7-8")
        #expect(network.requests[1].headers["Authorization"] == "Bearer token-0-1")
        feed.close()
    }

    @Test func `data for a user who has left is not forwarded`() async throws {
        let feed = feed()
        feed.start()
        let stream = try await network.open()
        try await seen.wait(for: "live")
        _ = user.end(.userChanged)
        stream.receive(Data(change(8, head: 8).utf8))
        try await network.waitForCancelled(1)
        #expect(seen.notes == ["live"])
        feed.close()
    }
}

/// The events that the handlers received.
private final class Seen: Sendable {
    private struct State {
        var position: Int64? = 7
        var notes: [String] = []
        var lists: Set<String> = []
    }

    private let state = WatchedState(State())

    var lists: Set<String> {
        get { state.value.lists }
        set { state.withLock { $0.lists = newValue } }
    }
    var position: Int64? {
        get { state.value.position }
        set { state.withLock { $0.position = newValue } }
    }
    var notes: [String] { state.value.notes }

    func note(_ note: String) { state.withLock { $0.notes.append(note) } }

    func wait(for note: String, times: Int = 1, line: Int = #line) async throws {
        try await state.wait(
            for: "\(times) times '\(note)'",
            found: { "the notes are \($0.notes)" },
            line: line
        ) {
            $0.notes.count { $0 == note } >= times
        }
    }
}

/// A network on which a test opens and fails streams one after another.
private final class ScriptedStreams: StreamingTransport {
    private struct State {
        var requests: [TransportRequest] = []
        /// The answers to the requests, in order.
        var answers: [Result<TransportStream, TransportError>] = []
        var cancelled = 0
    }

    private let state = WatchedState(State())

    var requests: [TransportRequest] { state.value.requests }
    var queries: [String] { requests.compactMap { $0.url.query() } }
    var cancelled: Int { state.value.cancelled }

    func waitForCancelled(_ count: Int, line: Int = #line) async throws {
        try await state.wait(for: "\(count) cancelled streams", line: line) {
            $0.cancelled >= count
        }
    }

    /// Waits for a request and answers it with a stream that the test controls.
    func open(status: Int = 200, line: Int = #line) async throws -> TransportStream {
        let stream = TransportStream(response: TransportResponse(status: status)) { [self] in
            state.withLock { $0.cancelled += 1 }
        }
        try await answer(.success(stream), line)
        return stream
    }

    func fail(_ error: TransportError, line: Int = #line) async throws {
        try await answer(.failure(error), line)
    }

    private func answer(
        _ result: Result<TransportStream, TransportError>,
        _ line: Int
    ) async throws {
        try await state.wait(for: "a request for a stream", line: line) {
            $0.requests.count > $0.answers.count
        }
        state.withLock { $0.answers.append(result) }
    }

    func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        let index = state.withLock { state in
            state.requests.append(request)
            return state.requests.count - 1
        }
        do {
            try await state.wait(for: "an answer", within: TestingLimits.longestWait) {
                $0.answers.count > index
            }
        } catch {
            throw .cancelled
        }
        return try state.value.answers[index].get()
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        throw .offline("only streams")
    }
}
