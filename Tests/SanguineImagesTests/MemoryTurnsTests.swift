import SanguineTesting
import TestSupport
import Testing

@testable import SanguineImages

/// Work that waits for memory.
@Suite("Turns by memory", .bounded)
struct MemoryTurnsTests {
    @Test func `work waits while others need the memory, in order`() async throws {
        let turns = MemoryTurns(limit: 100)
        let (gate, order) = (WatchedState(false), WatchedState<[Int]>([]))
        let first = Task {
            try await turns.perform(60) { () async throws(ImageFailure) in
                _ = try? await gate.wait(for: "the gate") { $0 }
            }
        }
        try await eventually("the first is running") { turns.taken == 60 }
        var tasks: [Task<Void, any Error>] = []
        // The second would fit, but does not overtake.
        for (number, bytes) in [(1, 90), (2, 10)] {
            tasks.append(
                Task {
                    try await turns.perform(bytes) { () async throws(ImageFailure) in
                        order.withLock { $0.append(number) }
                    }
                }
            )
            try await eventually("\(number) are waiting") { turns.waiting == number }
        }
        gate.withLock { $0 = true }
        try await first.finished()
        for task in tasks { try await task.finished() }
        #expect(Set(order.value) == [1, 2] && turns.taken == 0)
    }

    @Test func `work that needs more than the limit runs when nothing else does`() async throws {
        let turns = MemoryTurns(limit: 100)
        let taken = try await turns.perform(1_000) { () async throws(ImageFailure) in turns.taken }
        #expect(taken == 100 && turns.taken == 0)
    }

    @Test func `a cancelled wait ends, and lets the next begin`() async throws {
        let turns = MemoryTurns(limit: 100)
        let gate = WatchedState(false)
        let first = Task {
            try await turns.perform(60) { () async throws(ImageFailure) in
                _ = try? await gate.wait(for: "the gate") { $0 }
            }
        }
        try await eventually("the first is running") { turns.taken == 60 }
        let large = Task {
            try await turns.perform(90) { () async throws(ImageFailure) in }
        }
        try await eventually("one is waiting") { turns.waiting == 1 }
        let small = Task {
            try await turns.perform(10) { () async throws(ImageFailure) in }
        }
        try await eventually("two are waiting") { turns.waiting == 2 }
        large.cancel()
        try await small.finished()
        await #expect(throws: ImageFailure.cancelled) { try await large.finished() }
        gate.withLock { $0 = true }
        try await first.finished()
        #expect(turns.waiting == 0 && turns.taken == 0)
    }
}
