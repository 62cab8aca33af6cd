/// Which stretches are being fetched and who waits for them, and the only code that decides what is
/// fetched next.
///
/// The state performs no I/O and reads no clock. Each method records one event and returns what
/// ``Parts`` must now do. What is known is not a part of it: that is ``RangeContents`` in the
/// cache, and each event is told what it needs of it.
///
/// A flight covers a stretch. Of its positions, those invalidated since it took off are no longer
/// *current*: they are written as stale, and serve nobody who asks from then on. Those that a later
/// flight has brought are no longer *wanted*: they are not written at all.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. A flight has somebody who waits for it, and whoever waits, waits for a flight under way. Who
///    watches waits, too, whenever something is fetched for it.
/// 2. No position is current in two flights.
/// 3. A flight covers 1 to ``RangeLimits/requestSpan`` positions.
/// 4. Flights are numbered upwards.
/// 5. At most ``RangeLimits/recentReads`` reads are remembered.
struct RangeState: PartsState {
    /// A request for a stretch.
    struct Flight: PartRequest, Hashable {
        let number: UInt64
        let range: Range<Int>
        let priority: FetchPriority
        /// The positions that were not invalidated since it took off.
        fileprivate(set) var current: RangeSet<Int>
        /// The positions that no later flight has brought.
        fileprivate(set) var wanted: RangeSet<Int>
    }

    /// Somebody who is told of every change of a stretch.
    struct Watcher: Hashable, Sendable {
        let positions: Range<Int>
        /// Why the last flight failed that touched the stretch; `nil` after one that did not.
        fileprivate(set) var error: SanguineError?
    }

    typealias Actions = PartsActions<Flight>

    /// How much what is fetched matters.
    let priority: FetchPriority
    /// The flights under way, in the order of their numbers.
    private(set) var flights: [Flight] = []
    /// What was read, the last first.
    private(set) var recent: [Range<Int>] = []
    /// By the numbers under which they wait.
    private(set) var watchers: [UInt64: Watcher] = [:]
    private var needs: [UInt64: Set<UInt64>] = [:]  // Waiter to the flights that it waits for.
    private var lastFlight: UInt64 = 0

    /// Creates the state of a query of which nothing is asked.
    init(priority: FetchPriority = .normal) { self.priority = priority }

    // MARK: - Questions

    var waiterCount: Int { needs.count }
    var isIdle: Bool { flights.isEmpty }

    /// The flight under way with that number.
    func flight(_ number: UInt64) -> Flight? { flights.first { $0.number == number } }

    /// Whether something in the stretch is being fetched.
    func isFetching(_ range: Range<Int>) -> Bool { flights.contains { $0.range.overlaps(range) } }

    /// The positions that somebody watches.
    var watched: RangeSet<Int> {
        watchers.values.reduce(into: RangeSet()) { $0.insert(contentsOf: $1.positions) }
    }

    // MARK: - Readers

    /// A stretch was read, at once or not.
    mutating func touch(_ range: Range<Int>) {
        recent.removeAll { range.lowerBound <= $0.lowerBound && $0.upperBound <= range.upperBound }
        recent.insert(range, at: 0)
        if recent.count > RangeLimits.recentReads { recent.removeLast() }
    }

    /// A caller waits until the missing positions are fetched.
    ///
    /// What is under way already is shared; only the rest takes off. One who waits already, as who
    /// watches may, waits for this, too.
    ///
    /// - Parameters:
    ///   - waiter: The caller's number.
    ///   - missing: The positions that it needs and that are not known or not fresh.
    /// - Returns: The flights to start; the waiter to answer at once if nothing is missing.
    mutating func join(waiter: UInt64, missing: RangeSet<Int>) -> Actions {
        defer { checkInvariants() }
        guard !missing.isEmpty else {
            return needs[waiter] == nil ? Actions(answer: [(waiter, nil)]) : Actions()
        }
        var rest = missing
        var waitsFor = Set<UInt64>()
        var underWay = RangeSet<Int>()
        for flight in flights {
            underWay.formUnion(flight.current)
            guard !flight.current.isDisjoint(missing) else { continue }
            waitsFor.insert(flight.number)
            rest.subtract(flight.current)
        }
        let started = Self.stretches(of: rest, sparing: underWay).map { range in
            lastFlight += 1
            let all = RangeSet(range)
            return Flight(
                number: lastFlight,
                range: range,
                priority: priority,
                current: all,
                wanted: all
            )
        }
        flights += started
        needs[waiter, default: []].formUnion(waitsFor.union(started.map(\.number)))
        return Actions(start: started)
    }

    /// Somebody watches a stretch from now on; ``leave(waiter:)`` ends it.
    mutating func watch(_ positions: Range<Int>, waiter: UInt64) {
        watchers[waiter] = Watcher(positions: positions)
    }

    /// A caller gave up, or watches no more; flights that nobody else waits for end with it.
    mutating func leave(waiter: UInt64) -> Actions {
        defer { checkInvariants() }
        watchers[waiter] = nil
        guard needs.removeValue(forKey: waiter) != nil else { return Actions() }
        return Actions(cancel: takeUnwanted(), answer: [(waiter, .cancelled)])
    }

