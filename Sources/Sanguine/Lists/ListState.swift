import SanguineModel

/// The held rows of a list and its loads.
///
/// Only this type decides what is loaded next.
///
/// Loads run in two independent directions: at the *head*, the list is refreshed, a page is
/// reviewed, or the previous page is loaded; at the *tail*, the next page is loaded. Each method
/// records one event and returns the actions for ``PartFetcher``. No I/O, no clock.
///
/// **Refreshing** requests only the first page. If it connects with the held rows, see
/// ``PageAlignment``, it replaces those that it covers, and the others stay behind it. Otherwise
/// the list starts over with the fresh page. If that would lose the reader's row (``anchor``, or
/// the row that was ``shown`` last), more pages are requested first, until they connect, contain
/// the row, or are too many. Until then, the old rows stay.
///
/// **Reviewing.** Rows behind the fresh ones belong to an earlier *round*. When one of them becomes
/// visible, its page is requested again, from the cursor at which it begins, and replaced by the
/// same rule. So the visible rows are as new as the refresh, and the others cost nothing.
///
/// **Further down.** If a list exceeds its limit, its first pages are dropped. While the reader's
/// row is held, a refresh leaves the held rows in place: they count as rows of an earlier round,
/// rows that are now at the list's beginning are removed from them, and the first page is stored
/// only on disk; see ``beginning``.
///
/// **Recovering.** An expired cursor is replaced by walking from the list's beginning, in the
/// largest pages, to the reader's row or else to the end of the held rows. If two loads request the
/// same part of the list, the first one that completes makes the other start over: an earlier
/// request never overwrites newer rows.
///
/// Invariants, checked after each event in debug builds:
///
/// 1. At most one load is in progress in each direction.
/// 2. Each waiting caller waits for a load that is in progress, or that follows the current one in
///    its direction.
/// 3. No id occurs twice; runs are not empty, and their counts sum to the number of rows.
/// 4. At most ``pageLimit`` pages are held, and `PageLimits.cursorsKept` cursors before them.
/// 5. Request numbers increase; only a request in progress can complete.
struct ListState<Item: PageItem>: PartFetchState where Item.ID: Sendable {
    typealias Actions = PartFetchActions<ListRequest>

    /// A dropped page before the first held one.
    struct Dropped: Sendable {
        var start: String?
        /// Its last rows, at most two, which precede the held rows.
        var ends: [Item.ID]
    }

    let pageSize: Int
    let pageLimit: Int
    /// The rows; empty before the first load.
    var list = PageList<Item>()
    /// The list's beginning from the last refresh, which is stored on disk while the held rows are
    /// further down.
    var beginning = PageList<Item>()
    /// See ``PageSpan``.
    private(set) var era: UInt64 = 0
    /// The number of rows dropped at the beginning in this era.
    private(set) var droppedInEra = 0
    /// The dropped pages before the rows, nearest last.
    var dropped: [Dropped] = []
    /// Whether the list was loaded.
    ///
    /// A loaded list may be empty.
    var isLoaded = false
    /// The time at which the list's beginning arrived; `nil` if the rows come from the cache's
    /// entry.
    var asOf: Timestamp?
    /// The error of the last refresh or load of the previous page; `nil` if it succeeded.
    var headError: SanguineError?
    /// The load that ``headError`` belongs to.
    var failedHeadLoad: ListLoad?
    /// The error of the last load of the next page; `nil` if it succeeded.
    var tailError: SanguineError?
    /// The first row that the reader sees, if the app has set it.
    private(set) var anchor: Item.ID?
    var head: ListFetch<Item>?
    var tail: ListFetch<Item>?
    var ids: Set<Item.ID> = []
    private var checkedSpan: PageSpan?
    /// The row that was shown last.
    private(set) var shown: Item.ID?
    private var waiters: [ListLoad: [UInt64: FetchPriority]] = [:]
    private var lastNumber: UInt64 = 0
    /// The last fetch of the cache's entry that waited for a refresh.
    private var waitingFetch: UInt64 = 0
    /// The last fetch of the cache's entry that a refresh has answered.
    private(set) var answeredFetch: UInt64 = 0
    /// The number of pages that may be reviewed before the reader moves on or refreshes.
    var reviewsLeft = 0
    /// Whether the next page's cursor was renewed for the callers that wait for the page.
    var hasRecovered = false
    /// The number of times that loads started over because the app changed rows.
    var restarts = 0

