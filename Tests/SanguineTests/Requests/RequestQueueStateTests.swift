import TestSupport
import Testing

@testable import Sanguine

@Suite("Request queue state", .bounded)
struct RequestQueueStateTests {
    private static func state(
        slots: Int = 3,
        prefetchSlots: Int = 1,
        waiting: Int = 100,
        patience: Int = 4
    ) -> RequestQueueState {
        RequestQueueState(
            limits: .init(
                slots: slots,
                prefetchSlots: prefetchSlots,
                waiting: waiting,
                patience: patience
            )
        )
    }

    /// A state in which requests 1, 2 and 3 occupy the slots of host `a`.
    private static func full(waiting: Int = 100, patience: Int = 4) -> RequestQueueState {
        var state = state(waiting: waiting, patience: patience)
        for number in UInt64(1)...3 { _ = state.enter(number, host: "a", priority: .normal) }
        return state
    }

    @Test func `as many requests start as there are slots, and the next one waits`() {
        var state = Self.state()
        for number in UInt64(1)...3 {
            #expect(state.enter(number, host: "a", priority: .normal).granted == [number])
        }
        #expect(state.enter(4, host: "a", priority: .visible) == .nothing)
        #expect(state.underWay(to: "a") == 3)
        #expect(state.waiting(for: "a") == 1)
    }

    @Test func `each host has its own slots`() {
        var state = Self.full()
        #expect(state.enter(4, host: "b", priority: .normal).granted == [4])
    }

    @Test func `a free slot goes to the highest priority, then to the oldest request`() {
        var state = Self.full()
        let priorities: [FetchPriority] = [.prefetch, .normal, .visible, .normal, .visible]
        for (number, priority) in zip(UInt64(4)..., priorities) {
            _ = state.enter(number, host: "a", priority: priority)
        }
        var order: [UInt64] = []
        for number: UInt64 in [1, 2, 3, 6, 8] { order += state.leave(number).granted }

        #expect(order == [6, 8, 5, 7, 4])
    }

    @Test func `prefetches use only their own slots even if others are free`() {
        var state = Self.state()
        #expect(state.enter(1, host: "a", priority: .prefetch).granted == [1])
        #expect(state.enter(2, host: "a", priority: .prefetch) == .nothing)
        #expect(state.enter(3, host: "a", priority: .normal).granted == [3])
        #expect(state.leave(1).granted == [2])
    }

    @Test func `a raised request is ordered by age`() {
        var state = Self.full()
        _ = state.enter(4, host: "a", priority: .prefetch)
        _ = state.enter(5, host: "a", priority: .visible)
        #expect(state.raise(4, to: .visible) == .nothing)

        #expect(state.leave(1).granted == [4])
        #expect(state.leave(2).granted == [5])
    }

    @Test func `a late request is ordered by age, and can leave and be raised`() {
        var state = Self.full()
        for number: UInt64 in [6, 4, 5, 7] { _ = state.enter(number, host: "a", priority: .normal) }
        #expect(state.leave(6) == .nothing)
        #expect(state.raise(5, to: .visible) == .nothing)
        let order = (UInt64(1)...3).flatMap { state.leave($0).granted }

        #expect(order == [5, 4, 7])
        for number in order { _ = state.leave(number) }
        #expect(state.isIdle)
    }

    @Test func `a raised prefetch starts at once if only prefetch slots were full`() {
        var state = Self.state()
        _ = state.enter(1, host: "a", priority: .prefetch)
        _ = state.enter(2, host: "a", priority: .prefetch)

        #expect(state.raise(2, to: .normal).granted == [2])
    }

    @Test func `raising a prefetch in flight makes room for another`() {
        var state = Self.state()
        _ = state.enter(1, host: "a", priority: .prefetch)
        _ = state.enter(2, host: "a", priority: .prefetch)

        #expect(state.raise(1, to: .visible).granted == [2])
    }

    @Test func `a priority never decreases`() {
        var state = Self.full()
        _ = state.enter(4, host: "a", priority: .visible)
        #expect(state.raise(4, to: .prefetch) == .nothing)
        #expect(state.priority(of: 4) == .visible)
    }

    @Test func `a cancelled request leaves the queue`() {
        var state = Self.full()
        _ = state.enter(4, host: "a", priority: .normal)
        _ = state.enter(5, host: "a", priority: .normal)
        #expect(state.leave(4) == .nothing)
        #expect(state.leave(1).granted == [5])
    }

    @Test func `a prefetch is passed over a limited number of times`() {
        var state = Self.full(patience: 4)
        _ = state.enter(4, host: "a", priority: .prefetch)
        for number in UInt64(5)...20 { _ = state.enter(number, host: "a", priority: .visible) }
        var order: [UInt64] = []
        for _ in 1...6 {
            let underWay = ([UInt64](1...3) + order)[order.count]
            order += state.leave(underWay).granted
        }

        #expect(order == [5, 6, 7, 8, 4, 9])
    }

    @Test func `a full queue rejects a new request of no higher priority`() {
        var state = Self.full(waiting: 2)
        _ = state.enter(4, host: "a", priority: .normal)
        _ = state.enter(5, host: "a", priority: .normal)

        #expect(state.enter(6, host: "a", priority: .normal).refused == 6)
        #expect(state.enter(7, host: "a", priority: .prefetch).refused == 7)
        #expect(state.waiting(for: "a") == 2)
    }

    @Test func `a full queue replaces its lowest priority with a higher one`() {
        var state = Self.full(waiting: 3)
        for number in UInt64(4)...6 {
            _ = state.enter(number, host: "a", priority: number == 4 ? .normal : .prefetch)
        }
        #expect(state.enter(7, host: "a", priority: .visible).refused == 6)
        #expect(state.leave(1).granted == [7])
    }

    @Test func `finished requests are forgotten`() {
        var state = Self.full()
        for number in UInt64(1)...3 { _ = state.leave(number) }
        #expect(state.isIdle)
        #expect(state.leave(1) == .nothing)
        #expect(state.raise(1, to: .visible) == .nothing)
    }

    @Test func `invalid limits are corrected`() {
        let low = RequestQueueState.Limits(slots: 0, prefetchSlots: 9, waiting: -1, patience: 0)
        #expect(low == .init(slots: 1, prefetchSlots: 1, waiting: 0, patience: 1))
        let high = RequestQueueState.Limits(slots: 99)
        #expect(high.slots == ClientLimits.mostReadsPerHost)
        #expect(RequestQueueState.Limits(slots: 2, prefetchSlots: 2).prefetchSlots == 1)
    }

    @Test func `calls find a connection even with the maximum number of reads`() {
        #expect(ClientLimits.readsPerHost <= ClientLimits.mostReadsPerHost)
        #expect(ClientLimits.mostReadsPerHost < ClientLimits.connectionsPerHost)
        #expect(ClientLimits.prefetchesPerHost < ClientLimits.readsPerHost)
    }
}
