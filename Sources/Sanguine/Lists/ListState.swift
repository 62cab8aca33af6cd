import SanguineModel

/// What is held of a list and what is under way for it, and the only code that decides what
/// happens next.
///
/// Two lanes, because they do not disturb each other: at the *head* the list is refreshed, a page
/// reviewed, or the page before loaded; at the *tail* the next page is loaded. Each method records
/// one event and returns what ``Parts`` must now do. No I/O, no clock.
///
/// **Refreshing** asks for the first page only. If that connects with the rows that are held, see
/// ``PageAlignment``, it takes the place of those for which it stands, and the others stay behind
/// it. If not, the list begins anew with the fresh page; but if the reader's row (``anchor``, or
/// the one that was ``shown`` last) would be lost, more pages are asked for first, until they
/// connect, contain it, or are too many. Until then the old rows stay.
///
/// **Reviewing.** Rows behind the fresh ones are from an earlier *round*. When one of them is
/// shown, its page is asked for again, from the cursor where it begins, and takes its place by the
/// same rule. So what is on the screen is as new as the refresh, and what is not costs nothing.
///
/// **Further down.** Of a list that was longer than its limit the first pages were dropped. While
/// the reader's row is among those that are held, a refresh leaves these where they are: they count
/// as of an earlier round, rows that are at the list's beginning now leave their old places, and
/// the first page itself is kept for the disk alone, see ``beginning``.
///
/// **Recovering.** A cursor that has expired is replaced by walking from the list's beginning, in
/// the largest pages, to the reader's row or else to the end of what is held. Of two flights that
/// ask for the same part of the list, the one that lands first has the other begin anew: what was
/// asked for earlier never covers what is newer.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. At most one load is under way in each lane.
/// 2. Whoever waits waits for a load that is under way or comes after the one in its lane.
/// 3. No id stands twice; runs are not empty and sum to the rows.
/// 4. At most ``pageLimit`` pages are held, and `PageLimits.cursorsKept` cursors before them.
/// 5. Requests are numbered upwards; only one that is under way can land.
struct ListState<Item: PageItem>: PartsState where Item.ID: Sendable {
    typealias Actions = PartsActions<ListRequest>

    /// A page before the first one that is held.
    struct Dropped: Sendable {
        var start: String?
        /// Its last rows, two at most: where it touches the rows that are held.
        var ends: [Item.ID]
    }

    let pageSize: Int
    let pageLimit: Int
    /// The rows; empty before the first load.
    var list = PageList<Item>()
    /// The list's beginning as the last refresh brought it: what is stored while the rows are of
    /// further down.
    var beginning = PageList<Item>()
    /// See ``PageSpan``.
    private(set) var era: UInt64 = 0
    /// How many rows went before the first one in this era.
    private(set) var droppedInEra = 0
    /// The pages before the rows, the nearest last.
    var dropped: [Dropped] = []
    /// Whether the list was loaded, and may be empty for this reason.
    var isLoaded = false
    /// When the list's beginning arrived; `nil` if the rows are those of the cache's entry.
    var asOf: Timestamp?
    /// Why the last refresh, or load of the page before, failed; `nil` after one that did not.
    var headError: SanguineError?
    /// Which of the two it was.
    var failedHeadLoad: ListLoad?
    /// Why the last load of the next page failed; `nil` after one that did not.
    var tailError: SanguineError?
    /// The first row that the reader sees, if the app tells.
    private(set) var anchor: Item.ID?
    var head: ListFlight<Item>?
    var tail: ListFlight<Item>?
    var ids: Set<Item.ID> = []
    private var checkedSpan: PageSpan?
    /// The row that was shown last.
    private(set) var shown: Item.ID?
    private var waiters: [ListLoad: [UInt64: FetchPriority]] = [:]
    private var lastNumber: UInt64 = 0
    /// The last fetch of the cache's entry that waited for a refresh.
    private var waitingFetch: UInt64 = 0
    /// The last one that a refresh has answered.
    private(set) var answeredFetch: UInt64 = 0
    /// How many more pages may be reviewed before the reader moves on, or refreshes.
    var reviewsLeft = 0
    /// Whether the next page's cursor was renewed for those who wait for the page now.
    var hasRecovered = false
    /// How often what is under way was begun anew because the app has changed rows meanwhile.
    var restarts = 0