    /// Creates the state of a list that is not loaded.
    init(pageSize: Int, pageLimit: Int = PageLimits.kept) {
        self.pageSize = min(max(1, pageSize), PageLimits.largestSize)
        self.pageLimit = max(2, pageLimit)
    }

    // MARK: - Queries

    var hasMore: Bool { list.next != nil }
    var hasPrevious: Bool { !dropped.isEmpty }
    var isIdle: Bool { head == nil && tail == nil }
    /// The cache's count at which the rows that are being loaded were requested.
    var sentAt: UInt64? { [head?.sentAt, tail?.sentAt].compactMap { $0 }.min() }
    var waiterCount: Int { waiters.values.reduce(0) { $0 + $1.count } }

    func isLoading(_ load: ListLoad) -> Bool { head?.load == load || tail?.load == load }

    /// Whether a refresh has answered a fetch of the cache's entry, which then only has to end.
    func hasAnswered(fetch: UInt64) -> Bool { fetch <= answeredFetch }

    /// Whether the row is near the list's end, so that the next page should be loaded.
    func isNearEnd(_ id: Item.ID, distance: Int = PageLimits.prefetchDistance) -> Bool {
        hasMore && list.rows.suffix(distance).contains { $0.id == id }
    }

    // MARK: - Readers

    /// Adds a caller that waits for a load.
    ///
    /// If there is nothing to load, for example at the list's end, the caller is answered at once.
    /// Without a list, the next page is the first one.
    ///
    /// - Parameters:
    ///   - load: The load.
    ///   - waiter: The caller's number.
    ///   - priority: The priority. Default: normal.
    ///   - fetch: The number of the cache entry's fetch, if it is the caller. Default: 0.
    /// - Returns: The actions to perform.
    mutating func join(
        _ load: ListLoad,
        waiter: UInt64,
        priority: FetchPriority = .normal,
        fetch: UInt64 = 0
    ) -> Actions {
        defer { checkInvariants() }
        waitingFetch = max(waitingFetch, fetch)
        let load = isLoaded ? load : .refresh
        waiters[load, default: [:]][waiter] = priority
        var actions = Actions()
        raise(load, to: priority, &actions)
        proceed(&actions)
        return actions
    }

    /// Raises the priority of all callers that wait for a load.
    mutating func raise(_ load: ListLoad, to priority: FetchPriority) -> Actions {
        defer { checkInvariants() }
        let load = isLoaded ? load : .refresh
        waiters[load] = waiters[load]?.mapValues { max($0, priority) }
        var actions = Actions()
        raise(load, to: priority, &actions)
        return actions
    }

    /// Removes a cancelled caller.
    ///
    /// The load is cancelled with its last caller; other callers are not affected.
    mutating func leave(waiter: UInt64) -> Actions {
        defer { checkInvariants() }
        var actions = Actions()
        let load = [ListLoad.next, .refresh, .previous].first { waiters[$0]?[waiter] != nil }
        guard let load else { return actions }
        waiters[load]?[waiter] = nil
        actions.answer = [(waiter, .cancelled)]
        if let fetch = head, fetch.load != .review, !isWanted(fetch.load) {
            actions.cancel.append(fetch.number)
            head = nil
        }
        if let fetch = tail, !isWanted(.next) {
            actions.cancel.append(fetch.number)
            tail = nil
            hasRecovered = false
        }
        proceed(&actions)
        return actions
    }

    /// Records that a row is visible.
    ///
    /// A page that was loaded before the last refresh is requested again.
    mutating func show(_ id: Item.ID) -> Actions {
        defer { checkInvariants() }
        shown = id
        reviewsLeft = PageLimits.refreshRequests
        var actions = Actions()
        proceed(&actions)
        return actions
    }

    /// Sets the first row that the reader sees; `nil` if it does not matter.
    mutating func setAnchor(_ id: Item.ID?) { anchor = id }

    // MARK: - Start and end

    /// Restores a list of an earlier process.
    ///
    /// Ignored if there is a newer one.
    mutating func restore(_ list: PageList<Item>) -> Bool {
        defer { checkInvariants() }
        guard !isLoaded, head == nil, list.isValid else { return false }
        replaceList(by: list)
        isLoaded = true
        return true
    }

