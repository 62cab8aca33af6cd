import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Work that callers with the same key share.
@Suite("Shared loads", .bounded)
struct SharedLoadsTests {
    @Test func `random callers start one load and end it with the last of them`() {
        for seed in Fuzz.seeds(1...20) {
            var random = SplitMix64(seed: seed)
            var table = LoadTable<Int>()
            var waiting: [LoadTable<Int>.Ticket] = []
            for _ in 0..<Fuzz.events(300) {
                switch Int.random(in: 0..<5, using: &random) {
                case 0, 1:
                    let key = Int.random(in: 0..<5, using: &random)
                    let isNew = !waiting.contains { $0.key == key }
                    let (ticket, mustStart) = table.join(key)
                    #expect(mustStart == isNew, Fuzz.replay(Self.self, seed: seed))
                    waiting.append(ticket)
                case 2, 3:
                    guard let place = waiting.indices.randomElement(using: &random) else {
                        continue
                    }
                    let ticket = waiting.remove(at: place)
                    let isLast = !waiting.contains { $0.key == ticket.key }
                    let mustCancel = table.leave(ticket)
                    #expect(mustCancel == isLast, Fuzz.replay(Self.self, seed: seed))
                    let isAgain = table.leave(ticket)
                    #expect(!isAgain, "A caller left twice.")
                default:
                    guard let ended = waiting.randomElement(using: &random) else { continue }
                    table.end(ended.key, load: ended.load)
                    waiting.removeAll { $0.key == ended.key }
                }
                #expect(table.count == Set(waiting.map(\.key)).count)
            }
        }
    }

    @Test func `a caller that leaves does not end another caller's load`() async throws {
        let loads = SharedLoads<Int, String>()
        let gate = OneShot<String>()
        let first = Task {
            try await loads.value(of: 1, priority: RequestPriority(.normal)) { _ in
                do throws(SanguineError) {
                    return .success(try await gate.value())
                } catch {
                    return .failure(error)
                }
            }
        }
        try await eventually("the first caller waits") { loads.count == 1 }
        let isShared = Mutex(false)
        let second = Task {
            try await loads.value(
                of: 1,
                priority: RequestPriority(.visible),
                onShared: { isShared.withLock { $0 = true } },
                { _ in .failure(.closed) }
            )
        }
        try await eventually("the second caller shares the load") { isShared.withLock { $0 } }
        first.cancel()
        await #expect(throws: SanguineError.cancelled) { try await first.finished() }
        gate.resolve(.success("image"))
        #expect(try await second.finished() == "image")
        #expect(loads.count == 0)
    }

    @Test func `a load without callers is cancelled`() async throws {
        let loads = SharedLoads<Int, String>()
        let ended = OneShot<Void>()
        let caller = Task {
            try await loads.value(of: 1, priority: RequestPriority(.normal)) { _ in
                do throws(SanguineError) {
                    try await OneShot<Void>().value()
                } catch {
                    ended.resolve(.success(()))
                }
                return .failure(.cancelled)
            }
        }
        try await eventually("the caller waits") { loads.count == 1 }
        caller.cancel()
        try await ended.value()
        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
    }

    @Test func `the load has the highest priority of its callers`() async throws {
        let loads = SharedLoads<Int, FetchPriority>()
        let gate = OneShot<Void>()
        let work: SharedLoads<Int, FetchPriority>.Work = { priority in
            do throws(SanguineError) { try await gate.value() } catch { return .failure(error) }
            return .success(priority.current)
        }
        let first = Task {
            try await loads.value(of: 1, priority: RequestPriority(.prefetch), work)
        }
        try await eventually("the prefetch waits") { loads.count == 1 }
        let isShared = Mutex(false)
        let second = Task {
            try await loads.value(
                of: 1,
                priority: RequestPriority(.visible),
                onShared: { isShared.withLock { $0 = true } },
                work
            )
        }
        try await eventually("the view waits") { isShared.withLock { $0 } }
        gate.resolve(.success(()))
        #expect(try await first.finished() == .visible)
        #expect(try await second.finished() == .visible)
    }
}
