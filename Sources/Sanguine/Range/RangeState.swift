/// The requests of a range query and their waiters; only this code decides what is fetched next.
///
/// The state performs no I/O and reads no clock. Each method records one event and returns the
/// actions for ``PartFetcher``. The known values are not part of it: they are ``RangeContents`` in
/// the cache, and each event is passed what it needs of them.
///
/// A request covers a range. Positions that were invalidated since it started are no longer
/// *current*: they are written as stale, and do not serve later readers. Positions that a later
/// request has delivered are no longer *wanted*: they are not written at all.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. Every request has a waiter, and every waiter waits for a running request. A watcher is a
///    waiter while something is fetched for it.
/// 2. No position is current in two requests.
/// 3. A request covers 1 to ``RangeLimits/requestSpan`` positions.
/// 4. The numbers of requests increase.
/// 5. At most ``RangeLimits/recentReads`` reads are remembered.
struct RangeState: PartFetchState {
    /// A request for a range.
    struct RangeRequest: PartRequest, Hashable {
        let number: UInt64
        let range: Range<Int>
        let priority: FetchPriority
        /// The positions that were not invalidated since it started.
        fileprivate(set) var current: RangeSet<Int>
        /// The positions that no later request has delivered.
        fileprivate(set) var wanted: RangeSet<Int>
    }

    /// An observer of all changes of a range.
    struct Watcher: Hashable, Sendable {
        let positions: Range<Int>
        /// The error of the last request that overlapped the range; `nil` after a success.
        fileprivate(set) var error: SanguineError?
    }

    typealias Actions = PartFetchActions<RangeRequest>

    /// The priority of the fetches.
    let priority: FetchPriority
    /// The running requests, in the order of their numbers.
    private(set) var requests: [RangeRequest] = []
    /// The ranges that were read, most recent first.
    private(set) var recent: [Range<Int>] = []
    /// The watchers, by their waiter's number.
    private(set) var watchers: [UInt64: Watcher] = [:]
    private var needs: [UInt64: Set<UInt64>] = [:]  // Waiters and the requests they wait for.
    private var lastRequest: UInt64 = 0

    /// Creates the state of a query without requests.
    init(priority: FetchPriority = .normal) { self.priority = priority }

    // MARK: - Queries

    var waiterCount: Int { needs.count }
    var isIdle: Bool { requests.isEmpty }

    /// Returns the running request with this number.
    func request(_ number: UInt64) -> RangeRequest? { requests.first { $0.number == number } }

    /// Whether a part of the range is being fetched.
    func isFetching(_ range: Range<Int>) -> Bool { requests.contains { $0.range.overlaps(range) } }

    /// The watched positions.
    var watched: RangeSet<Int> {
        watchers.values.reduce(into: RangeSet()) { $0.insert(contentsOf: $1.positions) }
    }

    // MARK: - Readers

    /// Records a read of the range, with or without a fetch.
    mutating func touch(_ range: Range<Int>) {
        recent.removeAll { range.lowerBound <= $0.lowerBound && $0.upperBound <= range.upperBound }
        recent.insert(range, at: 0)
        if recent.count > RangeLimits.recentReads { recent.removeLast() }
    }

    /// Adds a caller who waits until the missing positions are fetched.
    ///
    /// Running requests are shared; only the rest is requested. A waiter that waits already, such
    /// as a watcher, then waits for these too.
    ///
    /// - Parameters:
    ///   - waiter: The caller's number.
    ///   - missing: The positions that it needs and that are unknown or stale.
    /// - Returns: The requests to start; the waiter to answer at once if nothing is missing.
    mutating func join(waiter: UInt64, missing: RangeSet<Int>) -> Actions {
        defer { checkInvariants() }
        guard !missing.isEmpty else {
            return needs[waiter] == nil ? Actions(answer: [(waiter, nil)]) : Actions()
        }
        var rest = missing
        var waitsFor = Set<UInt64>()
        var underWay = RangeSet<Int>()
        for request in requests {
            underWay.formUnion(request.current)
            guard !request.current.isDisjoint(missing) else { continue }
            waitsFor.insert(request.number)
            rest.subtract(request.current)
        }
        let started = Self.ranges(of: rest, sparing: underWay).map { range in
            lastRequest += 1
            let all = RangeSet(range)
            return RangeRequest(
                number: lastRequest,
                range: range,
                priority: priority,
                current: all,
                wanted: all
            )
        }
        requests += started
        needs[waiter, default: []].formUnion(waitsFor.union(started.map(\.number)))
        return Actions(start: started)
    }

    /// Adds a watcher of a range, until ``leave(waiter:)``.
    mutating func watch(_ positions: Range<Int>, waiter: UInt64) {
        watchers[waiter] = Watcher(positions: positions)
    }

    /// Removes a waiter or watcher; requests that nothing else waits for are cancelled.
    mutating func leave(waiter: UInt64) -> Actions {
        defer { checkInvariants() }
        watchers[waiter] = nil
        guard needs.removeValue(forKey: waiter) != nil else { return Actions() }
        return Actions(cancel: removeUnwanted(), answer: [(waiter, .cancelled)])
    }

    // MARK: - Requests

    /// Records that a request has returned values, which are about to be written.
    ///
    /// Earlier requests no longer overwrite them, so their waiters wait for this one too. Returns
    /// `nil` for a request that was dropped.
    mutating func arrive(_ number: UInt64) -> RangeRequest? {
        defer { checkInvariants() }
        guard let request = request(number) else { return nil }
        let range = RangeSet(request.range)
        var overtaken = Set<UInt64>()
        for index in requests.indices
        where requests[index].number < number && !requests[index].wanted.isDisjoint(range) {
            requests[index].wanted.subtract(range)
            overtaken.insert(requests[index].number)
        }
        guard !overtaken.isEmpty else { return request }
        for (waiter, requests) in needs where !requests.isDisjoint(with: overtaken) {
            needs[waiter]?.insert(number)
        }
        return request
    }

