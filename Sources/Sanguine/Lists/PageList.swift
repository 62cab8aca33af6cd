import SanguineModel
import Synchronization

/// The requirements for an item of a list.
public typealias PageItem = Codable & Sendable & Equatable & Identifiable

/// A run of rows from one response, or the part of it that is left.
struct PageRun: Codable, Hashable, Sendable {
    /// The cursor before the run; `nil` at the list's beginning.
    var start: String?
    /// The number of rows.
    var count: Int
    /// The round of the refresh in which it was last fetched.
    var round: UInt64

    /// Covers the part of the list that an empty run before it covered.
    mutating func takeOver(_ orphan: PageRun) {
        start = orphan.start
        round = min(round, orphan.round)
    }
}

/// The held rows of a list, without gaps.
///
/// This is the value that the cache stores, in memory and on disk. The rows are in one array, so
/// that views need not copy them; the runs mark where pages begin.
///
/// Invariants: the runs' counts are positive and sum to the number of rows; no id occurs twice.
struct PageList<Item: PageItem>: Sendable, Equatable where Item.ID: Sendable {
    var rows: [Item] = []
    var runs: [PageRun] = []
    /// The cursor after the last row, not counting those that are ``appended``; `nil` at the list's
    /// end.
    var next: String?
    /// The number of rows at the end that operations or the app have inserted, before the page at
    /// ``next``.
    var appended = 0
    /// The number of refreshes.
    var round: UInt64 = 0
    /// The operations whose effects are merged into the rows; see ``ListEffect``.
    var folded: Set<Int64> = []
    /// The operations that a row may contain; their effects are not applied to it.
    var possiblyApplied: [Item.ID: PossiblyApplied] = [:]
    /// The rows inserted by applied operations while earlier ones wait, with their operations.
    ///
    /// The row of an earlier operation is inserted as if it had come first, so that the visible
    /// rows keep their order until the backend has both and determines it.
    var overtaking: [Item.ID: Int64] = [:]
    /// Increases with each change, across all lists of the process; 0 if the list was read from
    /// disk.
    var revision: UInt64 = 0

    /// The estimated size of the list's JSON in bytes, based on a sample of its rows.
    var estimatedBytes: Int? {
        let stride = max(1, rows.count / 32)
        let sample = Swift.stride(from: 0, to: rows.count, by: stride).map { rows[$0] }
        guard !sample.isEmpty else { return 0 }
        return (try? StoredCoding.encode(sample)).map { $0.count * rows.count / sample.count }
    }

    /// Returns the index of a run's first row.
    func offset(ofRun index: Int) -> Int {
        runs[..<index].reduce(0) { $0 + $1.count }
    }

    /// Returns the run that contains a row.
    func run(ofRow row: Int) -> Int? {
        var end = 0
        return runs.firstIndex { run in
            end += run.count
            return row < end
        }
    }

    /// Whether the rows from an index on are known to follow the cursor without a gap.
    ///
    /// A page that was loaded with another cursor may not: rows may have been inserted between the
    /// two.
    func follows(_ cursor: String?, at row: Int) -> Bool {
        guard let run = run(ofRow: row), offset(ofRun: run) == row else { return true }
        return runs[run].start == cursor
    }

    /// Removes rows, and runs that become empty.
    ///
    /// A removed run leaves its start to the next one, which then covers its part of the list.
    ///
    /// - Returns: An empty run, if the last one was removed: its start belongs to the rows that
    ///   follow.
    mutating func remove(_ ids: Set<Item.ID>) -> PageRun? {
        let ends = appendedIDs
        defer { countAppended { ends.contains($0) } }
        var kept: [Item] = []
        kept.reserveCapacity(rows.count)
        var keptRuns: [PageRun] = []
        var offset = 0
        var orphan: PageRun?
        for var run in runs {
            let range = offset..<(offset + run.count)
            offset = range.upperBound
            let before = kept.count
            kept += rows[range].filter { !ids.contains($0.id) }
            run.count = kept.count - before
            if let start = orphan { run.takeOver(start) }
            orphan = run.count == 0 ? run : nil
            if run.count > 0 { keptRuns.append(run) }
        }
        rows = kept
        runs = keptRuns
        return orphan
    }

    /// Returns the list with an operation's effect merged into it.
    ///
    /// - Parameters:
    ///   - sequence: The operation.
    ///   - changed: The rows with the effect. A new row belongs to the page of the row before it.
    /// - Returns: The list.
    func merging(_ sequence: Int64, rows changed: [Item]) -> Self {
        var list = arranged(changed)
        list.folded.insert(sequence)
        let own = Set(rows.lazy.map(\.id))
        for row in list.rows where !own.contains(row.id) { list.overtaking[row.id] = sequence }
        return list
    }

    /// Forgets operations that no longer have effects on the list.
    ///
    /// - Parameter waiting: The operations that have effects on the list, in order.
    mutating func forget(allBut waiting: [Int64]) {
        folded.formIntersection(waiting)
        let first = waiting.first { !folded.contains($0) } ?? .max
        overtaking = overtaking.filter { $0.value > first }
    }

