import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Pending attempts", .bounded)
struct PendingAttemptsTests {
    private let pending = PendingAttempts()

    /// Lets a refused attempt wait, and returns the one that begins in its place.
    private func waiting(_ subjects: [String]) -> Task<PendingAttempts.Attempt?, Never> {
        let refused = pending.begin(subjects)
        return Task { [pending] in await pending.waitForTurn(refused) }
    }

    @Test func `an attempt waits for undecided ones only`() async {
        #expect(await pending.waitForTurn(pending.begin(["a", "b"])) == nil)
        let other = pending.begin(["c"])
        #expect(await pending.waitForTurn(pending.begin(["a"])) == nil)
        pending.end(other)
    }

    @Test func `an outcome lets the attempts begin that share a subject`() async throws {
        let first = pending.begin(["a", "b"])
        let second = pending.begin(["c"])
        let tasks = [waiting(["a", "1"]), waiting(["2", "b"])]
        let other = waiting(["c"])
        try await eventually("three attempts wait") { pending.waiting == 3 }
        pending.end(first)
        for task in tasks {
            let attempt = try #require(try await task.finished())
            pending.end(attempt)
        }
        #expect(pending.waiting == 1)
        pending.end(second)
        #expect(try await other.finished()?.subjects == ["c"])
    }

    @Test func `an outcome between the refusal and the wait is not missed`() async {
        let first = pending.begin(["a"])
        let refused = pending.begin(["a"])
        pending.end(first)
        #expect(await pending.waitForTurn(refused)?.subjects == ["a"])
    }

    @Test func `attempts that wait for a refused one only are refused`() async throws {
        let first = pending.begin(["a"])
        let tasks = [waiting(["a", "1"]), waiting(["a", "2"])]
        try await eventually("two attempts wait") { pending.waiting == 2 }
        #expect(await pending.waitForTurn(first) == nil)
        for task in tasks { #expect(try await task.finished() == nil) }
        #expect(pending.waiting == 0)
    }

    @Test func `a bounded number of attempts waits`() async throws {
        let first = pending.begin(["a"])
        let tasks = (0..<PendingAttempts.limit).map { _ in waiting(["a"]) }
        try await eventually("all attempts wait") { pending.waiting == PendingAttempts.limit }
        #expect(await pending.waitForTurn(pending.begin(["a"])) == nil)
        pending.end(first)
        for task in tasks { #expect(try await task.finished() != nil) }
    }
}
