import SanguineModel
import Synchronization

/// Fetches what is missing of one range query; the shell around ``RangeState``.
///
/// What is known is one entry of the cache. It is changed by ``write(in:_:)`` alone, which
/// begins again when the entry was changed or invalidated meanwhile.
///
/// Invariants:
///
/// 1. A flight is under way until what it brought is in the cache: who asks sees one or the other.
/// 2. Every waiter is answered once: by its last landing, a failure, its own cancellation, the end
///    of the user or the closing of the client.
/// 3. Watchers are told by one thread at a time, the newest last.
///
/// Mutable state: `guarded`, by its mutex, which is never held over an `await`, the cache, or the
/// app's code.
final class RangeKeeper<Index: RangeIndex, Value: Codable & Sendable & Equatable>: RangeSteering {
    typealias Contents = RangeContents<Value>
    typealias Values = RangeValues<Index, Value>
    typealias Answer = Result<Void, SanguineError>
    typealias Waiter = CheckedContinuation<Answer, Never>
    /// What is left to do outside of the lock.
    typealias Ending = @Sendable () -> Void

    struct Watcher {
        let range: ClosedRange<Index>
        let positions: Range<Int>
        let tell: @Sendable (Values) -> Void
        let finish: @Sendable () -> Void
        var error: SanguineError?
        var told: Values?
        var loads: [UInt64: Task<Void, Never>] = [:]
    }

    struct Guarded {
        var query: RangeQuery<Index, Value>
        /// Whose values these are.
        var partition: Partition
        var state = RangeState()
        var waiters: [UInt64: Waiter] = [:]
        var flights: [UInt64: Task<Void, Never>] = [:]
        var watchers: [UInt64: Watcher] = [:]
        /// The number under which the cache's entry is observed while there are watchers.
        var observation: UInt64?
        /// Rises with each landing: what was read before one may miss what it brought.
        var landings: UInt64 = 0
        var lastNumber: UInt64 = 0  // Of waiters, watchers and their loads alike.
        var mustTell = false
        var isTelling = false
        var isClosed = false

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    let guarded: Mutex<Guarded>
    let queries: QueryCache
    private let policy: Policy
    private let plain: RangeQuery<Index, Value>

    init(_ query: RangeQuery<Index, Value>, queries: QueryCache) {
        self.queries = queries
        policy = query.policy
        plain = query
        guarded = Mutex(Guarded(query: query, partition: queries.partition(of: query.policy)))
    }

    /// The cache's entry; fetching it fetches what its watchers lack.
    var entry: Query<Contents> {
        plain.entry { [weak self] request in
            request.flight.settle()
            guard let self else { throw SanguineError.closed }
            try await loadWatched()
            return queries.peek(entry) ?? Contents()
        }
    }

    /// Fetches with the newest closure from now on.
    func take(_ query: RangeQuery<Index, Value>) { guarded.withLock { $0.query = query } }

    // MARK: - Reading

