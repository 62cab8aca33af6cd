import SanguineModel
import Synchronization

/// The source of a range query's entry: fetches the missing values.
///
/// ``RangeState`` decides, ``PartFetcher`` acts. The entry's value contains the known values, and
/// the cache handles every other change and invalidation of it.
///
/// Invariant: a request ends in the same step in which its values are written to the cache. A
/// reader sees either the request or its values.
///
/// Mutable state: `query`, protected by its mutex; no call is made while it is held.
final class RangeSource<Index: RangeIndex, Value: Codable & Sendable & Equatable>: PartedSource {
    typealias Contents = RangeContents<Value>
    typealias Values = RangeValues<Index, Value>

    private let parts: PartFetcher<RangeState>
    private let queries: QueryCache
    private var entries: Entries { queries.entries }
    private let policy: Policy
    private let plain: RangeQuery<Index, Value>
    private let query: Mutex<RangeQuery<Index, Value>>

    init(_ query: RangeQuery<Index, Value>, in queries: QueryCache) {
        self.queries = queries
        policy = query.policy
        plain = query
        self.query = Mutex(query)
        let state = RangeState(priority: query.policy.priority)
        parts = PartFetcher(state, of: query.key, query.policy, in: queries)
        parts.onStart { [weak self] request, priority, cacheScope in
            await self?.runRequest(request, priority, cacheScope)
        }
    }

    /// The cache's entry; fetching it fetches the missing values of its watchers.
    private var entry: ValueQuery<Contents> {
        plain.entry { [weak self] request in
            request.fetchContext.settle()
            guard let self else { throw SanguineError.closed }
            try await loadWatched()
            return entries.peek(entry) ?? Contents()
        }
    }

    /// Replaces the query, so that later requests use its closure.
    func replaceQuery(_ query: RangeQuery<Index, Value>) { self.query.withLock { $0 = query } }

    func switchUser(to user: CacheScope, device: CacheScope?) -> Delivery {
        parts.switchUser(to: user, device: device)
    }

    var isUnderWay: Bool { parts.isUnderWay }

    func close() { parts.close() }

    /// The number of watchers, for tests.
    var watcherCount: Int { parts.withState { $0.watchers.count } }

    // MARK: - Reading

    /// Returns the known values without waiting.
    ///
    /// - Parameters:
    ///   - range: The range.
    ///   - watcher: The watcher whose last error is included. Default: none.
    /// - Returns: The values, and the ranges without known ones.
    func snapshot(_ range: ClosedRange<Index>, for watcher: UInt64? = nil) -> Values {
        guard let positions = Index.positions(range) else {
            return .unknown(range)
        }
        parts.withState { $0.touch(positions) }
        let isUnderWay = parts.withState { $0.isFetching(positions) }
        var snapshot = entries.restoredSnapshot(of: entry.erased)
        let (isFetching, error) = parts.withState { state in
            (state.isFetching(positions), watcher.flatMap { state.watchers[$0]?.error })
        }
        // A request has ended in the meantime: its values were written in the same step.
        if isFetching != isUnderWay { snapshot = entries.restoredSnapshot(of: entry.erased) }
        let contents = contents(of: snapshot)
        let known = contents.coverage.positions(in: positions) { _ in true }
        let fresh = snapshot.isFresh ? self.fresh(positions, in: contents) : RangeSet()
        var values: [Index: Value] = [:]
        for range in known.ranges {
            for position in range {
                if let value = contents.values[position] {
                    values[Index(position: position)] = value
                }
            }
        }
        return Values(
            range: range,
            values: values,
            missing: RangeSet(positions).subtracting(known).ranges.map(Index.indices),
            stale: known.subtracting(fresh).ranges.map(Index.indices),
            isFetching: isFetching,
            error: error
        )
    }

    /// Returns the values of the range, after it has fetched missing and stale ones.
    func values(
        _ range: ClosedRange<Index>,
        refreshing: Bool
    ) async throws(SanguineError) -> [Index: Value] {
        guard let positions = Index.positions(range, upTo: RangeLimits.readSpan) else {
            throw .rangeTooLong(limit: RangeLimits.readSpan)
        }
        queries.allowSignIn()
        // Fetched values can be gone already if memory is short, or if other ranges displace them
        // in the same moment.
        for _ in 0..<3 {
            try await load(RangeSet(positions), refreshing: refreshing)
            let known = snapshot(range)
            if known.missing.isEmpty { return known.values }
        }
        throw .queryFailed(
            ClosureFailure("memory was too small for the range's values; raise 'memoryBytes'")
        )
    }

    /// Returns when all positions are known, and fresh or just fetched.
    private func load(
        _ wanted: RangeSet<Int>,
        refreshing: Bool
    ) async throws(SanguineError) {
        guard !entries.snapshot(of: entry.erased).isConflicting else {
            throw .conflictingQuery(name: plain.name)
        }
        try await parts.wait { _ in
            refreshing ? wanted : missing(of: wanted)
        } join: { state, missing, waiter in
            for range in wanted.ranges { state.touch(range) }
            return state.join(waiter: waiter, missing: missing)
        }
    }

