import SanguineModel
import Synchronization

/// What an item of a list must be.
public typealias PageItem = Codable & Sendable & Equatable & Identifiable

/// A run of rows that came in one answer, or what is left of it.
struct PageRun: Codable, Hashable, Sendable {
    /// The cursor that it follows; `nil` at the list's beginning.
    var start: String?
    /// How many rows.
    var count: Int
    /// The refresh since which it was seen.
    var round: UInt64

    /// Covers the part of the list that an emptied run before it covered.
    mutating func takeOver(_ orphan: PageRun) {
        start = orphan.start
        round = min(round, orphan.round)
    }
}

/// The rows of a list as far as they are held: a window without gaps.
///
/// The value that the cache keeps, in memory and on disk. The rows are in one array, so that who
/// shows them copies nothing; the runs say where pages begin.
///
/// Invariants: the runs' counts are positive and sum to the number of rows; no id stands twice.
struct PageList<Item: PageItem>: Sendable, Equatable where Item.ID: Sendable {
    var rows: [Item] = []
    var runs: [PageRun] = []
    /// The cursor that follows the last row, without those that were ``appended``; `nil` at the
    /// list's end.
    var next: String?
    /// The number of rows at the end that operations or the app have inserted there, before what
    /// ``next`` leads to.
    var appended = 0
    /// How often the list was refreshed.
    var round: UInt64 = 0
    /// The operations whose effects on the rows are a part of them, see ``ListEffect``.
    var folded: Set<Int64> = []
    /// The operations that a row may contain: their effects are not applied to it.
    var doubts: [Item.ID: Doubts] = [:]
    /// The rows that done operations have brought while earlier ones wait, with the operations.
    ///
    /// An earlier operation's row is inserted as if it had come before them: the rows that are
    /// shown keep their order until the backend has both, and says which it is.
    var overtaking: [Item.ID: Int64] = [:]
    /// Rises with each change, over all lists of the process; 0 if it is as it was found on disk.
    var revision: UInt64 = 0

    /// What the list costs in bytes of its JSON, by a few of its rows.
    var estimatedBytes: Int? {
        let stride = max(1, rows.count / 32)
        let sample = Swift.stride(from: 0, to: rows.count, by: stride).map { rows[$0] }
        guard !sample.isEmpty else { return 0 }
        return (try? StoredCoding.encode(sample)).map { $0.count * rows.count / sample.count }
    }

    /// Where the run's rows begin.
    func offset(ofRun index: Int) -> Int {
        runs[..<index].reduce(0) { $0 + $1.count }
    }

    /// The run whose rows contain that index.
    func run(ofRow row: Int) -> Int? {
        var end = 0
        return runs.firstIndex { run in
            end += run.count
            return row < end
        }
    }

    /// Whether the rows from that one on are known to follow the cursor without a gap.
    ///
    /// A page that was loaded from another cursor may not: rows may have come between the two.
    func follows(_ cursor: String?, at row: Int) -> Bool {
        guard let run = run(ofRow: row), offset(ofRun: run) == row else { return true }
        return runs[run].start == cursor
    }

    /// Removes rows wherever they stand, and runs that are left without any.
    ///
    /// A run that goes leaves its beginning to the next one, which so covers its part of the list.
    ///
    /// - Returns: A run without rows, if the last one went: its beginning is left to whatever
    ///   follows.
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

    /// The list with an operation's effect as a part of it.
    ///
    /// - Parameters:
    ///   - sequence: The operation.
    ///   - changed: The rows with its effect. One that is new belongs to the page of the row
    ///     before it.
    /// - Returns: The list.
    func folding(_ sequence: Int64, rows changed: [Item]) -> Self {
        var list = arranged(changed)
        list.folded.insert(sequence)
        let own = Set(rows.lazy.map(\.id))
        for row in list.rows where !own.contains(row.id) { list.overtaking[row.id] = sequence }
        return list
    }

    /// Forgets which operations are no longer waited for.
    ///
    /// - Parameter waiting: The operations that have effects on the list, in their order.
    mutating func forget(allBut waiting: [Int64]) {
        folded.formIntersection(waiting)
        let first = waiting.first { !folded.contains($0) } ?? .max
        overtaking = overtaking.filter { $0.value > first }
    }

    /// Inserts the row of an operation.
    ///
    /// - Parameters:
    ///   - row: The row, which is not in the list.
    ///   - place: Before which row; at the end if there are fewer.
    ///   - sequence: The operation.
    mutating func insert(_ row: Item, at place: Int, by sequence: Int64) {
        func isOfLater(_ place: Int) -> Bool { overtaking[rows[place].id] ?? .min > sequence }
        var place = max(0, place)
        if place < rows.count {
            while place < rows.count, isOfLater(place) { place += 1 }
        } else {
            place = rows.count
            while place > 0, isOfLater(place - 1) { place -= 1 }
        }
        rows.insert(row, at: place)
    }

    /// The list with other rows.
    ///
    /// - Parameter changed: The rows. One that is new belongs to the page of the row before it.
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

    /// The ids of the rows that were ``appended``.
    var appendedIDs: Set<Item.ID> { Set(rows.suffix(appended).lazy.map(\.id)) }

    /// Counts the rows that were ``appended``.
    ///
    /// - Parameter isAppended: Whether the row was, if it is at the end.
    mutating func countAppended(_ isAppended: (Item.ID) -> Bool) {
        appended = next == nil ? 0 : rows.reversed().prefix { isAppended($0.id) }.count
    }

    /// Joins neighbours that together are no more than a page.
    ///
    /// Each refresh cuts one, and a list must not end as many small ones. What was seen since the
    /// last refresh is not joined with what was not: that would be asked for for ever.
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
    /// When and how the rows came is not shown.
    func looksSame(as other: Self) -> Bool { next == other.next && rows == other.rows }
}

extension PageList: Codable {
    private enum CodingKeys: String, CodingKey {
        case rows, runs, next, appended, round, doubted
    }

    /// The operations that a row may contain, by its place: an id need not be `Codable`.
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
            doubts[rows[doubted.row].id] = Doubts(doubted.operations)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(rows, forKey: .rows)
        try container.encode(runs, forKey: .runs)
        try container.encodeIfPresent(next, forKey: .next)
        if appended > 0 { try container.encode(appended, forKey: .appended) }
        try container.encode(round, forKey: .round)
        guard !doubts.isEmpty else { return }
        let doubted = rows.indices.compactMap { row in
            doubts[rows[row].id].map { Doubted(row: row, operations: $0.operations) }
        }
        try container.encode(doubted, forKey: .doubted)
    }
}

/// Numbers the states of all lists: of two the one with the higher number is newer.
///
/// Across sources too: one that goes may have an older list than the one that has come.
enum PageRevision {
    private static let last = Atomic<UInt64>(0)

    static func next() -> UInt64 { last.wrappingAdd(1, ordering: .relaxed).newValue }
}
