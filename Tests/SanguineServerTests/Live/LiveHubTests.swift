import NIOCore
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Live hub", .bounded)
struct LiveHubTests {
    /// The sessions that have ended.
    private final class Ended: Sendable {
        let sessions = Mutex<Set<Identifier>>([])
    }

    private let feed = ScriptedFeed()
    private let wall = ManualWallClock()
    private let delay = ManualClock()
    private let ended = Ended()
    private let registry = OpenMetricsRegistry()
    private let account = Identifier.new()

    private func hub(
        perAccount: Int = 4,
        total: Int = 8,
        wokenAtOnce: Int = LiveLimits.accountsWokenAtOnce
    ) -> LiveHub {
        LiveHub(
            feed: feed,
            limits: LiveHub.Limits(
                perAccount: perAccount,
                total: total,
                pingInterval: .seconds(20),
                writeTimeout: .seconds(30),
                accountsWokenAtOnce: wokenAtOnce
            ),
            clock: wall,
            delay: delay,
            metrics: registry
        ) { [ended] pass in
            ended.sessions.withLock { !$0.contains(pass.identity.session) }
        }
    }

    private func admit(
        to hub: LiveHub,
        account: Identifier? = nil,
        session: Identifier = Identifier.new(),
        after number: Int64 = 0,
        following lists: Set<String> = []
    ) throws -> Admitted {
        let identity = Identity(account: account ?? self.account, session: session)
        let pass = AccessPass(identity: identity, expiresAt: wall.now() + .seconds(900))
        let position = FeedPosition(number: number)
        let text = WrittenText()
        let connection = try hub.admit(
            pass,
            at: position,
            following: lists,
            writing: text,
            from: identity.account.description
        )
        return Admitted(hub: hub, connection: connection, text: text)
    }

    /// An admitted connection and its output.
    private struct Admitted {
        let hub: LiveHub
        let connection: LiveConnection
        let text: WrittenText
    }

    /// Starts a connection; the task ends when the connection is closed.
    private func run(_ admitted: Admitted) -> (Task<Void, any Error>, WrittenText) {
        let (hub, connection, text) = (admitted.hub, admitted.connection, admitted.text)
        let task = Task {
            try await hub.start(connection)
            try await text.waitForClose()
        }
        return (task, text)
    }

    @Test func `connections at the same position share one read`() async throws {
        let hub = hub()
        feed.hold()
        let streams = try (0..<3).map { _ in run(try admit(to: hub)) }
        for (_, text) in streams { try await text.wait(for: "retry: 2000\n\n") }
        feed.commit(2)
        feed.release()
        for (_, text) in streams { try await text.wait(for: "id: 2\n") }
        #expect(feed.reads <= 3)
        let before = feed.reads
        hub.committed(account, head: feed.commit())
        for (_, text) in streams { try await text.wait(for: "id: 3\n") }
        #expect(feed.reads == before + 1)
        hub.stop()
        for (task, _) in streams { try await task.finished() }
    }

    @Test func `a read that began before a commit does not serve readers that know the commit`()
        async throws
    {
        let account = LiveAccount(account, feed: feed)
        feed.hold(answering: .asOfTheirBeginning)
        async let older = account.page(after: FeedPosition(number: 0))
        try await feed.wait(forReads: 1)
        account.committed(feed.commit())
        async let newer = account.page(after: FeedPosition(number: 0))
        try await feed.wait(forReads: 2)
        feed.release()
        let pages = try await (older, newer)
        #expect(pages.0.next.number == 0 && pages.1.next.number == 1)
    }

    @Test func `commits during reads and writes deliver each change once, in order`() async throws {
        let hub = hub()
        let (task, text) = run(try admit(to: hub))
        for _ in 0..<200 { hub.committed(account, head: feed.commit()) }
        try await text.wait(for: "id: 200\n")
        #expect(text.numbers == Array(1...200))
        hub.stop()
        try await task.finished()
    }