    /// Creates the state of a list that was never loaded.
    init(pageSize: Int, pageLimit: Int = PageLimits.kept) {
        self.pageSize = min(max(1, pageSize), PageLimits.largestSize)
        self.pageLimit = max(2, pageLimit)
    }

    // MARK: - Questions

    var hasMore: Bool { list.next != nil }
    var hasPrevious: Bool { !dropped.isEmpty }
    var isIdle: Bool { head == nil && tail == nil }
    /// When the rows that are on their way were asked for, by the cache's count.
    var sentAt: UInt64? { [head?.sentAt, tail?.sentAt].compactMap { $0 }.min() }
    var waiterCount: Int { waiters.values.reduce(0) { $0 + $1.count } }

    func isLoading(_ load: ListLoad) -> Bool { head?.load == load || tail?.load == load }

    /// Whether a refresh has answered the fetch of the cache's entry, which then brings nothing
    /// else and only has to end.
    func hasAnswered(fetch: UInt64) -> Bool { fetch <= answeredFetch }

    /// Whether the row is among the last ones, so that the next page should be on its way.
    func isNearEnd(_ id: Item.ID, distance: Int = PageLimits.prefetchDistance) -> Bool {
        hasMore && list.rows.suffix(distance).contains { $0.id == id }
    }

    // MARK: - Readers

    /// A caller wants something loaded, and waits.
    ///
    /// If there is nothing to load, no more rows say, the caller is answered at once. Without a
    /// list the next page is the first one.
    ///
    /// - Parameters:
    ///   - load: What is to be loaded.
    ///   - waiter: The caller's number.
    ///   - priority: How much it matters.
    ///   - fetch: The number of the fetch of the cache's entry, if that is what waits. Default: 0.
    /// - Returns: What to do now.
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

    /// Whoever waits for such a load wants it more than before.
    mutating func raise(_ load: ListLoad, to priority: FetchPriority) -> Actions {
        defer { checkInvariants() }
        let load = isLoaded ? load : .refresh
        waiters[load] = waiters[load]?.mapValues { max($0, priority) }
        var actions = Actions()
        raise(load, to: priority, &actions)
        return actions
    }

    /// A caller gave up.
    ///
    /// The last one takes the load with it; no other notices.
    mutating func leave(waiter: UInt64) -> Actions {
        defer { checkInvariants() }
        var actions = Actions()
        let load = [ListLoad.next, .refresh, .previous].first { waiters[$0]?[waiter] != nil }
        guard let load else { return actions }
        waiters[load]?[waiter] = nil
        actions.answer = [(waiter, .cancelled)]
        if let flight = head, flight.load != .review, !isWanted(flight.load) {
            actions.cancel.append(flight.number)
            head = nil
        }
        if let flight = tail, !isWanted(.next) {
            actions.cancel.append(flight.number)
            tail = nil
            hasRecovered = false
        }
        proceed(&actions)
        return actions
    }

    /// A row is shown.
    ///
    /// If its page is from before the last refresh, it is asked for again.
    mutating func show(_ id: Item.ID) -> Actions {
        defer { checkInvariants() }
        shown = id
        reviewsLeft = PageLimits.refreshRequests
        var actions = Actions()
        proceed(&actions)
        return actions
    }

    /// The first row that the reader sees; `nil` if that does not matter.
    mutating func setAnchor(_ id: Item.ID?) { anchor = id }

    // MARK: - Life

    /// A list of an earlier process was found.
    ///
    /// Ignored if there is a newer one already.
    mutating func restore(_ list: PageList<Item>) -> Bool {
        defer { checkInvariants() }
        guard !isLoaded, head == nil, list.isValid else { return false }
        replaceList(by: list)
        isLoaded = true
        return true
    }

    /// The same pages, with rows that operations have changed, brought or taken away.
    mutating func amend(_ list: PageList<Item>) -> Actions {
        defer { checkInvariants() }
        replaceList(by: list)
        return Actions(hasNewBase: true)
    }

    /// Takes note of which operations fetched rows may contain.
    ///
    /// - Parameters:
    ///   - doubts: The operations, by row; `nil` if there are no effects any more.
    ///   - rows: The rows.
    mutating func note(_ doubts: [Item.ID: Doubts]?, in rows: [Item]) {
        guard let doubts else { return list.doubts = [:] }
        for row in rows { list.doubts[row.id] = doubts[row.id] }
    }

