import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The parts of an answer: a window for readers, and a limit on parts that are not stored.
@Suite("Answer log", .bounded)
struct AnswerLogTests {
    private let log = AnswerLog()
    private let large = String(repeating: "x", count: AnswerLog.unstoredBytes + 1)

    private func add(_ texts: String...) {
        for text in texts { _ = log.append(text, bytes: text.utf8.count) }
    }

    private func parts(at index: Int64) async -> [String]? {
        let slice = await log.next(at: index, for: log.makeNumber())
        if case .parts(let texts) = slice { return texts }
        return nil
    }

    @Test func `the first part is reported, and an empty part is ignored`() async {
        #expect(!log.append("", bytes: 0))
        #expect(log.append("a", bytes: 1) && !log.append("b", bytes: 1))
        #expect(await parts(at: 0) == ["a", "b"])
        #expect(await parts(at: 1) == ["b"])
        #expect(log.progress.parts == 2 && log.count == 2)
    }

    @Test func `a reader waits for the next part, and for the end`() async throws {
        let reader = Task { await parts(at: 0) }
        add("a")
        #expect(try await reader.finished() == ["a"])
        let last = Task { await log.next(at: 1, for: log.makeNumber()) }
        log.end()
        guard case .ended(count: 1) = try await last.finished() else {
            Issue.record("The log has no end.")
            return
        }
        add("late")
        #expect(log.count == 1)
    }

    @Test func `only a window of stored parts stays in memory`() async throws {
        let part = String(repeating: "p", count: 1_024)
        for _ in 0..<64 { add(part) }
        #expect(log.unstored()?.texts.count == 64)
        log.stored(through: 64)
        #expect(log.unstored() == nil)
        guard case .stored = await log.next(at: 0, for: 1) else {
            Issue.record("Stored parts are still in memory.")
            return
        }
        let window = Int64(AnswerLog.windowBytes / 1_024)
        #expect(await parts(at: 64 - window)?.count == Int(window))
        // Repeated or late reports change nothing.
        log.stored(through: 10)
        add("last")
        #expect(log.unstored()?.first == 64)
    }

    @Test func `a run waits while too many parts are not stored, and continues when they are`()
        async throws
    {
        add(large)
        let runs = (0..<3).map { _ in Task { await log.waitForSpace() } }
        log.stored(through: 1)
        for run in runs { try await run.finished("a run that waits for room") }
        #expect(log.unstored() == nil)
    }

    @Test func `a run that is cut short does not wait, and later parts are only counted`()
        async throws
    {
        add(large)
        let run = Task { await log.waitForSpace() }
        log.cut()
        try await run.finished("a run that is cut")
        add("more")
        #expect(log.count == 1)
        #expect(log.progress.parts == 2 && log.progress.output.textBytes == large.utf8.count + 4)
    }

    @Test func `a cancelled task does not wait for room`() async throws {
        add(large)
        let run = Task { await log.waitForSpace() }
        run.cancel()
        try await run.finished("a run that is cancelled")
        #expect(log.unstored()?.texts.count == 1)
    }

    @Test
    func `a caller that waits for stored parts continues when they are stored, or at the end`()
        async throws
    {
        add("a", "b", "c")
        let first = Task { await log.waitUntilStored(through: 2) }
        let last = Task { await log.waitUntilStored(through: 3) }
        log.stored(through: 2)
        try await first.finished("two stored parts")
        log.end()
        try await last.finished("the end")
        await log.waitUntilStored(through: 9)
        #expect(log.count == 3)
    }

    @Test func `a reader that is woken without parts, or cancelled, returns quietly`()
        async throws
    {
        let number = log.makeNumber()
        for stop in ["quiet", "wake", "cancel"] {
            let reader = Task { await log.next(at: 0, for: number) }
            try await eventually("the reader is done") {
                switch stop {
                case "quiet": log.wakeWithoutParts(number)
                case "wake": log.wakeAll()
                default: reader.cancel()
                }
                return await isDone(reader)
            }
            guard case .idle = try await reader.finished() else {
                Issue.record("The reader was not quiet: \(stop)")
                return
            }
        }
        #expect(log.count == 0)
    }

    private func isDone(_ reader: Task<AnswerLog.Slice, Never>) async -> Bool {
        (try? await reader.finished("a reader", within: .milliseconds(50))) != nil
    }
}