    /// Replaces the rows of the same pages after operations have changed, inserted or removed some.
    mutating func replaceRows(_ list: PageList<Item>) -> Actions {
        defer { checkInvariants() }
        replaceList(by: list)
        return Actions(hasNewBase: true)
    }

    /// Records the operations that fetched rows may contain.
    ///
    /// - Parameters:
    ///   - possiblyApplied: The operations, by row; `nil` if there are no more effects.
    ///   - rows: The rows.
    mutating func recordPossiblyApplied(
        _ possiblyApplied: [Item.ID: PossiblyApplied]?,
        in rows: [Item]
    ) {
        guard let possiblyApplied else { return list.possiblyApplied = [:] }
        for row in rows { list.possiblyApplied[row.id] = possiblyApplied[row.id] }
    }

    /// Records that an operation has not reached the backend, so that no row contains it.
    ///
    /// - Returns: The actions to perform, or `nil` if it is certain for all rows already.
    mutating func clearPossiblyApplied(_ operation: Int64) -> Actions? {
        let rows = list.possiblyApplied.filter { $0.value.operations.contains(operation) }.map(
            \.key
        )
        guard !rows.isEmpty else { return nil }
        for row in rows {
            list.possiblyApplied[row]?.remove(operation)
            if list.possiblyApplied[row]?.isEmpty == true { list.possiblyApplied[row] = nil }
        }
        return Actions(hasNewBase: true)
    }

    /// Records the cache's count at which a request was sent.
    mutating func sent(_ number: UInt64, at moment: UInt64) {
        if head?.number == number, head?.sentAt == nil { head?.sentAt = moment }
        if tail?.number == number, tail?.sentAt == nil { tail?.sentAt = moment }
    }

    /// Records the time at which a request's page arrived.
    mutating func arrived(_ number: UInt64, at time: Timestamp) {
        if head?.number == number { head?.arrivedAt = time }
    }

    /// Clears all state and cancels all loads, because the user has changed or the client is
    /// closed.
    mutating func reset(_ error: SanguineError) -> Actions {
        defer { checkInvariants() }
        let actions = Actions(
            cancel: [head, tail].compactMap { $0?.number },
            hasNewBase: isLoaded,
            answer: waiters.values.flatMap { $0.keys.map { ($0, error) } }
        )
        waiters = [:]
        head = nil
        tail = nil
        replaceList(by: PageList())
        beginning = PageList()
        dropped = []
        isLoaded = false
        asOf = nil
        headError = nil
        failedHeadLoad = nil
        tailError = nil
        anchor = nil
        shown = nil
        reviewsLeft = 0
        hasRecovered = false
        restarts = 0
        return actions
    }

    // MARK: - Used when pages arrive

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Answers all callers that wait for a load.
    mutating func answer(_ load: ListLoad, error: SanguineError?, in actions: inout Actions) {
        if load == .next { hasRecovered = false }
        if load == .refresh { answeredFetch = waitingFetch }
        guard let answered = waiters.removeValue(forKey: load) else { return }
        for waiter in answered.keys { actions.answer.append((waiter, error)) }
    }

    func isWanted(_ load: ListLoad) -> Bool { !(waiters[load]?.isEmpty ?? true) }

    func priority(of load: ListLoad) -> FetchPriority { waiters[load]?.values.max() ?? .normal }

    private mutating func raise(
        _ load: ListLoad,
        to priority: FetchPriority,
        _ actions: inout Actions
    ) {
        if let fetch = head, fetch.load == load, fetch.priority < priority {
            head?.priority = priority
            actions.raise.append((fetch.number, priority))
        }
        if let fetch = tail, fetch.load == load, fetch.priority < priority {
            tail?.priority = priority
            actions.raise.append((fetch.number, priority))
        }
    }

    mutating func replaceList(by list: PageList<Item>) {
        self.list = list
        ids = Set(list.rows.lazy.map(\.id))
        rearranged()
    }

    /// Records that rows changed other than at the list's ends.
    mutating func rearranged() {
        era += 1
        droppedInEra = 0
    }

