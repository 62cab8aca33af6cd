import Foundation
import SanguineModel

/// The state of one entry of the cache, and the only code that decides what happens next.
///
/// It has two independent axes: whether there is data, and whether a fetch is in progress.
///
///                   idle                            fetching
///     absent        nothing known                   first fetch
///     held          shown; fresh or not             shown, and fetched again
///
/// The state performs no I/O and reads no clock. Each method records one event and returns what the
/// caller must now do, see ``Actions``. ``Entries`` does it. The value itself stays outside: no
/// decision depends on it.
///
/// A *generation* ends with each invalidation; ``InvalidationMarks`` supplies its numbers, which
/// increase. A fetch belongs to the generation in which it started, because its response may
/// reflect that moment. So it neither serves a caller that joins after a later invalidation nor
/// overwrites a value that was set since.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. At most one fetch is in progress, and each has a waiter or an observer.
/// 2. A waiter waits only while a fetch is in progress.
/// 3. No data, fetch or waiter has a generation later than the entry's.
/// 4. Fetches are numbered in ascending order; only the current one can complete.
struct EntryState: Sendable {
    /// The actions that the owner of the state must perform, in this order.
    struct Actions: Hashable, Sendable {
        /// The number of the fetch to cancel.
        var cancel: UInt64?
        /// The waiters to answer, with the event's outcome.
        var answer: [UInt64] = []
        /// The number of the fetch to start.
        var start: UInt64?
        /// Whether to drop the fetched value and answer the waiters with the held one: a newer one
        /// was set in the meantime.
        var isOvertaken = false

        static let nothing = Actions()
    }

    /// The state of the held data.
    struct Held: Hashable, Sendable {
        /// The time at which the value arrived from its source.
        var asOf: Timestamp
        /// The user's day on which it was requested, if its freshness goes by days.
        var day: LocalDay?
        /// The generation of the fetch that returned it.
        var generation: UInt64
        /// Whether this process fetched it, and not an earlier one, regardless of the signed-in
        /// user.
        var isOfSession: Bool
        /// The generation in which it was last set or changed locally: an earlier fetch must not
        /// overwrite it.
        var changedAt: UInt64 = 0
    }

    /// Whether a fetch is in progress.
    enum Network: Hashable, Sendable {
        case idle
        case fetching(fetchNumber: UInt64, generation: UInt64)
    }

    private(set) var held: Held?
    private(set) var network = Network.idle
    /// The reason why the last fetch failed; `nil` after a success.
    private(set) var error: SanguineError?
    private(set) var generation: UInt64 = 0
    private var needs: [UInt64: UInt64] = [:]  // The generation that each waiter needs.
    private var observers: Set<UInt64> = []
    private var lastFetch: UInt64 = 0

    // MARK: - Questions

    var isFetching: Bool { network != .idle }

    /// The current fetch; `nil` if another fetch follows it, because the entry was invalidated
    /// since it started and a caller or an observer needs a newer value.
    var currentFetch: UInt64? {
        guard case .fetching(let fetchNumber, let generation) = network else { return nil }
        let left = isOvertaken(fetchOf: generation) ? held?.generation : generation
        return isFollowed(fetchOf: generation, leaving: left) ? nil : fetchNumber
    }

    /// Returns whether another fetch follows one that ends.
    ///
    /// - Parameters:
    ///   - generation: The generation of the fetch that ends.
    ///   - held: The generation of the value held afterwards; `nil` if there is none.
    /// - Returns: Whether a caller or an observer needs a newer value.
    private func isFollowed(fetchOf generation: UInt64, leaving held: UInt64?) -> Bool {
        guard generation < self.generation else { return false }
        return needs.values.contains { $0 > generation }
            || !observers.isEmpty && held.map { $0 < self.generation } ?? true
    }

    var waiterCount: Int { needs.count }

    /// Whether the entry must stay in memory: it is fetched or observed.
    var isInUse: Bool { isFetching || !observers.isEmpty }

    var isObserved: Bool { !observers.isEmpty }

    /// Returns whether the data can be used without a fetch.
    ///
    /// A time stamp in the future counts as stale: the clock was set back, by an unknown amount. A
    /// day counts as ``DayRule`` says.
    func isFresh(
        _ freshness: Policy.Freshness,
        at now: Timestamp,
        in zone: TimeZone
    ) -> Bool {
        guard let held, held.generation == generation else { return false }
        return freshness.holds(
            since: held.asOf,
            day: held.day,
            isOfSession: held.isOfSession,
            at: now,
            in: zone
        )
    }

    // MARK: - Readers

