import SanguineModel

/// The loads that a list supports.
enum ListLoad: Hashable, Sendable {
    /// The list from its beginning.
    case refresh
    /// The page before the first held one.
    case previous
    /// A visible page that was loaded before the last refresh.
    case review
    /// The page after the last held one.
    case next
}

/// A request for one page, to be sent by the shell.
struct ListRequest: PartRequest, Hashable {
    /// Its number, which identifies it when its response arrives or when it is cancelled.
    var number: UInt64
    var load: ListLoad
    /// The cursor to pass; `nil` for the list's beginning.
    var cursor: String?
    /// The number of rows to request.
    var limit: Int
    var priority: FetchPriority
}

/// The consecutive pages that one load has fetched so far.
struct PageChain<Item: PageItem>: Sendable where Item.ID: Sendable {
    private(set) var rows: [Item] = []
    private(set) var ids: Set<Item.ID> = []
    private(set) var runs: [PageRun] = []
    /// The cursor before the chain.
    let start: String?
    /// The cursor after the chain; `nil` if the list ends there.
    private(set) var next: String?
    private(set) var requests = 0

    init(start: String?) {
        self.start = start
        next = start
    }

    /// Removes rows that are held elsewhere in a newer version.
    mutating func leaveOut(_ newer: Set<Item.ID>) {
        guard !ids.isDisjoint(with: newer) else { return }
        var list = PageList<Item>(rows: rows, runs: runs)
        _ = list.remove(newer)
        (rows, runs) = (list.rows, list.runs)
        ids.subtract(newer)
    }

    /// Appends the response to the request for ``next``.
    mutating func append(_ page: ListPage<Item>, round: UInt64) {
        let cursor = next
        requests += 1
        // An id that occurs twice in one response is an error of the backend.
        var seen: Set<Item.ID> = []
        let fresh = page.items.filter { seen.insert($0.id).inserted }
        // An id in two responses is a row that moved down in between; the newer one counts.
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
        // A cursor that does not advance would be followed forever.
        next = page.following == cursor ? nil : page.following
    }
}

/// A load in progress.
struct ListFetch<Item: PageItem>: Sendable where Item.ID: Sendable {
    /// The number of its current request.
    var number: UInt64
    let load: ListLoad
    var priority: FetchPriority
    var chain: PageChain<Item>
    /// The number of the refresh to which its rows belong.
    var round: UInt64
    /// The row that must stay reachable.
    var anchor: Item.ID?
    /// The cache's count when its first request was sent, which is the age of its rows.
    var sentAt: UInt64?
    /// The time at which its last page arrived.
    var arrivedAt: Timestamp?
    /// Whether it walks from the list's beginning because its cursor has expired.
    var isRecovering = false
}