    mutating func removeFirstRun() {
        let run = list.runs.removeFirst()
        let ends = list.rows[..<run.count].suffix(2).map(\.id)
        dropped.append(Dropped(start: run.start, ends: ends))
        if dropped.count > PageLimits.cursorsKept { dropped.removeFirst() }
        for row in list.rows[..<run.count] { ids.remove(row.id) }
        list.rows.removeFirst(run.count)
        list.appended = min(list.appended, list.rows.count)
        droppedInEra += run.count
    }

    mutating func removeLastRun() {
        let run = list.runs.removeLast()
        for row in list.rows.suffix(run.count) { ids.remove(row.id) }
        list.rows.removeLast(run.count)
        list.next = run.start
        list.appended = 0
        rearranged()
    }

    /// Starts all loads that are requested and can start.
    mutating func proceed(_ actions: inout Actions) {
        if !hasMore, tail == nil, isLoaded { answer(.next, error: nil, in: &actions) }
        if !hasPrevious, head?.load != .previous { answer(.previous, error: nil, in: &actions) }
        let wanted = [ListLoad.refresh, .previous].first { isWanted($0) }
        if let wanted {
            if let fetch = head, fetch.load == .review {
                actions.cancel.append(fetch.number)
                head = nil
            }
            if head == nil { head = startFetch(wanted, from: start(of: wanted), &actions) }
        }
        if tail == nil, isWanted(.next), let next = list.next {
            tail = startFetch(.next, from: next, &actions)
        }
        if head == nil, reviewsLeft > 0, let page = pageToReview() {
            reviewsLeft -= 1
            head = startFetch(.review, from: page.start, limit: page.count, &actions)
            head?.anchor = shown
        }
    }

    private func start(of load: ListLoad) -> String? {
        load == .previous ? dropped.last?.start : nil
    }

    private mutating func startFetch(
        _ load: ListLoad,
        from start: String?,
        limit: Int = 0,
        _ actions: inout Actions
    ) -> ListFetch<Item> {
        let fetch = ListFetch<Item>(
            number: nextNumber(),
            load: load,
            priority: priority(of: load),
            chain: PageChain(start: start),
            round: load == .refresh ? list.round + 1 : list.round,
            anchor: load == .previous ? list.rows.first?.id : anchor
        )
        actions.start.append(
            ListRequest(
                number: fetch.number,
                load: load,
                cursor: start,
                limit: min(max(pageSize, limit), PageLimits.largestSize),
                priority: fetch.priority
            )
        )
        return fetch
    }

    /// Returns the page of the row that was shown last, if it was loaded before the last refresh.
    private mutating func pageToReview() -> PageRun? {
        guard let shown else { return nil }
        var offset = 0
        for run in list.runs {
            let range = offset..<(offset + run.count)
            offset = range.upperBound
            guard run.round < list.round else { continue }
            if list.rows[range].contains(where: { $0.id == shown }) { return run }
        }
        reviewsLeft = 0
        return nil
    }

    mutating func checkInvariants() {
        assert(keepsInvariants())
    }

    private mutating func keepsInvariants() -> Bool {
        assert(head?.load != .next && tail?.load ?? .next == .next)
        assert(head.map { $0.load == .review || isWanted($0.load) } ?? true, "Unwanted load.")
        assert(tail == nil || isWanted(.next), "No caller or observer needs the next page.")
        assert(waiters.values.allSatisfy(\.isEmpty) || !isIdle, "A waiter has no load.")
        assert(list.runs.count <= pageLimit && dropped.count <= PageLimits.cursorsKept)
        assert(max(head?.number ?? 0, tail?.number ?? 0) <= lastNumber)
        assert(ids.count == list.rows.count, "An id occurs twice.")
        // For a long list, this check would cost more than the event.
        guard checkedSpan != span, list.rows.count <= 256 else { return true }
        checkedSpan = span
        assert(list.isValid && list.rows.allSatisfy { ids.contains($0.id) })
        return true
    }
}

extension PageList {
    /// Whether the list satisfies its invariants.
    var isValid: Bool {
        runs.allSatisfy { $0.count > 0 && $0.round <= round }
            && runs.reduce(0) { $0 + $1.count } == rows.count
            && Set(rows.lazy.map(\.id)).count == rows.count
    }
}