    /// Completes a request whose values are written, and answers waiters that wait for nothing
    /// else.
    ///
    /// Returns `nil` for a request that was dropped.
    mutating func complete(_ number: UInt64) -> Actions? {
        defer { checkInvariants() }
        guard remove(number, nil) else { return nil }
        var actions = Actions(hasNewBase: true)
        for (waiter, requests) in needs where requests.contains(number) {
            needs[waiter]?.remove(number)
            if requests.count == 1 {
                needs[waiter] = nil
                actions.answer.append((waiter, nil))
            }
        }
        return actions
    }

    /// Fails a request: only its waiters get the error.
    ///
    /// Returns `nil` for a request that was dropped.
    mutating func fail(_ number: UInt64, _ error: SanguineError) -> Actions? {
        defer { checkInvariants() }
        guard remove(number, error) else { return nil }
        let answer = needs.filter { $0.value.contains(number) }.map(\.key)
        for waiter in answer { needs[waiter] = nil }
        return Actions(
            cancel: removeUnwanted(),
            hasNewBase: true,
            answer: answer.map { ($0, error) }
        )
    }

    // MARK: - Data

    /// Marks positions as invalid: responses of running requests may be outdated there.
    mutating func invalidate(_ positions: RangeSet<Int>) {
        defer { checkInvariants() }
        for index in requests.indices { requests[index].current.subtract(positions) }
    }

    /// Records that the app has set the positions: running requests do not overwrite them.
    mutating func overwrite(_ positions: RangeSet<Int>) {
        defer { checkInvariants() }
        for index in requests.indices {
            requests[index].current.subtract(positions)
            requests[index].wanted.subtract(positions)
        }
    }

    /// Marks all positions as invalid: responses of running requests may be outdated.
    mutating func invalidateAll() {
        for index in requests.indices { requests[index].current = RangeSet() }
    }

    mutating func reset(_ error: SanguineError) -> Actions {
        defer { checkInvariants() }
        let actions = Actions(
            cancel: requests.map(\.number),
            hasNewBase: true,
            answer: needs.keys.map { ($0, error) }
        )
        requests = []
        needs = [:]
        recent = []
        // The error of one user does not concern the next.
        for waiter in watchers.keys { watchers[waiter]?.error = nil }
        return actions
    }

    // MARK: - Machinery

    /// Returns the ranges to request: nearby gaps are joined, and long ranges split.
    ///
    /// A joined range also covers the known positions between its gaps, but none that are being
    /// fetched.
    private static func ranges(
        of gaps: RangeSet<Int>,
        sparing underWay: RangeSet<Int>
    ) -> [Range<Int>] {
        var joined: [Range<Int>] = []
        for gap in gaps.ranges {
            if let last = joined.last, isBridged(last.upperBound..<gap.lowerBound),
                gap.upperBound - last.lowerBound <= RangeLimits.requestSpan,
                underWay.isDisjoint(RangeSet(last.upperBound..<gap.lowerBound))
            {
                joined[joined.count - 1] = last.lowerBound..<gap.upperBound
            } else {
                joined.append(gap)
            }
        }
        return joined.flatMap { range in
            stride(from: range.lowerBound, to: range.upperBound, by: RangeLimits.requestSpan)
                .map { start in
                    let count = min(range.upperBound - start, RangeLimits.requestSpan)
                    return start..<start + count
                }
        }
    }

    // The distance of two gaps can overflow.
    private static func isBridged(_ known: Range<Int>) -> Bool {
        let (count, isPast) = known.upperBound.subtractingReportingOverflow(known.lowerBound)
        return !isPast && count <= RangeLimits.bridge
    }

    private mutating func remove(_ number: UInt64, _ error: SanguineError?) -> Bool {
        guard let index = requests.firstIndex(where: { $0.number == number }) else { return false }
        let request = requests.remove(at: index)
        for (waiter, watcher) in watchers where watcher.positions.overlaps(request.range) {
            watchers[waiter]?.error = error
        }
        return true
    }

    private mutating func removeUnwanted() -> [UInt64] {
        let wanted = needs.values.reduce(into: Set<UInt64>()) { $0.formUnion($1) }
        let unwanted = requests.map(\.number).filter { !wanted.contains($0) }
        requests.removeAll { !wanted.contains($0.number) }
        return unwanted
    }

    private func checkInvariants() {
        assert(holdsInvariants(), "The range violates its invariants.")
    }

    private func holdsInvariants() -> Bool {
        // With many waiters, the check would cost more than the event.
        guard needs.count <= 64 else { return true }
        let numbers = Set(requests.map(\.number))
        var current = RangeSet<Int>()
        for request in requests {
            // No position is requested twice.
            guard current.isDisjoint(request.current),
                (1...RangeLimits.requestSpan).contains(request.range.count)
            else { return false }
            current.formUnion(request.current)
        }
        return needs.values.allSatisfy { !$0.isEmpty && $0.isSubset(of: numbers) }
            && numbers == needs.values.reduce(into: Set()) { $0.formUnion($1) }
            && zip(requests, requests.dropFirst()).allSatisfy { $0.number < $1.number }
            && recent.count <= RangeLimits.recentReads
    }
}