    /// Adds a caller that waits for an answer of the current generation.
    mutating func join(waiter: UInt64, nextFetch: UInt64) -> Actions {
        defer { checkInvariants() }
        needs[waiter] = generation
        return Actions(start: startIfIdle(nextFetch))
    }

    /// Removes a caller that gave up.
    ///
    /// The last caller cancels the fetch, unless the entry is observed.
    mutating func leave(waiter: UInt64) -> Actions {
        defer { checkInvariants() }
        guard needs.removeValue(forKey: waiter) != nil else { return .nothing }
        return Actions(cancel: cancelIfUnwanted(), answer: [waiter])
    }

    /// Adds an observer, and starts a fetch if the value is stale.
    mutating func observe(_ observer: UInt64, isFresh: Bool, nextFetch: UInt64) -> Actions {
        defer { checkInvariants() }
        observers.insert(observer)
        return Actions(start: isFresh ? nil : startIfIdle(nextFetch))
    }

    /// Removes an observer; without observers and callers, the fetch is cancelled.
    mutating func unobserve(_ observer: UInt64) -> Actions {
        defer { checkInvariants() }
        guard observers.remove(observer) != nil else { return .nothing }
        return Actions(cancel: cancelIfUnwanted())
    }

    // MARK: - Data

    /// Marks the held value, and the fetch in progress, as stale.
    mutating func invalidate(generation: UInt64, nextFetch: UInt64) -> Actions {
        defer { checkInvariants() }
        markStale(generation: generation)
        return Actions(start: observers.isEmpty ? nil : startIfIdle(nextFetch))
    }

    /// Marks the entry as stale without fetching it.
    mutating func markStale(generation: UInt64) {
        self.generation = max(self.generation, generation)
    }

    /// Fetches an observed entry again even if it is fresh.
    mutating func refetch(nextFetch: UInt64) -> Actions {
        defer { checkInvariants() }
        return Actions(start: observers.isEmpty ? nil : startIfIdle(nextFetch))
    }

    /// Restores a value of an earlier process from disk.
    ///
    /// Ignored if there is a value already.
    ///
    /// - Parameters:
    ///   - asOf: When it arrived.
    ///   - day: The user's day on which it arrived.
    ///   - generation: The generation of its invalidation, if it is stale.
    /// - Returns: Whether it was restored.
    mutating func restore(
        asOf: Timestamp,
        day: LocalDay? = nil,
        staleSince generation: UInt64?
    ) -> Bool {
        defer { checkInvariants() }
        guard held == nil else { return false }
        let own = self.generation
        if let generation { markStale(generation: max(generation, 1)) }
        held = Held(
            asOf: asOf,
            day: day,
            generation: generation == nil ? own : 0,
            isOfSession: false
        )
        return true
    }

    /// Records that a value was set without a fetch.
    ///
    /// A fetch that started earlier does not overwrite it.
    mutating func set(
        at now: Timestamp,
        day: LocalDay? = nil,
        generation: UInt64
    ) -> Actions {
        defer { checkInvariants() }
        markStale(generation: generation)
        held = Held(
            asOf: now,
            day: day,
            generation: self.generation,
            isOfSession: true,
            changedAt: self.generation
        )
        error = nil
        return .nothing
    }

    /// Records that the value was changed in place: its age and freshness stay.
    ///
    /// A fetch that started earlier does not overwrite it; if the value was stale, another fetch
    /// follows.
    ///
    /// Returns `nil` if there is no value.
    mutating func changeInPlace(generation: UInt64) -> Actions? {
        defer { checkInvariants() }
        guard var held else { return nil }
        let isCurrent = held.generation == self.generation
        markStale(generation: generation)
        if isCurrent { held.generation = self.generation }
        held.changedAt = self.generation
        self.held = held
        return .nothing
    }

    /// Records a new value of the entry's source; a fetch in progress continues.
    ///
    /// The value is as stale as the previous one, or stale if `isStale` is set: only a fetch makes
    /// up for an invalidation.
    mutating func supply(at asOf: Timestamp, isStale: Bool = false) {
        defer { checkInvariants() }
        held = Held(
            asOf: asOf,
            day: nil,
            generation: isStale ? 0 : held?.generation ?? generation,
            isOfSession: true
        )
    }

    // MARK: - Fetches

    /// Records the value of a fetch.
    ///
    /// An ambiguous value, which may or may not contain an operation in progress, is kept only if
    /// there is no other. Returns `nil` if the fetch is no longer the current one.
    mutating func complete(
        _ fetchNumber: UInt64,
        at now: Timestamp,
        day: LocalDay? = nil,
        isAmbiguous: Bool = false,
        nextFetch: UInt64
    ) -> Actions? {
        defer { checkInvariants() }
        guard case .fetching(fetchNumber, let generation) = network else { return nil }
        error = nil
        guard !isOvertaken(fetchOf: generation), !isAmbiguous || held == nil else {
            var actions = end(fetchOf: generation, nextFetch: nextFetch)
            actions.isOvertaken = true
            return actions
        }
        held = Held(asOf: now, day: day, generation: generation, isOfSession: true)
        return end(fetchOf: generation, nextFetch: nextFetch)
    }