    @Test func `an operation with many records is delivered whole regardless of the page size`()
        async throws
    {
        let hub = hub()
        feed.commit(200)
        feed.commit(200)
        let (task, text) = run(try admit(to: hub))
        try await text.wait(for: "id: 400\n")
        #expect(text.numbers == Array(1...400))
        hub.stop()
        try await task.finished()
    }

    @Test func `connections are limited per account and in total`() async throws {
        let hub = hub(perAccount: 2, total: 3)
        var streams = [try admit(to: hub), try admit(to: hub)]
        let own = #expect(throws: Problem.self) { try admit(to: hub) }
        #expect(own?.code == .rateLimited)
        #expect(own?.retryAfter != nil)
        streams.append(try admit(to: hub, account: Identifier.new()))
        let all = #expect(throws: Problem.self) { try admit(to: hub, account: Identifier.new()) }
        #expect(all?.code == .overloaded)
        #expect(all?.retryAfter != nil)
        #expect(hub.count == 3)
        #expect(registry.render().contains("\nlive_connections 3"))
        // A stream that never wrote an event is no longer counted either.
        streams = []
        #expect(hub.count == 0)
        #expect(registry.render().contains("\nlive_connections 0"))
        #expect(throws: Never.self) { try admit(to: hub) }
    }

    @Test func `a change of the switches wakes the accounts in shares, one each second`()
        async throws
    {
        let hub = hub(wokenAtOnce: 2)
        let streams = try (0..<5).map { _ in run(try admit(to: hub, account: Identifier.new())) }
        for (_, text) in streams { try await text.wait(for: "retry") }
        try await feed.wait(forReads: 5)

        hub.switched()
        #expect(hub.unwokenAccounts == 3)
        // Another change while accounts wait does not wake more at once.
        hub.switched()
        #expect(hub.unwokenAccounts == 5)
        try await feed.wait(forReads: 7)
        for left in [3, 1, 0] {
            hub.checkTime()
            #expect(hub.unwokenAccounts == left)
        }
        try await feed.wait(forReads: 10)
        hub.stop()
        for (task, _) in streams { try await task.finished() }
        hub.checkTime()
        try await eventually("no connection is counted") { hub.count == 0 }
    }

    @Test func `a changed list is announced to the connections that show it, once for all changes`()
        async throws
    {
        let hub = hub()
        let (shown, text) = run(try admit(to: hub, following: ["posts"]))
        let (other, silent) = run(try admit(to: hub, following: ["likes"]))
        for text in [text, silent] { try await text.wait(for: "retry") }
        for _ in 0..<3 { hub.listsChanged(ChangedLists(collections: ["posts"])) }
        hub.checkTime()
        try await text.wait(for: "event: list\ndata: {\"collection\":\"posts\"}\n\n")
        hub.checkTime()
        hub.listsChanged(ChangedLists(collections: ["likes"]))
        hub.checkTime()
        try await silent.wait(for: "event: list\ndata: {\"collection\":\"likes\"}\n\n")
        hub.stop()
        for task in [shown, other] { try await task.finished() }
        #expect(text.text.split(separator: "event: list").count == 2)
        #expect(!silent.text.contains("posts"))
        #expect(feed.announced == ["posts", "likes"])
    }

    @Test func `a connection announces the changes of the ten seconds before it was opened`()
        async throws
    {
        let hub = hub()
        let reader = Identifier.new()
        hub.listsChanged(ChangedLists(collections: ["likes"]))
        hub.checkTime()
        hub.listsChanged(ChangedLists(collections: ["posts"]))
        hub.listsChanged(
            ChangedLists(collections: ["messages"], readers: ["messages": [reader]])
        )
        for _ in 0..<10 { hub.checkTime() }
        let lists: Set = ["likes", "messages", "posts"]
        let (shown, text) = run(try admit(to: hub, account: reader, following: lists))
        let (other, silent) = run(try admit(to: hub, following: lists))
        try await text.wait(for: "{\"collection\":\"messages\"}")
        hub.checkTime()
        for text in [text, silent] { try await text.wait(for: "{\"collection\":\"posts\"}") }
        hub.stop()
        for task in [shown, other] { try await task.finished() }
        #expect(!text.text.contains("likes"))
        #expect(silent.text.split(separator: "event: list").count == 2)
    }

