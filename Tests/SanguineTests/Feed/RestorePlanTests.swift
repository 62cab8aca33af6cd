import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct RestorePlanTests {
    private typealias Range = RecordsFile.Range

    /// A feed whose records have some of its numbers, and the ranges that a device has stored.
    private struct Game {
        let head: Int64
        let numbers: [Int64]
        var stored: [Int: Range] = [:]
        var pages = 0

        init(head: Int64, numbers: [Int64]) {
            self.head = head
            self.numbers = numbers
        }

        /// The plan of a process that finds the stored ranges.
        var plan: RestorePlan {
            let catchingUp = Range(number: 0, low: 0, high: head, reached: head)
            let ranges = [catchingUp] + stored.values.sorted { $0.number < $1.number }
            return RestorePlan(.init(space: 1, ranges: ranges))
        }

        /// Fetches and stores the next page of a range; returns the number of its changes.
        mutating func page(of range: inout Range, limit: Int) -> Int {
            pages += 1
            let first = numbers.partitioningIndex { $0 > range.reached }
            let page = numbers[first...].prefix(min(limit, RecordLimits.pullChanges))
            let hasMore = first + page.count < numbers.count
            range.reached = hasMore ? min(page.last ?? range.high, range.high) : range.high
            stored[range.number] = range
            return page.count { $0 <= range.high }
        }

        /// Whether the stored ranges contain each number once.
        var isComplete: Bool {
            var reached: Int64 = 0
            let ranges = stored.values.filter { $0.reached > $0.low }
            for range in ranges.sorted(by: { $0.low < $1.low }) {
                guard range.low == reached else { return false }
                reached = range.reached
            }
            return reached == head
        }
    }

    /// Restores a whole feed in one process, one range after another.
    private func restore(_ game: inout Game) {
        var plan = game.plan
        while !plan.isDone {
            plan.beginRound()
            while var range = plan.next() {
                while !range.isDone {
                    let start = range.reached
                    let changes = game.page(of: &range, limit: .max)
                    plan.stored(range, from: start, changes: changes)
                }
            }
        }
    }

    @Test func `ranges are returned from the newest to the oldest`() {
        let game = Game(head: 10_500, numbers: Array(1...10_500))
        var plan = game.plan
        var high: Int64 = 10_500
        var count = 0
        while let range = plan.next() {
            #expect(range.high == high && range.low < high)
            high = range.low
            count += 1
        }
        #expect(high == 0 && count == 11)
    }

    @Test func `the newest records are known to be restored after their range only`() {
        var game = Game(head: 3_000, numbers: Array(1...3_000))
        var plan = game.plan
        guard var newest = plan.next(), var older = plan.next() else { return }
        var changes = game.page(of: &older, limit: .max)
        plan.stored(older, from: older.low, changes: changes)
        #expect(!plan.hasNewest && !game.plan.hasNewest)
        changes = game.page(of: &newest, limit: .max)
        plan.stored(newest, from: newest.low, changes: changes)
        #expect(plan.hasNewest && game.plan.hasNewest)
    }

    @Test func `a round has a limited number of ranges`() {
        let game = Game(head: 100_000, numbers: Array(1...100_000))
        var plan = game.plan
        for _ in 0..<RecordLimits.restoreRoundRanges { #expect(plan.next() != nil) }
        #expect(plan.next() == nil && !plan.isDone)
        plan.beginRound()
        #expect(plan.next() != nil)
    }

    @Test func `a feed without gaps takes one page for each thousand records`() {
        var game = Game(head: 100_000, numbers: Array(1...100_000))
        restore(&game)
        #expect(game.isComplete && game.pages == 100)
    }

    @Test func `a feed whose records were changed often takes few pages`() {
        let numbers = (1...3_000).map { Int64($0) * 3_000 }
        var game = Game(head: 9_000_000, numbers: numbers)
        restore(&game)
        #expect(game.isComplete && game.pages < 20)
    }

    @Test func `a feed with a long gap takes few pages`() {
        let numbers = Array(Int64(1)...2_000) + Array(49_999_001...50_000_000)
        var game = Game(head: 50_000_000, numbers: numbers)
        restore(&game)
        #expect(game.isComplete && game.pages < 20)
    }

    @Test(arguments: 1...200) func `each number is restored once in spite of interruptions`(
        _ seed: UInt64
    ) {
        var random = SplitMix64(seed: seed)
        let head = Int64.random(in: 1...60_000, using: &random)
        let share = Int.random(in: 1...20, using: &random)
        let numbers = (1...head).filter { _ in Int.random(in: 0..<20, using: &random) < share }
        var game = Game(head: head, numbers: numbers)
        var (plan, part) = (game.plan, 0.0)
        var open: [Range] = []
        while !plan.isDone {
            if open.isEmpty { plan.beginRound() }
            if open.count < RecordLimits.restoreRanges, let range = plan.next() {
                open.append(range)
                continue
            }
            guard let index = open.indices.randomElement(using: &random) else { break }
            let start = open[index].reached
            let limit = Int.random(in: 1...2, using: &random) == 1 ? .max : 100
            let changes = game.page(of: &open[index], limit: limit)
            plan.stored(open[index], from: start, changes: changes)
            #expect(plan.part >= part && plan.part <= 1, "Seed \(seed)")
            part = plan.part
            if open[index].isDone { open.remove(at: index) }
            if Int.random(in: 0..<10, using: &random) == 0 {
                // The process ends: its fetches are lost, its pages are stored.
                (plan, open) = (game.plan, [])
                #expect(plan.part == part, "Seed \(seed)")
            }
        }
        #expect(game.isComplete && plan.part == 1, "Seed \(seed)")
    }
}

extension [Int64] {
    /// Returns the first index whose element fits; all later ones must fit too.
    fileprivate func partitioningIndex(where fits: (Int64) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if fits(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