    /// Records that the fetch failed.
    ///
    /// The current waiters get the error; later callers start a new fetch. Returns `nil` if the
    /// fetch is no longer the current one.
    mutating func fail(
        _ fetchNumber: UInt64,
        error: SanguineError,
        nextFetch: UInt64
    ) -> Actions? {
        defer { checkInvariants() }
        guard case .fetching(fetchNumber, let generation) = network else { return nil }
        guard !isOvertaken(fetchOf: generation) else {
            // The waiters get the newer value instead of an error.
            var actions = end(fetchOf: generation, nextFetch: nextFetch)
            actions.isOvertaken = true
            return actions
        }
        // The user signed out, and observing does not sign in: this is not a failure.
        self.error = error == .userChanged ? nil : error
        return end(fetchOf: generation, nextFetch: nextFetch)
    }

    private func isOvertaken(fetchOf generation: UInt64) -> Bool {
        held.map { $0.changedAt > generation } ?? false
    }

    // MARK: - Users

    /// Forgets all data and ends everything in progress, because the user has changed.
    ///
    /// - Parameter nextFetch: The number of the fetch for the remaining observers; `nil` if no
    ///   user is signed in, so that a screen that is about to close does not sign one in.
    /// - Returns: The actions to perform.
    mutating func reset(nextFetch: UInt64?) -> Actions {
        defer { checkInvariants() }
        var actions = abandon()
        held = nil
        error = nil
        if let nextFetch, !observers.isEmpty { actions.start = startIfIdle(nextFetch) }
        return actions
    }

    /// Ends everything in progress and removes all observers: the client is closed.
    mutating func close() -> Actions {
        defer { checkInvariants() }
        observers = []
        return abandon()
    }

    private mutating func abandon() -> Actions {
        var actions = Actions(answer: Array(needs.keys))
        if case .fetching(let fetchNumber, _) = network { actions.cancel = fetchNumber }
        needs = [:]
        network = .idle
        return actions
    }

    private mutating func end(fetchOf generation: UInt64, nextFetch: UInt64) -> Actions {
        network = .idle
        let isFollowed = isFollowed(fetchOf: generation, leaving: held?.generation)
        var actions = Actions()
        if generation == self.generation {
            // No waiter needs more than the current generation.
            actions.answer = Array(needs.keys)
            needs = [:]
        } else {
            actions.answer = needs.filter { $0.value <= generation }.map(\.key)
            for waiter in actions.answer { needs[waiter] = nil }
        }
        if isFollowed { actions.start = startIfIdle(nextFetch) }
        return actions
    }

    private mutating func startIfIdle(_ fetchNumber: UInt64) -> UInt64? {
        guard network == .idle else { return nil }
        assert(fetchNumber > lastFetch, "The number of a fetch must increase.")
        lastFetch = fetchNumber
        network = .fetching(fetchNumber: fetchNumber, generation: generation)
        return fetchNumber
    }

    private mutating func cancelIfUnwanted() -> UInt64? {
        guard case .fetching(let fetchNumber, _) = network, needs.isEmpty, observers.isEmpty
        else { return nil }
        network = .idle
        return fetchNumber
    }

    private func checkInvariants() {
        assert(isFetching || needs.isEmpty, "A caller waits, but nothing is fetched.")
        if case .fetching(let fetchNumber, let generation) = network {
            assert(!needs.isEmpty || !observers.isEmpty, "A fetch has no caller or observer.")
            assert(fetchNumber == lastFetch && generation <= self.generation)
        }
        assert(held.map { $0.generation <= generation } ?? true)
        // With thousands of waiters the check would cost more than the event.
        if needs.count <= 64 { assert(needs.values.allSatisfy { $0 <= generation }) }
    }
}

extension EntryState: CustomDebugStringConvertible {
    /// One line for reports: the data, the network, the callers, and the code of the last failure.
    var debugDescription: String {
        var parts = ["no data"]
        if let held { parts = [held.generation == generation ? "held" : "held, invalidated"] }
        if isFetching { parts.append("fetching") }
        if waiterCount > 0 { parts.append("\(waiterCount) waiting") }
        if isObserved { parts.append("\(observers.count) observing") }
        if let error { parts.append("failed with \(error.metricsCode)") }
        return parts.joined(separator: ", ")
    }
}