    @Test func `a record that names its readers is announced to them at once, and to no one else`()
        async throws
    {
        let hub = hub()
        let reader = Identifier.new()
        let (shown, text) = run(try admit(to: hub, account: reader, following: ["messages"]))
        let (other, silent) = run(try admit(to: hub, following: ["messages"]))
        for text in [text, silent] { try await text.wait(for: "retry") }
        hub.listsChanged(
            ChangedLists(collections: ["messages"], readers: ["messages": [reader]])
        )
        try await text.wait(for: "event: list")
        hub.checkTime()
        hub.stop()
        for task in [shown, other] { try await task.finished() }
        #expect(!silent.text.contains("event: list"))
    }

    @Test func `many connections announce a changed list in shares, each within ten seconds`()
        async throws
    {
        let hub = hub(total: 100, wokenAtOnce: 1)
        let streams = try (0..<20).map { _ in
            run(try admit(to: hub, account: Identifier.new(), following: ["posts"]))
        }
        for (_, text) in streams { try await text.wait(for: "retry") }
        hub.listsChanged(ChangedLists(collections: ["posts"]))
        for _ in 0..<10 { hub.checkTime() }
        for (_, text) in streams { try await text.wait(for: "event: list") }
        hub.stop()
        for (task, _) in streams { try await task.finished() }
        let counts = streams.map { $0.1.text.split(separator: "event: list").count - 1 }
        #expect(counts == Array(repeating: 1, count: 20))
    }

    @Test func `many accounts are woken within the time for switches`() throws {
        let hub = hub(total: 100, wokenAtOnce: 1)
        let streams = try (0..<42).map { _ in try admit(to: hub, account: Identifier.new()) }
        hub.switched()
        var seconds = 0
        while hub.unwokenAccounts > 0, seconds < 100 {
            hub.checkTime()
            seconds += 1
        }
        #expect(seconds < 10)
        #expect(streams.count == 42)
    }

    @Test func `a connection ends when its access token expires`() async throws {
        let hub = hub()
        let (task, text) = run(try admit(to: hub))
        try await text.wait(for: "retry")
        wall.advance(by: .seconds(899))
        hub.checkTime()
        #expect(!text.isFinished)
        wall.advance(by: .seconds(1))
        hub.checkTime()
        try await task.finished()
        #expect(text.isFinished)
    }

    @Test func `a connection ends with its own session only`() async throws {
        let hub = hub()
        let session = Identifier.new()
        let (task, ending) = run(try admit(to: hub, session: session))
        let (other, text) = run(try admit(to: hub))
        try await ending.wait(for: "retry")
        try await text.wait(for: "retry")
        ended.sessions.withLock { _ = $0.insert(session) }
        hub.checkTime()
        try await task.finished()
        #expect(!text.isFinished)
        hub.stop()
        try await other.finished()
    }

    @Test func `a stream that begins after its session has ended ends at once`() async throws {
        let hub = hub()
        let session = Identifier.new()
        let stream = try admit(to: hub, session: session)
        ended.sessions.withLock { _ = $0.insert(session) }
        hub.checkTime()
        let (task, text) = run(stream)
        try await task.finished("the end of the stream")
        #expect(text.isFinished && feed.reads == 0)
    }

    @Test func `a stream that begins after the stop ends at once`() async throws {
        let hub = hub()
        let stream = try admit(to: hub)
        hub.stop()
        let (task, text) = run(stream)
        try await task.finished("the end of the stream")
        #expect(text.isFinished && feed.reads == 0)
    }