    /// An operation has reached nobody: no row contains it.
    ///
    /// - Returns: What to do now, or `nil` if no row was in doubt about it.
    mutating func dispel(_ operation: Int64) -> Actions? {
        let rows = list.doubts.filter { $0.value.operations.contains(operation) }.map(\.key)
        guard !rows.isEmpty else { return nil }
        for row in rows {
            list.doubts[row]?.remove(operation)
            if list.doubts[row]?.isEmpty == true { list.doubts[row] = nil }
        }
        return Actions(hasNewBase: true)
    }

    /// The request is sent now, by the cache's count.
    mutating func sent(_ number: UInt64, at moment: UInt64) {
        if head?.number == number, head?.sentAt == nil { head?.sentAt = moment }
        if tail?.number == number, tail?.sentAt == nil { tail?.sentAt = moment }
    }

    /// The request's page has arrived, at that time.
    mutating func arrived(_ number: UInt64, at time: Timestamp) {
        if head?.number == number { head?.arrivedAt = time }
    }

    /// Everything is forgotten, and all that is under way ends: another user is there, or the
    /// client is closed.
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

    // MARK: - For the landings

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    /// Answers all who wait for such a load.
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
        if let flight = head, flight.load == load, flight.priority < priority {
            head?.priority = priority
            actions.raise.append((flight.number, priority))
        }
        if let flight = tail, flight.load == load, flight.priority < priority {
            tail?.priority = priority
            actions.raise.append((flight.number, priority))
        }
    }

    mutating func replaceList(by list: PageList<Item>) {
        self.list = list
        ids = Set(list.rows.lazy.map(\.id))
        rearranged()
    }

    /// Rows changed otherwise than at the list's ends.
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

    /// Starts whatever is wanted and can start.
    mutating func proceed(_ actions: inout Actions) {
        if !hasMore, tail == nil, isLoaded { answer(.next, error: nil, in: &actions) }
        if !hasPrevious, head?.load != .previous { answer(.previous, error: nil, in: &actions) }
        let wanted = [ListLoad.refresh, .previous].first { isWanted($0) }
        if let wanted {
            if let flight = head, flight.load == .review {
                actions.cancel.append(flight.number)
                head = nil
            }
            if head == nil { head = fly(wanted, from: start(of: wanted), &actions) }
        }
        if tail == nil, isWanted(.next), let next = list.next {
            tail = fly(.next, from: next, &actions)
        }
        if head == nil, reviewsLeft > 0, let page = pageToReview() {
            reviewsLeft -= 1
            head = fly(.review, from: page.start, limit: page.count, &actions)
            head?.anchor = shown
        }
    }

    private func start(of load: ListLoad) -> String? {
        load == .previous ? dropped.last?.start : nil
    }

    private mutating func fly(
        _ load: ListLoad,
        from start: String?,
        limit: Int = 0,
        _ actions: inout Actions
    ) -> ListFlight<Item> {
        let flight = ListFlight<Item>(
            number: nextNumber(),
            load: load,
            priority: priority(of: load),
            chain: PageChain(start: start),
            round: load == .refresh ? list.round + 1 : list.round,
            anchor: load == .previous ? list.rows.first?.id : anchor
        )
        actions.start.append(
            ListRequest(
                number: flight.number,
                load: load,
                cursor: start,
                limit: min(max(pageSize, limit), PageLimits.largestSize),
                priority: flight.priority
            )
        )
        return flight
    }

    /// The page of the row that was shown last, if it is from before the last refresh.
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
        assert(head.map { $0.load == .review || isWanted($0.load) } ?? true, "Nobody wants it.")
        assert(tail == nil || isWanted(.next), "Nobody wants the next page.")
        assert(waiters.values.allSatisfy(\.isEmpty) || !isIdle, "A waiter waits for nothing.")
        assert(list.runs.count <= pageLimit && dropped.count <= PageLimits.cursorsKept)
        assert(max(head?.number ?? 0, tail?.number ?? 0) <= lastNumber)
        assert(ids.count == list.rows.count, "An id stands twice.")
        // Of a long list this would cost more than the event.
        guard checkedSpan != span, list.rows.count <= 256 else { return true }
        checkedSpan = span
        assert(list.isValid && list.rows.allSatisfy { ids.contains($0.id) })
        return true
    }
}

extension PageList {
    /// Whether it keeps its invariants.
    var isValid: Bool {
        runs.allSatisfy { $0.count > 0 && $0.round <= round }
            && runs.reduce(0) { $0 + $1.count } == rows.count
            && Set(rows.lazy.map(\.id)).count == rows.count
    }
}