    // The entry is fetched after an invalidation and by polling; if it is fresh, it is polled.
    private func loadWatched() async throws(SanguineError) {
        let isPolled = entries.restoredSnapshot(of: entry.erased).isFresh
        let wanted = parts.withState { $0.watched }
        if !wanted.isEmpty { try await load(wanted, refreshing: isPolled) }
    }

    // MARK: - Watching

    /// Returns the known values of the range, then every change of them.
    func updates(_ range: ClosedRange<Index>) -> AsyncStream<Values> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Values.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let watch = watch(
            range,
            tell: { continuation.yield($0) },
            finish: { continuation.finish() }
        )
        if let watch { continuation.onTermination = { _ in watch.end() } }
        return stream
    }

    /// Delivers the known values of the range at once, then every change of them.
    ///
    /// Deliveries follow the rules of the cache's observers. A watch keeps this object alive.
    ///
    /// - Returns: The watcher's number, and a closure that ends the watch and the requests that
    ///   nothing else needs; `nil` if nothing will follow.
    func watch(
        _ range: ClosedRange<Index>,
        tell: @escaping @Sendable (Values) -> Void,
        finish: @escaping @Sendable () -> Void = {}
    ) -> (watcher: UInt64, end: @Sendable () -> Void)? {
        guard let positions = Index.positions(range, upTo: RangeLimits.readSpan) else {
            tell(.unknown(range, error: .rangeTooLong(limit: RangeLimits.readSpan)))
            finish()
            return nil
        }
        let (watcher, notified) = (parts.newWaiter(), LastNotified<Values>())
        parts.withState { $0.watch(positions, waiter: watcher) }
        missing(of: RangeSet())  // If the entry is stale, the cache fetches it at once.
        let (entry, queries) = (entry, queries)
        let observer = TypedEntry<Contents>.Observer(
            tell: { [self] _ in
                if let values = notified.update(snapshot(range, for: watcher)) { tell(values) }
            },
            finish: finish
        )
        // The client is closed, or another query uses the key.
        guard let observation = queries.observe(entry, observer) else {
            _ = parts.withState { $0.leave(waiter: watcher) }
            finish()
            return nil
        }
        load(for: watcher, positions)
        let end: @Sendable () -> Void = { [parts] in
            queries.unobserve(entry, observation)
            parts.apply { $0.leave(waiter: watcher) }
        }
        return (watcher, end)
    }

    /// Fetches the missing values of a watcher; it gets a failure through its state.
    private func load(for watcher: UInt64, _ positions: Range<Int>) {
        parts.transact { _ in
            missing(of: RangeSet(positions))
        } event: { state, missing in
            guard state.watchers[watcher] != nil else { return nil }
            state.touch(positions)
            return state.join(waiter: watcher, missing: missing)
        }
    }

    // MARK: - Setting

    /// Sets the values of the positions, as if they had just been fetched; the others have none.
    ///
    /// - Returns: Whether the values were set.
    func set(_ values: [Index: Value], in range: ClosedRange<Index>) -> Bool {
        guard let positions = Index.positions(range, upTo: RangeLimits.readSpan) else {
            return false
        }
        let brought = Dictionary(values.map { ($0.key.position, $0.value) }) { _, last in last }
        let (now, zone) = (queries.clock.now(), entries.zone)
        let day = policy.followsDays ? LocalDay(containing: now, in: zone) : nil
        parts.withState { $0.overwrite(RangeSet(positions)) }
        let refusal = write { $0.set(brought, positions, asOf: now, day: day) }
        return refusal == nil
    }

    /// Changes the known value at an index, which keeps its age.
    ///
    /// - Returns: Whether the index was known.
    func update(_ index: Index, _ body: (inout Value?) -> Void) -> Bool {
        let position = index.position
        guard position < .max else { return false }
        parts.withState { $0.overwrite(RangeSet(position..<position + 1)) }
        var isKnown = false
        let refusal = write { contents in
            let known = contents.coverage.positions(in: position..<position + 1) { _ in true }
            isKnown = !known.isEmpty
            if isKnown { body(&contents.values[position]) }
        }
        return refusal == nil && isKnown
    }

    // MARK: - Known values

    /// Marks the positions as stale, and fetches them for their watchers.
    func invalidate(_ range: ClosedRange<Index>) {
        let positions = Index.clampedPositions(range)
        let stale = RangeSet(positions)
        parts.withState { $0.invalidate(stale) }
        // Even if nothing is known: the write of a request's values must start over.
        write { $0.coverage.markStale(stale) }
        for (watcher, watched) in parts.withState({ $0.watchers }).map({
            ($0.key, $0.value.positions)
        })
        where watched.overlaps(positions) {
            load(for: watcher, watched)
        }
    }

    /// Returns the positions that must be fetched, with every broader invalidation applied.
    ///
    /// Afterwards there is an entry, which records invalidations during a request.
    @discardableResult
    private func missing(of wanted: RangeSet<Int>) -> RangeSet<Int> {
        var snapshot = entries.restoredSnapshot(of: entry.erased)
        if !snapshot.isFresh {
            write { _ in }
            snapshot = entries.restoredSnapshot(of: entry.erased)
        }
        let contents = contents(of: snapshot)
        return wanted.ranges.reduce(into: wanted) { $0.subtract(fresh($1, in: contents)) }
    }

    /// Returns the known values that have not expired; watched positions do not expire.
    private func contents(of snapshot: Entries.EntrySnapshot) -> Contents {
        var contents = snapshot.value?.base.value(as: Contents.self) ?? Contents()
        contents.forget(
            endedBy: policy,
            at: queries.clock.now(),
            inUse: parts.withState { $0.watched }
        )
        return contents
    }

    private func fresh(_ positions: Range<Int>, in contents: Contents) -> RangeSet<Int> {
        let (now, zone) = (queries.clock.now(), entries.zone)
        let name = query.withLock { $0.name }
        let freshness = entries.switchedFreshness(of: name) ?? policy.freshness
        return contents.coverage.positions(in: positions) {
            $0.isFresh(freshness, at: now, in: zone)
        }
    }

    /// Changes the known values.
    ///
    /// - Parameters:
    ///   - cacheScope: The user's part of the cache; nothing happens if another user is current.
    ///     Default: `nil`, which means the current one.
    ///   - body: Changes the values, with no lock held; it may be called again.
    ///   - commit: Called in the step that applies the change, under the cache's lock.
    /// - Returns: The reason why the change was not applied, or `nil`: the user has changed, the
    ///   client is closed, or another query uses the key.
    @discardableResult
    private func write(
        in cacheScope: CacheScope? = nil,
        _ body: (inout Contents) -> Void,
        commit: () -> Void = {}
    ) -> SanguineError? {
        let entry = entry
        entries.restore(entry.erased)
        let isTaken = queries.set(entry.erased, isJudged: true, commit: commit) { snapshot in
            guard cacheScope == nil || snapshot.cacheScope === cacheScope else { return nil }
            var contents = contents(of: snapshot)
            // An entry that was evicted from memory has lost later invalidations.
            if !snapshot.isFresh {
                parts.withState { $0.invalidateAll() }
                contents.coverage.markAllStale()
            }
            body(&contents)
            contents.revision += 1
            return .of(contents)
        }
        if isTaken { return nil }
        if entries.snapshot(of: entry.erased).isConflicting {
            return .conflictingQuery(name: plain.name)
        }
        return entries.guarded.withLock { $0.isClosed } ? .closed : .userChanged
    }

    // MARK: - Requests

    private func runRequest(
        _ request: RangeState.RangeRequest,
        _ priority: RequestPriority,
        _ cacheScope: CacheScope
    ) async {
        let query = query.withLock { $0 }
        let indices = Index.indices(request.range)
        let departure = queries.clock.now()
        let counters = entries.metrics.named(query.name)
        let result = await queries.counted(query.plan, by: counters) { plan in
            await cacheScope.attempts.fetch(plan, priority: priority) { request in
                try await query.fetch(request, indices)
            }
        }
        switch result {
        case .success(let values): complete(values, request, cacheScope, since: departure)
        case .failure(let error): parts.apply(for: cacheScope) { $0.fail(request.number, error) }
        }
    }

    private func complete(
        _ brought: [Index: Value],
        _ request: RangeState.RangeRequest,
        _ cacheScope: CacheScope,
        since departure: Timestamp
    ) {
        let now = queries.clock.now()
        let zone = entries.zone
        // A response to a request that was sent before midnight may be the previous day's.
        let day = policy.followsDays ? LocalDay(containing: min(departure, now), in: zone) : nil
        let isOver = day.map { $0.end <= now } ?? false
        let hasArrived = parts.withState { state in
            guard let arrived = state.arrive(request.number) else { return false }
            if isOver { state.invalidate(arrived.current) }
            return true
        }
        guard hasArrived else { return }
        let values = Dictionary(
            brought.map { ($0.key.position, $0.value) },
            uniquingKeysWith: { $1 }
        )
        var ending: Delivery?
        let refusal = write(in: cacheScope) { contents in
            let (present, recent) = parts.withState { ($0.request(request.number), $0.recent) }
            guard let present else { return }
            contents.add(values, present, asOf: now, day: day, keeping: [request.range] + recent)
        } commit: {
            ending = parts.ending(for: cacheScope) { $0.complete(request.number) }
        }
        if let refusal {
            parts.apply(for: cacheScope) { $0.fail(request.number, refusal) }
        }
        ending?()
    }
}