    /// Inserts the row of an operation.
    ///
    /// - Parameters:
    ///   - row: The row, which is not in the list.
    ///   - index: The index of the row to insert before; past the end, the row is appended.
    ///   - sequence: The operation.
    mutating func insert(_ row: Item, at index: Int, by sequence: Int64) {
        func isOfLater(_ index: Int) -> Bool { overtaking[rows[index].id] ?? .min > sequence }
        var index = max(0, index)
        if index < rows.count {
            while index < rows.count, isOfLater(index) { index += 1 }
        } else {
            index = rows.count
            while index > 0, isOfLater(index - 1) { index -= 1 }
        }
        rows.insert(row, at: index)
    }

    /// Returns the list with other rows.
    ///
    /// - Parameter changed: The rows. A new row belongs to the page of the row before it.
    /// - Returns: The list.
    func arranged(_ changed: [Item]) -> Self {
        var list = self
        list.rows = []
        var pages: [Item.ID: Int] = [:]
        for page in runs.indices {
            let first = offset(ofRun: page)
            for row in rows[first..<(first + runs[page].count)] { pages[row.id] = page }
        }
        list.runs = runs.isEmpty ? [PageRun(start: nil, count: 0, round: round)] : runs
        for page in list.runs.indices { list.runs[page].count = 0 }
        var page = 0
        var seen: Set<Item.ID> = []
        for row in changed where seen.insert(row.id).inserted {
            page = max(page, pages[row.id] ?? page)
            list.runs[page].count += 1
            list.rows.append(row)
        }
        var orphan: PageRun?
        list.runs = list.runs.compactMap { run in
            var run = run
            if let start = orphan { run.takeOver(start) }
            orphan = run.count == 0 ? run : nil
            return run.count == 0 ? nil : run
        }
        let ends = appendedIDs
        list.countAppended { pages[$0] == nil || ends.contains($0) }
        return list
    }

    /// The ids of the ``appended`` rows.
    var appendedIDs: Set<Item.ID> { Set(rows.suffix(appended).lazy.map(\.id)) }

    /// Counts the ``appended`` rows.
    ///
    /// - Parameter isAppended: Returns whether a row at the end is appended.
    mutating func countAppended(_ isAppended: (Item.ID) -> Bool) {
        appended = next == nil ? 0 : rows.reversed().prefix { isAppended($0.id) }.count
    }

    /// Joins adjacent runs that together are no larger than a page.
    ///
    /// Each refresh splits a run, and a list must not end up as many small ones. Runs of the last
    /// refresh are not joined with older ones, which would then be requested again and again.
    mutating func joinSmallRuns(upTo size: Int) {
        var joined: [PageRun] = []
        for run in runs {
            if let last = joined.last, last.count + run.count <= size,
                (last.round == round) == (run.round == round)
            {
                joined[joined.count - 1].count += run.count
                joined[joined.count - 1].round = min(last.round, run.round)
            } else {
                joined.append(run)
            }
        }
        runs = joined
    }
}

extension PageList: PartlyShown {
    /// The rounds and the origin of the rows are not visible.
    func looksSame(as other: Self) -> Bool { next == other.next && rows == other.rows }
}

extension PageList: Codable {
    private enum CodingKeys: String, CodingKey {
        case rows, runs, next, appended, round, doubted
    }

    /// The operations that a row may contain, by index, because an id need not be `Codable`.
    private struct Doubted: Codable {
        let row: Int
        let operations: Set<Int64>
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        rows = try container.decode([Item].self, forKey: .rows)
        runs = try container.decode([PageRun].self, forKey: .runs)
        next = try container.decodeIfPresent(String.self, forKey: .next)
        let appended = try container.decodeIfPresent(Int.self, forKey: .appended) ?? 0
        self.appended = min(max(0, appended), rows.count)
        round = try container.decode(UInt64.self, forKey: .round)
        let doubted = try container.decodeIfPresent([Doubted].self, forKey: .doubted) ?? []
        for doubted in doubted where rows.indices.contains(doubted.row) {
            possiblyApplied[rows[doubted.row].id] = PossiblyApplied(doubted.operations)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(rows, forKey: .rows)
        try container.encode(runs, forKey: .runs)
        try container.encodeIfPresent(next, forKey: .next)
        if appended > 0 { try container.encode(appended, forKey: .appended) }
        try container.encode(round, forKey: .round)
        guard !possiblyApplied.isEmpty else { return }
        let doubted = rows.indices.compactMap { row in
            possiblyApplied[rows[row].id].map { Doubted(row: row, operations: $0.operations) }
        }
        try container.encode(doubted, forKey: .doubted)
    }
}

/// Assigns increasing revisions to the states of all lists: the higher one is newer.
///
/// They are comparable across sources: a source that is being released may hold an older list than
/// its successor.
enum PageRevision {
    private static let last = Atomic<UInt64>(0)

    static func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
