import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

/// Decides which ranges to fetch, without a client.
@Suite("Range state", .bounded)
struct RangeStateTests {
    private func set(_ ranges: Range<Int>...) -> RangeSet<Int> { RangeSet(ranges) }

    /// The waiters that are answered; `nil` if nothing happened.
    private func answered(_ actions: RangeState.Actions?) -> Set<UInt64>? {
        actions.map { Set($0.answer.map(\.waiter)) }
    }

    @Test func `nearby gaps share a fetch, and distant ones do not`() {
        var state = RangeState()
        let close = state.join(waiter: 1, missing: set(0..<3, 3 + RangeLimits.bridge..<20))
        let distant = state.join(waiter: 2, missing: set(100..<103, 104 + RangeLimits.bridge..<120))

        #expect(close.start.map(\.range) == [0..<20])
        #expect(distant.start.map(\.range) == [100..<103, 104 + RangeLimits.bridge..<120])
    }

    @Test func `a long gap is several fetches`() {
        var state = RangeState()
        let actions = state.join(waiter: 1, missing: set(0..<800))

        #expect(actions.start.map(\.range) == [0..<366, 366..<732, 732..<800])
    }

    @Test func `a range in flight is neither requested again nor bridged`() {
        var state = RangeState()
        _ = state.join(waiter: 1, missing: set(10..<13))
        let actions = state.join(waiter: 2, missing: set(5..<20))

        #expect(actions.start.map(\.range) == [5..<10, 13..<20])
    }

    @Test func `a reader is answered with its last fetch, and no other waits for that`() {
        var state = RangeState()
        _ = state.join(waiter: 1, missing: set(0..<10))
        let second = state.join(waiter: 2, missing: set(5..<15))
        #expect(second.start.map(\.range) == [10..<15])

        #expect(answered(state.complete(second.start[0].number)) == [])
        #expect(answered(state.complete(1)) == [1, 2])
        #expect(state.isIdle)
    }

    @Test func `the last reader of a fetch cancels it and no other`() {
        var state = RangeState()
        _ = state.join(waiter: 1, missing: set(0..<10))
        _ = state.join(waiter: 2, missing: set(5..<15))

        #expect(state.leave(waiter: 2).cancel == [2])
        #expect(state.requests.map(\.range) == [0..<10])
        #expect(state.leave(waiter: 1).cancel == [1])
    }

    @Test func `a failure reaches only the readers that need that fetch`() {
        var state = RangeState()
        _ = state.join(waiter: 1, missing: set(0..<10))
        _ = state.join(waiter: 2, missing: set(5..<15))
        _ = state.join(waiter: 3, missing: set(10..<15))

        #expect(answered(state.fail(1, .closed)) == [1, 2])
        #expect(state.requests.map(\.number) == [2])
        #expect(answered(state.complete(2)) == [3])
    }

    @Test func `a fetch older than an invalidation serves no later reader`() {
        var state = RangeState()
        _ = state.join(waiter: 1, missing: set(0..<10))
        state.invalidate(set(3..<5))
        let actions = state.join(waiter: 2, missing: set(0..<10))

        #expect(actions.start.map(\.range) == [3..<5])
        #expect(answered(state.complete(2)) == [])
        #expect(answered(state.complete(1)) == [1, 2])
    }

    @Test func `a reader of a superseded fetch waits for the newer one`() {
        var state = RangeState()
        _ = state.join(waiter: 1, missing: set(0..<10))
        state.invalidate(set(3..<5))
        _ = state.join(waiter: 2, missing: set(3..<5))
        _ = state.arrive(2)

        #expect(answered(state.complete(1)) == [])
        #expect(answered(state.complete(2)) == [1, 2])
    }

    @Test func `an earlier fetch does not overwrite a later one's values`() {
        var state = RangeState()
        var contents = RangeContents<String>()
        let now = Timestamp(millisecondsSince1970: 0)
        _ = state.join(waiter: 1, missing: set(0..<3))
        state.invalidate(set(0..<2))
        _ = state.join(waiter: 2, missing: set(0..<2))
        for (number, text) in [(UInt64(2), "new"), (1, "old")] {
            let request = state.arrive(number)
            let values = Dictionary(uniqueKeysWithValues: (0..<3).map { ($0, text) })
            if let request { contents.add(values, request, asOf: now, keeping: []) }
            _ = state.complete(number)
        }

        #expect(contents.values == [0: "new", 1: "new", 2: "old"])
        #expect(contents.coverage.positions(in: 0..<3) { !$0.isStale } == set(0..<3))
    }
}