    /// What is known, at once.
    func snapshot(_ range: ClosedRange<Index>, error: SanguineError? = nil) -> Values {
        guard let positions = Index.positions(range) else {
            return .unknown(range)
        }
        let held = queries.held(entry)
        let contents = shown(held.value)
        let isFetching = guarded.withLock { guarded in
            guarded.state.touch(positions)
            return guarded.state.isFetching(positions)
        }
        let known = contents.coverage.positions(in: positions) { _ in true }
        let fresh = held.isFresh ? self.fresh(positions, in: contents) : RangeSet()
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

    /// The values of the stretch, what is missing or stale of it fetched first.
    func values(
        _ range: ClosedRange<Index>,
        refreshing: Bool
    ) async throws(SanguineError) -> [Index: Value] {
        guard let positions = Index.positions(range, upTo: RangeLimits.readSpan) else {
            throw .rangeTooLong(limit: RangeLimits.readSpan)
        }
        // What was fetched can be gone when the memory is too small, or other stretches push it
        // out at that very moment.
        for _ in 0..<3 {
            try await load(RangeSet(positions), refreshing: refreshing)
            let known = snapshot(range)
            if known.missing.isEmpty { return known.values }
        }
        throw .queryFailed("its values left the memory before they were read; raise 'memoryBytes'")
    }

    // MARK: - Data

    /// The positions no longer count as fresh; who watches them gets new values.
    func invalidate(_ range: ClosedRange<Index>) {
        let positions = Index.clampedPositions(range)
        let stale = RangeSet(positions)
        guarded.withLock { $0.state.invalidate(stale) }
        // Whatever is there: a landing that is about to be written must begin again.
        write { $0.coverage.markStale(stale) }
        let watchers = guarded.withLock { guarded in
            guarded.watchers.filter { $0.value.positions.overlaps(positions) }.map(\.key)
        }
        for watcher in watchers { startLoad(for: watcher) }
        tell()
    }

    func change(to user: Partition) {
        guard policy.audience == .user else { return }
        let ending = guarded.withLock { guarded -> Ending? in
            guard guarded.partition !== user else { return nil }
            guarded.partition = user
            // What went wrong for one user is nothing to the next.
            for number in guarded.watchers.keys { guarded.watchers[number]?.error = nil }
            return perform(guarded.state.abandon(), .failure(.userChanged), in: &guarded)
        }
        ending?()
        tell()
    }

    func close() {
        let (ending, watchers) = guarded.withLock { guarded -> (Ending, [Watcher]) in
            guarded.isClosed = true
            defer { guarded.watchers = [:] }
            return (
                perform(guarded.state.abandon(), .failure(.closed), in: &guarded),
                Array(guarded.watchers.values)
            )
        }
        ending()
        for watcher in watchers {
            for load in watcher.loads.values { load.cancel() }
            watcher.finish()
        }
    }

    // MARK: - Loading

    /// Returns when all the positions are known, and fresh or just fetched.
    func load(_ wanted: RangeSet<Int>, refreshing: Bool = false) async throws(SanguineError) {
        guard !Task.isCancelled else { throw .cancelled }
        guard !queries.isConflicting(entry) else { throw .conflictingQuery(name: plain.name) }
        let waiter = guarded.withLock { $0.nextNumber() }
        let answer: Answer = await withWaiter { continuation in
            join(wanted, as: waiter, continuation, refreshing: refreshing)
        } leave: { [self] in
            leave(waiter)
        }
        try answer.get()
    }

    // The entry is fetched after an invalidation, and by polling: one that is fresh was polled.
    private func loadWatched() async throws(SanguineError) {
        let isPolled = queries.held(entry).isFresh
        let wanted = watched
        if !wanted.isEmpty { try await load(wanted, refreshing: isPolled) }
    }

    private func join(
        _ wanted: RangeSet<Int>,
        as waiter: UInt64,
        _ continuation: Waiter,
        refreshing: Bool
    ) {
        var ending: Ending?
        while ending == nil {
            let landings = guarded.withLock { $0.landings }
            let contents = settled()
            let missing = refreshing ? wanted : missing(of: wanted, in: contents)
            ending = guarded.withLock { guarded -> Ending? in
                guard !guarded.isClosed else {
                    return { continuation.resume(returning: .failure(.closed)) }
                }
                guard guarded.landings == landings else { return nil }
                guarded.waiters[waiter] = continuation
                for range in wanted.ranges { guarded.state.touch(range) }
                let effect = guarded.state.join(waiter: waiter, missing: missing)
                return perform(effect, .success(()), in: &guarded)
            }
        }
        ending?()
        tell()
    }

    private func leave(_ waiter: UInt64) {
        let ending = guarded.withLock { guarded in
            perform(guarded.state.leave(waiter: waiter), .failure(.cancelled), in: &guarded)
        }
        ending()
        tell()
    }

    /// What is known, with every invalidation of more than this query taken over into it.
    ///
    /// From then on there is an entry, which notes what is invalidated while a flight is under way.
    @discardableResult
    func settled() -> Contents {
        var held = queries.held(entry)
        if !held.isFresh {
            write { _ in }
            held = queries.held(entry)
        }
        return shown(held.value)
    }

    /// What may be shown of what is held: each position for its own time, or while it is watched.
    private func shown(_ held: Contents?) -> Contents {
        var contents = held ?? Contents()
        contents.forget(endedBy: policy, at: queries.clock.now(), inUse: watched)
        return contents
    }

    private var watched: RangeSet<Int> {
        guarded.withLock { guarded in
            guarded.watchers.values.reduce(into: RangeSet<Int>()) {
                $0.insert(contentsOf: $1.positions)
            }
        }
    }

    private func missing(of wanted: RangeSet<Int>, in contents: Contents) -> RangeSet<Int> {
        wanted.ranges.reduce(into: wanted) { $0.subtract(fresh($1, in: contents)) }
    }

    private func fresh(_ positions: Range<Int>, in contents: Contents) -> RangeSet<Int> {
        let now = queries.clock.now()
        let zone = queries.guarded.withLock { $0.zone }
        return contents.coverage.positions(in: positions) {
            $0.isFresh(policy.freshness, at: now, in: zone)
        }
    }

    /// Changes what is known; begins again if it was changed meanwhile.
    ///
    /// - Returns: Why it was not taken, or `nil`: the user is gone, the client is closed, or the
    ///   key has become another query's.
    @discardableResult
    private func write(
        in partition: Partition? = nil,
        _ body: (inout Contents) -> Void
    ) -> SanguineError? {
        let entry = entry
        while true {
            let held = queries.held(entry)
            guard partition == nil || held.partition === partition else {
                return refusal(of: entry)
            }
            var contents = shown(held.value)
            // An entry that has left the memory took along what was invalidated since.
            if !held.isFresh {
                guarded.withLock { $0.state.invalidateAll() }
                contents.coverage.markAllStale()
            }
            body(&contents)
            contents.revision += 1
            let isTaken = queries.set(
                contents,
                for: entry,
                in: held.partition,
                replacing: held.version,
                of: held.generation
            )
            if isTaken { return nil }
            let now = queries.held(entry)
            guard
                now.version != held.version || now.generation != held.generation
                    || now.partition !== held.partition
            else {
                return refusal(of: entry)
            }
        }
    }

    private func refusal(of entry: Query<Contents>) -> SanguineError {
        if queries.isConflicting(entry) { return .conflictingQuery(name: entry.name) }
        return queries.guarded.withLock { $0.isClosed } ? .closed : .userChanged
    }

    // MARK: - Flights

    // Under the lock; what it returns must be done outside of it.
    private func perform(
        _ effect: RangeState.Effect,
        _ outcome: Answer,
        in guarded: inout Guarded
    ) -> Ending {
        let cancelled = effect.cancel.compactMap { guarded.flights.removeValue(forKey: $0) }
        let answered = effect.answer.compactMap { guarded.waiters.removeValue(forKey: $0) }
        let (query, partition) = (guarded.query, guarded.partition)
        for flight in effect.start {
            // Detached: a flight belongs to all its callers, so it has the cancellation of none.
            guarded.flights[flight.number] = Task.detached(priority: Task.currentPriority) {
                [weak self] in
                await self?.fly(flight, query, partition)
            }
        }
        return {
            for task in cancelled { task.cancel() }
            for waiter in answered { waiter.resume(returning: outcome) }
        }
    }

    private func fly(
        _ flight: RangeState.Flight,
        _ query: RangeQuery<Index, Value>,
        _ partition: Partition
    ) async {
        let indices = Index.indices(flight.range)
        let departure = queries.clock.now()
        let counters = queries.metrics.named(query.name)
        let ticket = counters.flightBegan()
        let attempted = AttemptCount()
        var plan = query.plan
        plan.metrics = counters
        plan.attempts = attempted
        let result = await partition.attempts.fetch(
            plan,
            priority: RequestPriority(query.policy.priority)
        ) { request in
            try await query.fetch(request, indices)
        }
        counters.flightEnded(ticket, outcome: FlightOutcome(result), attempts: attempted.value)
        switch result {
        case .success(let values): land(values, flight, partition, since: departure)
        case .failure(let error): fail(flight, error)
        }
    }

    private func land(
        _ brought: [Index: Value],
        _ flight: RangeState.Flight,
        _ partition: Partition,
        since departure: Timestamp
    ) {
        let now = queries.clock.now()
        let zone = queries.zone
        // An answer that was under way at midnight may be the old day's.
        let day = policy.followsDays ? LocalDay(containing: min(departure, now), in: zone) : nil
        let isOver = day.map { $0.end <= now } ?? false
        let hasArrived = guarded.withLock { guarded in
            guard let arrived = guarded.state.arrive(flight.number) else { return false }
            if isOver { guarded.state.invalidate(arrived.current) }
            return true
        }
        guard hasArrived else { return }
        let values = Dictionary(
            brought.map { ($0.key.position, $0.value) },
            uniquingKeysWith: { $1 }
        )
        let refusal = write(in: partition) { contents in
            let (present, recent) = guarded.withLock {
                ($0.state.flight(flight.number), $0.state.recent)
            }
            guard let present else { return }
            contents.land(values, present, asOf: now, day: day, keeping: [flight.range] + recent)
        }
        if let refusal { return fail(flight, refusal) }
        end(flight, .success(())) { $0.land(flight.number) }
    }

    private func fail(_ flight: RangeState.Flight, _ error: SanguineError) {
        end(flight, .failure(error)) { $0.fail(flight.number) }
    }

    private func end(
        _ flight: RangeState.Flight,
        _ outcome: Answer,
        _ event: (inout RangeState) -> RangeState.Effect?
    ) {
        let ending = guarded.withLock { guarded -> Ending? in
            guard let effect = event(&guarded.state) else { return nil }
            guarded.flights[flight.number] = nil
            guarded.landings += 1
            for (number, watcher) in guarded.watchers
            where watcher.positions.overlaps(flight.range) {
                if case .failure(let error) = outcome {
                    guarded.watchers[number]?.error = error
                } else {
                    guarded.watchers[number]?.error = nil
                }
            }
            return perform(effect, outcome, in: &guarded)
        }
        ending?()
        tell()
    }
}
