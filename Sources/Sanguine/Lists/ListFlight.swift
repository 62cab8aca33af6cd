import SanguineModel

/// What a list can be asked to load.
enum ListLoad: Hashable, Sendable {
    /// The list from its beginning.
    case refresh
    /// The page before the first one that is held.
    case previous
    /// A page that was seen before the last refresh and is shown now.
    case review
    /// The page after the last one that is held.
    case next
}

/// One request for a page, for the shell to send.
struct ListRequest: PartRequest, Hashable {
    /// Its number: what brings the answer back, and what a cancellation names.
    var number: UInt64
    var load: ListLoad
    /// The cursor to pass; `nil` for the list's beginning.
    var cursor: String?
    /// How many rows to ask for.
    var limit: Int
    var priority: FetchPriority
}

/// The pages that one load has brought so far, in sequence and without a gap.
struct PageChain<Item: PageItem>: Sendable where Item.ID: Sendable {
    private(set) var rows: [Item] = []
    private(set) var ids: Set<Item.ID> = []
    private(set) var runs: [PageRun] = []
    /// The cursor that the chain follows.
    let start: String?
    /// The cursor that follows the chain; `nil` if the list ends there.
    private(set) var next: String?
    private(set) var requests = 0

    init(start: String?) {
        self.start = start
        next = start
    }

    /// Leaves rows out that stand elsewhere, in a newer version.
    mutating func leaveOut(_ newer: Set<Item.ID>) {
        guard !ids.isDisjoint(with: newer) else { return }
        var list = PageList<Item>(rows: rows, runs: runs)
        _ = list.remove(newer)
        (rows, runs) = (list.rows, list.runs)
        ids.subtract(newer)
    }

    /// Takes over the answer to the request for ``next``.
    mutating func append(_ page: ListPage<Item>, round: UInt64) {
        let cursor = next
        requests += 1
        // Twice in one answer is a fault of the backend.
        var seen: Set<Item.ID> = []
        let fresh = page.items.filter { seen.insert($0.id).inserted }
        // Twice in two answers is a row that moved down between them: the newer one counts.
        var gap: PageRun?
        if !ids.isDisjoint(with: seen) {
            var list = PageList<Item>(rows: rows, runs: runs)
            gap = list.remove(seen)
            (rows, runs) = (list.rows, list.runs)
        }
        rows += fresh
        ids.formUnion(seen)
        if !fresh.isEmpty {
            var run = PageRun(start: cursor, count: fresh.count, round: round)
            if let gap { run.takeOver(gap) }
            runs.append(run)
        }
        // A cursor that leads nowhere else would be followed for ever.
        next = page.following == cursor ? nil : page.following
    }
}

/// A load under way.
struct ListFlight<Item: PageItem>: Sendable where Item.ID: Sendable {
    /// The number of its request under way.
    var number: UInt64
    let load: ListLoad
    var priority: FetchPriority
    var chain: PageChain<Item>
    /// The refresh that its rows count from.
    var round: UInt64
    /// The row that must stay reachable.
    var anchor: Item.ID?
    /// When its first request was sent, by the cache's count; its rows are as old as that.
    var sentAt: UInt64?
    /// When its last page arrived.
    var arrivedAt: Timestamp?
    /// Whether it walks from the beginning, because its cursor has expired.
    var isRecovering = false
}
