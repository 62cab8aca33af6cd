import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Batches", .bounded)
struct BatchStateTests {
    @Test func `the first lookup opens a batch and the next ones join it`() {
        var state = BatchState<String>(size: 10)
        #expect(state.ask(1, for: "ada", nextBatch: 100).opened == 100)
        #expect(state.ask(2, for: "bob", nextBatch: 101) == .nothing)

        let closed = state.windowEnded(100).closed
        #expect(closed == .init(batch: 100, ids: ["ada", "bob"]))
        #expect(state.ended(100) == [1: "ada", 2: "bob"])
        #expect(state.isIdle)
    }

    @Test func `an id is requested once per batch, however many callers look it up`() {
        var state = BatchState<String>(size: 10)
        _ = state.ask(1, for: "ada", nextBatch: 100)
        _ = state.ask(2, for: "ada", nextBatch: 101)

        #expect(state.windowEnded(100).closed?.ids == ["ada"])
        #expect(state.ended(100) == [1: "ada", 2: "ada"])
    }

    @Test func `a full batch is sent at once, and the next lookup opens another`() {
        var state = BatchState<Int>(size: 2)
        _ = state.ask(1, for: 1, nextBatch: 100)
        #expect(state.ask(2, for: 2, nextBatch: 101).closed == .init(batch: 100, ids: [1, 2]))
        #expect(state.ask(3, for: 3, nextBatch: 102).opened == 102)
        #expect(state.windowEnded(100) == .nothing)
    }

    @Test func `a batch of one has no window`() {
        var state = BatchState<Int>(size: 1)
        let effect = state.ask(1, for: 1, nextBatch: 100)
        #expect(effect.opened == nil)
        #expect(effect.closed == .init(batch: 100, ids: [1]))
    }

    @Test func `a batch in flight accepts no more lookups`() {
        var state = BatchState<Int>(size: 10)
        _ = state.ask(1, for: 1, nextBatch: 100)
        _ = state.windowEnded(100)
        #expect(state.ask(2, for: 1, nextBatch: 101).opened == 101)
    }

    @Test func `a caller that cancels removes only its own id from an open batch`() {
        var state = BatchState<Int>(size: 10)
        _ = state.ask(1, for: 1, nextBatch: 100)
        _ = state.ask(2, for: 2, nextBatch: 101)
        _ = state.ask(3, for: 2, nextBatch: 102)
        #expect(state.leave(1) == .nothing)
        #expect(state.leave(2) == .nothing)

        #expect(state.windowEnded(100).closed?.ids == [2])
    }

    @Test(arguments: [false, true])
    func `a batch is cancelled when its last caller cancels`(isUnderWay: Bool) {
        var state = BatchState<Int>(size: 10)
        _ = state.ask(1, for: 1, nextBatch: 100)
        _ = state.ask(2, for: 2, nextBatch: 101)
        if isUnderWay { _ = state.windowEnded(100) }
        #expect(state.leave(1) == .nothing)
        #expect(state.leave(2).cancelled == 100)
        #expect(state.isIdle)
        #expect(state.ended(100).isEmpty)
    }

    @Test(arguments: Fuzz.seeds(1...20))
    func `every remaining caller is answered once, with the requested id`(seed: UInt64) throws {
        let replay = Fuzz.replay(Self.self, seed: seed)
        var random = SplitMix64(seed: seed)
        let size = Int.random(in: 1...8, using: &random)
        var state = BatchState<Int>(size: size)
        var asking: [UInt64: Int] = [:]
        var open: UInt64?
        var underWay: [UInt64: [Int]] = [:]
        var last: UInt64 = 0

        func close(_ closed: BatchState<Int>.Closed?) throws {
            guard let closed else { return }
            try #require(closed.ids.count <= size && Set(closed.ids).count == closed.ids.count)
            try #require(underWay.updateValue(closed.ids, forKey: closed.batch) == nil)
            open = nil
        }
        for _ in 1...Fuzz.events(2_000) {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                last += 2
                let id = Int.random(in: 0..<12, using: &random)
                asking[last] = id
                let effect = state.ask(last, for: id, nextBatch: last + 1)
                open = effect.opened ?? open
                try close(effect.closed)
            case 5:
                if let open { try close(state.windowEnded(open).closed) }
            case 6, 7:
                guard let asker = asking.keys.sorted().randomElement(using: &random) else { break }
                asking[asker] = nil
                if let cancelled = state.leave(asker).cancelled {
                    underWay[cancelled] = nil
                    if open == cancelled { open = nil }
                }
            default:
                guard let batch = underWay.keys.sorted().randomElement(using: &random),
                    let ids = underWay.removeValue(forKey: batch)
                else { break }
                for (asker, id) in state.ended(batch) {
                    try #require(asking.removeValue(forKey: asker) == id, replay)
                    try #require(ids.contains(id), replay)
                }
            }
            try #require(state.askerCount == asking.count, replay)
        }
        if let open { try close(state.windowEnded(open).closed) }
        for batch in underWay.keys { for asker in state.ended(batch).keys { asking[asker] = nil } }
        #expect(asking.isEmpty && state.isIdle, replay)
    }
}
