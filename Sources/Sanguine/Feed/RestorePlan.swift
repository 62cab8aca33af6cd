/// Chooses the ranges of a feed that a restore fetches, the newest first.
///
/// The feed's numbers up to its head are divided into ranges of about one page each, from the head
/// down. A number is restored once the page that contains it is stored. Numbers have gaps where
/// records were changed again or deleted, so the length of a range follows the number of records in
/// the ranges before.
///
/// ```swift
/// var plan = RestorePlan(restore)
/// repeat {
///     plan.beginRound()
///     while let range = plan.next() { /* Fetch its pages, and store each of them. */ }
/// } while !plan.isDone
/// ```
///
/// Pure: the pages are fetched and stored outside.
///
/// Invariants:
///
/// 1. Each number is restored, in a range that ``next()`` has returned, or in a gap.
/// 2. ``restored`` never decreases, and is ``head`` when all ranges are done.
struct RestorePlan: Sendable {
    /// Numbers that no range contains yet: those after `low`, up to `high`.
    private struct Gap {
        var low: Int64
        var high: Int64
    }

    /// The last number of the feed when the restore began.
    let head: Int64
    /// The numbers that are restored.
    private(set) var restored: Int64
    /// Whether the range with the newest records is restored.
    private(set) var hasNewest: Bool
    /// The gaps, ascending.
    private var gaps: [Gap]
    /// The length of the next range.
    private var length = RecordLimits.restoreRangeNumbers
    private var lastRange: Int
    /// The number of ranges of a round.
    private let round: Int
    /// The number of ranges that may be returned before the next round.
    private var rest: Int

    /// Creates the plan for the numbers that a restore lacks.
    init(_ restore: RecordsFile.Restore, round: Int = RecordLimits.restoreRoundRanges) {
        self.round = round
        rest = round
        head = restore.head
        let done = restore.ranges.filter { $0.number != RecordsFile.Range.catchingUp }
        lastRange = done.map(\.number).max() ?? 0
        gaps = []
        var low: Int64 = 0
        for range in done.sorted(by: { $0.low < $1.low }) where min(range.reached, head) > low {
            if range.low > low { gaps.append(Gap(low: low, high: range.low)) }
            low = min(range.reached, head)
        }
        if low < head { gaps.append(Gap(low: low, high: head)) }
        hasNewest = low >= head
        restored = head - gaps.reduce(0) { $0 + $1.high - $1.low }
    }

    /// Whether every number is restored.
    var isDone: Bool { restored >= head }

    /// The restored part, from 0 to 1.
    var part: Double { head > 0 ? Double(restored) / Double(head) : 1 }

    /// Begins another round of ranges.
    mutating func beginRound() { rest = round }

    /// Returns the newest range that was not returned yet; `nil` if the round is over.
    mutating func next() -> RecordsFile.Range? {
        guard rest > 0, let last = gaps.indices.last else { return nil }
        rest -= 1
        let gap = gaps[last]
        let low = max(gap.low, gap.high - length)
        if low > gap.low { gaps[last].high = low } else { gaps.removeLast() }
        lastRange += 1
        return RecordsFile.Range(number: lastRange, low: low, high: gap.high, reached: low)
    }

    /// Records that a page of a range is stored.
    ///
    /// - Parameters:
    ///   - range: The range, with the number that the page reaches.
    ///   - start: The number that was reached before.
    ///   - changes: The number of the page's changes in the range.
    mutating func stored(_ range: RecordsFile.Range, from start: Int64, changes: Int) {
        let numbers = min(range.reached, range.high) - start
        restored += numbers
        if range.isDone, range.high == head { hasNewest = true }
        let full = RecordLimits.pullChanges
        if !range.isDone {
            // The page was full before its end, or its records are large.
            length = max(1, numbers)
        } else if start == range.low, changes < full / 2 {
            let fitting = numbers * Int64(full - full / 10) / Int64(max(1, changes))
            length = max(length, min(numbers * Self.growth, fitting))
        }
    }

    /// The factor by which a range may be longer than the one before.
    private static let growth: Int64 = 8
}