    @Test func `a stop ends all connections with different retry times and admits no more`()
        async throws
    {
        let hub = hub()
        let streams = try (0..<4).map { _ in run(try admit(to: hub)) }
        for (_, text) in streams { try await text.wait(for: "retry: 2000\n\n") }
        hub.stop()
        for (task, text) in streams {
            try await task.finished()
            #expect(text.isFinished)
        }
        await hub.waitForEnd()
        #expect(Set(streams.map { $0.1.text }).count > 1)
        let refusal = #expect(throws: Problem.self) {
            try admit(to: hub, account: Identifier.new())
        }
        #expect(refusal?.code == .overloaded)
    }

    @Test func `a failed read of the storage is retried later`() async throws {
        let hub = hub()
        feed.commit()
        feed.fail(Problem(.overloaded, "Later."))
        let (task, text) = run(try admit(to: hub))
        try await text.wait(for: "retry")
        try await feed.wait(forReads: 1)
        feed.fail(nil)
        // The retry waits for the next time check.
        try await eventually("a change") {
            hub.checkTime()
            return !text.numbers.isEmpty
        }
        #expect(text.numbers == [1])
        hub.stop()
        try await task.finished()
    }

    @Test func `a deleted account ends its connections`() async throws {
        let hub = hub()
        feed.fail(Problem(.notFound, "Gone."))
        let (task, text) = run(try admit(to: hub))
        try await task.finished()
        #expect(text.isFinished)
    }

    @Test func `a connection that the client closes ends, and is no longer counted`() async throws {
        let hub = hub()
        do {
            let (task, text) = run(try admit(to: hub))
            try await text.wait(for: "retry")
            text.leave()
            try await task.finished()
            #expect(!text.isFinished)
        }
        try await eventually("no connection is counted") { hub.count == 0 }
    }

    @Test func `a failed write ends the connection`() async throws {
        let hub = hub()
        do {
            let (task, text) = run(try admit(to: hub))
            try await text.wait(for: "retry")
            text.fail()
            hub.committed(account, head: feed.commit())
            try await task.finished()
            #expect(!text.isFinished && text.numbers.isEmpty)
        }
        try await eventually("no connection is counted") { hub.count == 0 }
    }
}

/// The output of a live connection.
private final class WrittenText: LiveOutput {
    private struct State {
        var text = ""
        var isFinished = false
        var isClosed = false
        var fails = false
        var left: (@Sendable () -> Void)?
    }

    private struct Failure: Error {}

    private let state = WatchedState(State())

    var executor: (any TaskExecutor)? { nil }

    func open(closed: @escaping @Sendable () -> Void) async throws {
        state.withLock { $0.left = closed }
    }

    func write(_ part: ByteBuffer) async throws {
        let part = String(buffer: part)
        try state.withLock { state in
            guard !state.fails else { throw Failure() }
            state.text += part
        }
    }

    func finish() async throws { state.withLock { $0.isFinished = true } }

    func close() { state.withLock { $0.isClosed = true } }

    /// Closes the connection as its client.
    func leave() { state.value.left?() }

    /// Fails later writes.
    func fail() { state.withLock { $0.fails = true } }

    /// Waits until the server has closed the connection.
    func waitForClose() async throws {
        try await state.wait(for: "the end of the connection") { $0.isClosed }
    }

    var text: String { state.value.text }
    var isFinished: Bool { state.value.isFinished }

    /// The numbers of the change events, in order.
    var numbers: [Int] {
        text.matches(of: #/event: change\nid: (\d+)\n/#).compactMap { Int($0.1) }
    }

    /// Waits until the output contains the text.
    func wait(for part: String, line: Int = #line) async throws {
        try await state.wait(
            for: part.debugDescription,
            found: { "the text is \($0.text.debugDescription)" },
            line: line
        ) {
            $0.text.contains(part)
        }
    }
}
