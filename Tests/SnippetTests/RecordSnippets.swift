import Foundation
import Sanguine
import SanguineTesting
import Synchronization
import TestSupport
import Testing

struct Habit: SyncedRecord, Defaulted {
    static let collection = RecordCollection("habits")
    static let defaults = Habit(id: .new(), title: "")
    let id: RecordID
    var title: String
    var streak = 0
}

struct CompleteHabit: RecordMutation {
    static let name = "habit.complete"
    let habit: RecordID

    func apply(to records: inout Records) throws {
        guard var habit = records.get(Habit.self, habit) else {
            throw Refusal(.notFound, "Create the habit first.")
        }
        habit.streak += 1
        records.set(habit)
    }
}

// Shared by all copies of the suite.
private final class Shown: Sendable {
    let texts = Mutex<[String]>([])
}

/// The samples of the guide to records.
@Suite("Record snippets", .bounded)
struct RecordSnippets {
    private let shown = Shown()

    private func show(_ problem: Problem) {
        shown.texts.withLock { $0.append(problem.code.rawValue) }
    }
    private func show(_ habit: Habit?) { shown.texts.withLock { $0.append(habit?.title ?? "") } }
    private func reloadWidget() { shown.texts.withLock { $0.append("reload") } }

    private func configuration(_ folder: URL? = nil) -> SanguineClient.Configuration {
        var configuration = SanguineClient.Configuration()
        configuration.folder = folder
        configuration.isInMemory = folder == nil
        configuration.register(Habit.self, CompleteHabit.self)
        return configuration
    }

    private func key(_ id: RecordID) -> RecordKey { RecordKey("habits", id) }

    @Test func `records are read and changed at once`() throws {
        let client = try SanguineClient(configuration())
        let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
        try client.perform(CreateRecord(key(id), ["title": "Run", "streak": 0]))
        let habits = client.records(Habit.self)  // at once, with unsent changes
        let receipt = try client.perform(CompleteHabit(habit: id))  // visible on the next line
        #expect(habits.map(\.streak) == [0] && client.record(Habit.self, id)?.streak == 1)
        #expect(client.outbox.pending.last?.id == receipt.id)
        for operation in client.outbox.refused {
            show(operation.problem)
            try client.outbox.retry(operation.id)  // or discard(_:)
        }
        #expect(shown.texts.withLock { $0 }.isEmpty)
    }

    @Test func `a value is computed from several records`() async throws {
        let client = try SanguineClient(configuration())
        let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
        try client.perform(CreateRecord(key(id), ["title": "Run", "streak": 3]))
        let closing = Task {
            defer { client.close() }
            try await eventually("a value is shown") { !shown.texts.withLock { $0.isEmpty } }
        }
        let best = RecordQuery(reading: Habit.collection) { records in
            records.records(Habit.self).max { $0.streak < $1.streak }
        }

        let now = client.cached(best)
        for await habit in client.updates(of: best) { show(habit) }
        try await closing.finished()
        #expect(now?.title == "Run")
        #expect(shown.texts.withLock { $0 } == ["Run"])
    }

    @MainActor @Test func `a new device shows the newest records and the progress`() throws {
        let client = try SanguineClient(configuration())
        let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
        try client.perform(CreateRecord(key(id), ["title": "Run", "streak": 0]))
        let restore = client.model(.restoreProgress)
        let habits = client.pager(of: Habit.self)
        #expect(habits.items.map(\.title) == ["Run"] && habits.isComplete)
        #expect(restore.value.fraction == 1)
        client.close()
    }

    @Test func `a widget sees the app's changes`() throws {
        let sharedFolder = FileManager.default.temporaryDirectory.appending(path: "\(UUID())")
        defer { try? FileManager.default.removeItem(at: sharedFolder) }
        var configuration = configuration(sharedFolder)
        configuration.folder = sharedFolder
        configuration.durableWrites = { reloadWidget() }
        let client = try SanguineClient(configuration)
        let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
        try client.perform(CreateRecord(key(id), ["title": "Run", "streak": 0]))
        #expect(shown.texts.withLock { $0 } == ["reload"])
        let companion = try SanguineCompanion(configuration)
        try companion.perform(CompleteHabit(habit: id))
        #expect(companion.record(Habit.self, id)?.streak == 1)
    }

    @Test func `a program waits until everything is sent, and for an outcome`() async throws {
        let network = ScriptedTransport { request in
            guard request.url.path() == "/v1/sync/pull" else { return .status(404) }
            return .json(PullAnswer(changes: [], next: 0, head: 0, hasMore: false))
        }
        var configuration = configuration()
        configuration.transport = network
        let client = try SanguineClient(configuration)
        await #expect(throws: SanguineError.notConfigured("'server'")) {
            try await client.synchronize()
        }
        let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
        let receipt = try client.perform(CreateRecord(key(id), ["title": "Run", "streak": 0]))
        client.close()
        await #expect(throws: SanguineError.closed) {
            if case .refused(let problem) = try await receipt.outcome { show(problem) }
        }
    }
}
