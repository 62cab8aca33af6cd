import Testing

@testable import Sanguine

/// Recovery from expired cursors.
extension ListStateTests {
    @Test mutating func `a list continues from its position when its cursor expires further down`()
        throws
    {
        try loadSix(next: "x")
        let stale = try request(.next)
        let recovery = try expire(stale)
        let first = try complete(
            try #require(recovery.start.first),
            page("abcdefghijkl", next: "l2")
        )
        #expect(first.start.map(\.cursor) == ["l2"])
        #expect(shown == "efghijklmnopqrstuvwx")
        let walk = try #require(first.start.first)
        let second = try complete(walk, page("mnopqrstuvwx", next: "x2"))
        let next = try #require(second.start.first)
        #expect(next.cursor == "x2")
        _ = try complete(next, page("yz", next: nil))

        #expect(shown == "abcdefghijklmnopqrstuvwxyz")
    }

    @Test mutating func `an expired cursor is renewed from the beginning, in large pages`() throws {
        try loadThree()
        let stale = try request(.next)
        let recovery = try expire(stale)
        let walk = try #require(recovery.start.first)
        #expect(walk.cursor == nil)
        #expect(walk.limit == PageLimits.largestSize)
        #expect(shown == "abcdefghijkl")
        let nextEffect = try complete(walk, page("abcdefgijkl", next: "l2"))
        let next = try #require(nextEffect.start.first)
        #expect(next.cursor == "l2")
        #expect(shown == "abcdefgijkl")
        let effect = try complete(next, page("mnop", next: nil))

        #expect(effect.answer.map(\.error) == [nil])
        #expect(shown == "abcdefgijklmnop")
    }

    @Test mutating func `a cursor that is refused twice is an error`() throws {
        try loadThree()
        let error = SanguineError.queryFailed(ClosureFailure("gone"))
        let stale = try request(.next)
        let recovery = try expire(stale, error)
        let walk = try #require(recovery.start.first)
        let nextEffect = try complete(walk, page("abcdefghijkl", next: "l2"))
        let next = try #require(nextEffect.start.first)
        let effect = try expire(next, error)

        #expect(effect.start.isEmpty)
        #expect(effect.answer.map(\.error) == [error])
    }

    @Test mutating func `a cursor is renewed once per load`() throws {
        try loadThree()
        for _ in 1...2 {
            let recovery = try expire(try request(.next))
            let walk = try #require(recovery.start.first)
            #expect(walk.cursor == nil)
            // Nothing is left to load, so no page follows.
            let effect = try complete(walk, page("abcdefghijkl", next: nil))
            #expect(effect.answer.map(\.error) == [nil])
            try load(.refresh, page("wxyz", next: "z"))
        }
    }

    @Test mutating func `a refresh that completes during a search restarts the search`() throws {
        try loadThree()
        let refresh = try request(.refresh)
        let recovery = try expire(try request(.next))
        let walk = try #require(recovery.start.first)
        let completed = try complete(refresh, page("xabc", next: "c2"))

        #expect(completed.cancel == [walk.number])
        #expect(completed.start.map(\.cursor) == ["l"])
        let again = try expire(try #require(completed.start.first))
        #expect(again.start.map(\.cursor) == [nil])
    }

    @Test mutating func `a search that finds the position restarts a refresh in flight`() throws {
        try loadThree()
        let recovery = try expire(try request(.next))
        let walk = try #require(recovery.start.first)
        let refresh = try request(.refresh)
        let completed = try complete(walk, page("abcdefghijkl", next: "l2"))

        #expect(completed.cancel == [refresh.number])
        #expect(Set(completed.start.map(\.load)) == [.refresh, .next])
    }
}
