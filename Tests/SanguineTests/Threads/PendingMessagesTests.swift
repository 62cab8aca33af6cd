import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A function that keeps history, waits for a network and costs nothing.
private struct FreeChat: FunctionCall {
    struct Input: Codable, Sendable { var question: String }
    typealias Output = String

    static let name = "free.chat"
    static let rules = FunctionRules(price: .free, keepsHistory: true)
    static let whenOffline = OfflineCall.queue

    var input: Input
}

@Suite("Questions that are stored until the feed brings them", .bounded)
struct PendingMessagesTests {
    let stage = ThreadStage()

    private func store(of client: SanguineClient) throws -> DatabaseQueue {
        let folder = try #require(client.users.current.folder).url
        var options = Configuration()
        options.busyMode = .timeout(5)  // The client may be writing.
        let path = folder.appending(path: StoreFile.name).path
        return try DatabaseQueue(path: path, configuration: options)
    }

    /// Makes writes of messages fail, as a full disk does.
    private func failWrites(of client: SanguineClient) throws {
        try store(of: client).write { database in
            try database.execute(
                sql: """
                    CREATE TRIGGER full_disk BEFORE INSERT ON state WHEN NEW.name LIKE 'message%'
                    BEGIN SELECT RAISE(ABORT, 'the disk is full'); END
                    """
            )
        }
    }

    private func allowWrites(of client: SanguineClient) throws {
        try store(of: client).write { try $0.execute(sql: "DROP TRIGGER full_disk") }
    }

    /// Prevents the feed from bringing messages.
    private func stopFeed() {
        let problem = Problem(.overloaded, "A test's failure.")
        stage.authority.fail("/v1/sync/pull", with: problem, times: 1_000)
        stage.authority.fail("/v1/live", with: problem, times: 99)
        stage.authority.endStreams()
    }

    @Test func `messages that could not be stored are stored with the next change`()
        async throws
    {
        var client = try await stage.launch(stage.phone)
        stopFeed()
        try failWrites(of: client)
        try await client.call(Chat("one"), in: stage.thread)
        #expect(client.storeReport.failure?.contains("the disk is full") == true)
        try allowWrites(of: client)
        try await client.call(Chat("two"), in: stage.thread)
        stage.phone.quit()
        stage.goOffline(stage.phone)
        client = try stage.phone.launch()
        #expect(
            client.texts(stage.thread) == ["one", "You asked: one", "two", "You asked: two"]
        )
    }

    @Test func `a waiting question that cannot be stored is refused and leaves no message`()
        async throws
    {
        let client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        try failWrites(of: client)
        let error = #expect(throws: SanguineError.self) {
            try client.stream(Chat("one"), in: stage.thread)
        }
        #expect(error?.code == "store")
        #expect(client.texts(stage.thread).isEmpty && client.openCalls.isEmpty)
        #expect(client.cached(.balance)?.held == 0)
        try allowWrites(of: client)
        _ = try client.stream(Chat("two"), in: stage.thread)
        #expect(client.texts(stage.thread) == ["two", ""])
    }

    @Test func `a question is refused if those that wait for a network leave no room`()
        async throws
    {
        let client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        let text = String(repeating: "x", count: 23_000)
        var accepted = 0
        var refusal: SanguineError?
        while refusal == nil, accepted < BalanceLimits.queuedCalls {
            do throws(SanguineError) {
                let call = FreeChat(input: .init(question: text))
                _ = try client.stream(call, in: stage.thread)
                accepted += 1
            } catch {
                refusal = error
            }
        }
        #expect(refusal?.asProblem == .tooManyQuestions)
        #expect(accepted == MessageLimits.pendingBytes / (2 * text.utf8.count + 530))
        #expect(client.openCalls.count == accepted)
        #expect(client.users.current.threads.pending.all.count == accepted)
    }

    @Test func `a question that was being sent at a kill is not shown as one that waits`()
        async throws
    {
        var client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        _ = try client.stream(Chat("one"), in: stage.thread)
        func phases() -> [ThreadMessage.Phase] {
            client.threads.messages(of: stage.thread).map(\.phase)
        }
        #expect(phases() == [.waiting, .waiting])
        // The network seems to be back, but nothing arrives.
        stage.phone.connectivity.connect()
        try await eventually("the call is sent") { phases() == [.complete, .making] }
        stage.phone.connectivity.disconnect()
        client = try stage.phone.launch()
        #expect(phases() == [.complete, .making])
        stage.goOnline(stage.phone)
        try await eventually("the answer is complete") { phases().last == .complete }
        #expect(client.texts(stage.thread) == ["one", "You asked: one"])
        #expect(stage.authority.balance().available == 97)
    }

    @Test func `questions of an earlier process end when the feed has their answers`()
        async throws
    {
        var client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        for number in 0..<3 { _ = try client.stream(Chat("number\(number)"), in: stage.thread) }
        client = try stage.phone.launch()
        #expect(client.users.current.threads.pending.all.count == 3)
        stage.goOnline(stage.phone)
        try await eventually("all are answered") {
            client.users.current.threads.pending.all.isEmpty
        }
        #expect(client.threads.list().first?.messages == 6)
        #expect(stage.authority.balance().available == 91)
    }
}