    // MARK: - Flights

    /// A flight has brought values, which are about to be written.
    ///
    /// From now on no earlier flight writes over them, so whoever waits for such a flight waits for
    /// this one, too. Returns `nil` for one that came too late.
    mutating func arrive(_ number: UInt64) -> Flight? {
        defer { checkInvariants() }
        guard let flight = flight(number) else { return nil }
        let range = RangeSet(flight.range)
        var overtaken = Set<UInt64>()
        for index in flights.indices
        where flights[index].number < number && !flights[index].wanted.isDisjoint(range) {
            flights[index].wanted.subtract(range)
            overtaken.insert(flights[index].number)
        }
        guard !overtaken.isEmpty else { return flight }
        for (waiter, flights) in needs where !flights.isDisjoint(with: overtaken) {
            needs[waiter]?.insert(number)
        }
        return flight
    }

    /// What the flight brought is written: whoever waited for nothing else is answered.
    ///
    /// Returns `nil` for one that nobody wants any more.
    mutating func land(_ number: UInt64) -> Actions? {
        defer { checkInvariants() }
        guard remove(number, nil) else { return nil }
        var actions = Actions(hasNewBase: true)
        for (waiter, flights) in needs where flights.contains(number) {
            needs[waiter]?.remove(number)
            if flights.count == 1 {
                needs[waiter] = nil
                actions.answer.append((waiter, nil))
            }
        }
        return actions
    }

    /// The flight failed: whoever needed it gets the error, and nobody else.
    ///
    /// Returns `nil` for one that nobody wants any more.
    mutating func fail(_ number: UInt64, _ error: SanguineError) -> Actions? {
        defer { checkInvariants() }
        guard remove(number, error) else { return nil }
        let answer = needs.filter { $0.value.contains(number) }.map(\.key)
        for waiter in answer { needs[waiter] = nil }
        return Actions(
            cancel: takeUnwanted(),
            hasNewBase: true,
            answer: answer.map { ($0, error) }
        )
    }

    // MARK: - Data

    /// The positions are invalid: what is on the way to them may be from before.
    mutating func invalidate(_ positions: RangeSet<Int>) {
        defer { checkInvariants() }
        for index in flights.indices { flights[index].current.subtract(positions) }
    }

    /// The app has set the positions: what is on the way to them is not written.
    mutating func overrule(_ positions: RangeSet<Int>) {
        defer { checkInvariants() }
        for index in flights.indices {
            flights[index].current.subtract(positions)
            flights[index].wanted.subtract(positions)
        }
    }

    /// All that is on the way may be from before an invalidation.
    mutating func invalidateAll() {
        for index in flights.indices { flights[index].current = RangeSet() }
    }

    mutating func reset(_ error: SanguineError) -> Actions {
        defer { checkInvariants() }
        let actions = Actions(
            cancel: flights.map(\.number),
            hasNewBase: true,
            answer: needs.keys.map { ($0, error) }
        )
        flights = []
        needs = [:]
        recent = []
        // What went wrong for one user is nothing to the next.
        for waiter in watchers.keys { watchers[waiter]?.error = nil }
        return actions
    }

    // MARK: - Machinery

    /// The stretches to ask for: gaps that lie close together in one, long ones in several.
    ///
    /// A stretch that joins gaps asks again for what is known between them, but never for what is
    /// on its way.
    private static func stretches(
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

    // Two gaps can lie further apart than numbers reach.
    private static func isBridged(_ known: Range<Int>) -> Bool {
        let (count, isPast) = known.upperBound.subtractingReportingOverflow(known.lowerBound)
        return !isPast && count <= RangeLimits.bridge
    }

    private mutating func remove(_ number: UInt64, _ error: SanguineError?) -> Bool {
        guard let index = flights.firstIndex(where: { $0.number == number }) else { return false }
        let flight = flights.remove(at: index)
        for (waiter, watcher) in watchers where watcher.positions.overlaps(flight.range) {
            watchers[waiter]?.error = error
        }
        return true
    }

    private mutating func takeUnwanted() -> [UInt64] {
        let wanted = needs.values.reduce(into: Set<UInt64>()) { $0.formUnion($1) }
        let unwanted = flights.map(\.number).filter { !wanted.contains($0) }
        flights.removeAll { !wanted.contains($0.number) }
        return unwanted
    }

    private func checkInvariants() {
        assert(holdsInvariants(), "The invariants above do not hold.")
    }

    private func holdsInvariants() -> Bool {
        // With very many waiters the check would cost more than the event.
        guard needs.count <= 64 else { return true }
        let numbers = Set(flights.map(\.number))
        var current = RangeSet<Int>()
        for flight in flights {
            // No position is asked for twice.
            guard current.isDisjoint(flight.current),
                (1...RangeLimits.requestSpan).contains(flight.range.count)
            else { return false }
            current.formUnion(flight.current)
        }
        return needs.values.allSatisfy { !$0.isEmpty && $0.isSubset(of: numbers) }
            && numbers == needs.values.reduce(into: Set()) { $0.formUnion($1) }
            && zip(flights, flights.dropFirst()).allSatisfy { $0.number < $1.number }
            && recent.count <= RangeLimits.recentReads
    }
}
