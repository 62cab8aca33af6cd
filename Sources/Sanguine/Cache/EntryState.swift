import Foundation
import SanguineModel

/// What is known of one entry of the cache, and the only code that decides what happens next.
///
/// Two axes, because they are independent: is there data, and is the network busy?
///
///                   idle                            fetching
///     absent        nothing known                   first fetch
///     held          shown; fresh or not             shown, and asked for again
///
/// The state performs no I/O and reads no clock. Each method records one event and returns what the
/// caller must now do, see ``Actions``. ``Entries`` does it. The value itself stays outside: no
/// decision depends on it.
///
/// A *generation* ends with each invalidation; its numbers are given from outside and rise, see
/// ``InvalidationMarks``. A flight belongs to the generation in which it took off, because its
/// answer may be from just then; who joins after an invalidation is not served by a flight from
/// before it, and a value that was set is not overwritten by one.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. At most one flight is under way, and none without a waiter or an observer.
/// 2. A waiter waits only while a flight is under way.
/// 3. Nothing is of a generation to come: not the data, not the flight, not a waiter's need.
/// 4. Flights are numbered upwards; only the one under way can land.
struct EntryState: Sendable {
    /// What the owner of the state must do now, in this order.
    struct Actions: Hashable, Sendable {
        /// The flight to cancel.
        var cancel: UInt64?
        /// The waiters to answer, with the event's outcome.
        var answer: [UInt64] = []
        /// The flight to start.
        var start: UInt64?
        /// Whether the value that came is not to be kept: a newer one was set while it was on its
        /// way, and answers those who wait.
        var isOvertaken = false

        static let nothing = Actions()
    }

    /// The data axis, when there is data.
    struct Held: Hashable, Sendable {
        /// When the value arrived from its source.
        var asOf: Timestamp
        /// The user's day on which it was asked for, if its freshness goes by days.
        var day: LocalDay?
        /// The generation of the flight that brought it.
        var generation: UInt64
        /// Whether this process fetched it, and not one before, whoever was signed in then.
        var isOfSession: Bool
        /// The generation in which it was last set or changed here: no flight from before it may
        /// overwrite it.
        var changedAt: UInt64 = 0
    }

    /// The network axis.
    enum Network: Hashable, Sendable {
        case idle
        case fetching(flight: UInt64, generation: UInt64)
    }

    private(set) var held: Held?
    private(set) var network = Network.idle
    /// Why the last flight failed; `nil` after one that landed.
    private(set) var error: SanguineError?
    private(set) var generation: UInt64 = 0
    private var needs: [UInt64: UInt64] = [:]  // Waiter to the generation that it needs.
    private var observers: Set<UInt64> = []
    private var lastFlight: UInt64 = 0

    // MARK: - Questions

    var isFetching: Bool { network != .idle }

    /// The flight under way; `nil` if another one follows, because the entry was invalidated since
    /// it took off and a caller or an observer needs what is newer.
    var currentFlight: UInt64? {
        guard case .fetching(let flight, let generation) = network else { return nil }
        let landed = isOvertaken(flightOf: generation) ? held?.generation : generation
        return isFollowed(flightOf: generation, leaving: landed) ? nil : flight
    }

    /// Returns whether another flight follows one that ends.
    ///
    /// - Parameters:
    ///   - generation: The generation of the one that ends.
    ///   - held: The generation of what is held then; `nil` if nothing is.
    /// - Returns: Whether a caller or an observer needs what is newer.
    private func isFollowed(flightOf generation: UInt64, leaving held: UInt64?) -> Bool {
        guard generation < self.generation else { return false }
        return needs.values.contains { $0 > generation }
            || !observers.isEmpty && held.map { $0 < self.generation } ?? true
    }

    var waiterCount: Int { needs.count }

    /// Whether somebody would miss the entry if it were forgotten.
    var isInUse: Bool { isFetching || !observers.isEmpty }

    /// Whether anybody observes the entry.
    var isObserved: Bool { !observers.isEmpty }

    /// Whether the data counts as true without asking again.
    ///
    /// A time stamp in the future counts as stale: the clock was set back, and nobody knows by
    /// how much. A day counts as ``DayRule`` says.
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

    /// A caller waits for an answer of the present generation.
    mutating func join(waiter: UInt64, nextFlight: UInt64) -> Actions {
        defer { checkInvariants() }
        needs[waiter] = generation
        return Actions(start: startIfIdle(nextFlight))
    }

    /// A caller gave up.
    ///
    /// The last one takes the flight with it; no other notices.
    mutating func leave(waiter: UInt64) -> Actions {
        defer { checkInvariants() }
        guard needs.removeValue(forKey: waiter) != nil else { return .nothing }
        return Actions(cancel: cancelIfUnwanted(), answer: [waiter])
    }

    /// An observer wants to be told of every change, and the present truth soon.
    mutating func observe(_ observer: UInt64, isFresh: Bool, nextFlight: UInt64) -> Actions {
        defer { checkInvariants() }
        observers.insert(observer)
        return Actions(start: isFresh ? nil : startIfIdle(nextFlight))
    }

    /// An observer left.
    mutating func unobserve(_ observer: UInt64) -> Actions {
        defer { checkInvariants() }
        guard observers.remove(observer) != nil else { return .nothing }
        return Actions(cancel: cancelIfUnwanted())
    }

    // MARK: - Data

    /// What is held, and what is on the way, no longer counts as fresh.
    mutating func invalidate(generation: UInt64, nextFlight: UInt64) -> Actions {
        defer { checkInvariants() }
        note(generation: generation)
        return Actions(start: observers.isEmpty ? nil : startIfIdle(nextFlight))
    }

    /// As ``invalidate(generation:nextFlight:)`` for an entry that nobody observes.
    mutating func note(generation: UInt64) {
        self.generation = max(self.generation, generation)
    }

    /// An observer's entry is to be fetched again although it may be fresh.
    mutating func refetch(nextFlight: UInt64) -> Actions {
        defer { checkInvariants() }
        return Actions(start: observers.isEmpty ? nil : startIfIdle(nextFlight))
    }

    /// A value of an earlier process was found on disk.
    ///
    /// Ignored if there is a newer one already.
    ///
    /// - Parameters:
    ///   - asOf: When it arrived.
    ///   - day: The user's day on which it arrived.
    ///   - generation: What it was invalidated by, if it is stale.
    /// - Returns: Whether it was taken.
    mutating func restore(
        asOf: Timestamp,
        day: LocalDay? = nil,
        staleSince generation: UInt64?
    ) -> Bool {
        defer { checkInvariants() }
        guard held == nil else { return false }
        let own = self.generation
        if let generation { note(generation: max(generation, 1)) }
        held = Held(
            asOf: asOf,
            day: day,
            generation: generation == nil ? own : 0,
            isOfSession: false
        )
        return true
    }

    /// A value was set without a fetch.
    ///
    /// It is the truth from now on: a flight that took off before does not overwrite it.
    mutating func set(
        at now: Timestamp,
        day: LocalDay? = nil,
        generation: UInt64
    ) -> Actions {
        defer { checkInvariants() }
        note(generation: generation)
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

    /// The value was changed in place: it is as old, and as stale, as it was.
    ///
    /// A flight that took off before does not overwrite it; if it was stale, another one follows.
    ///
    /// Returns `nil` if there is none.
    mutating func amend(generation: UInt64) -> Actions? {
        defer { checkInvariants() }
        guard var held else { return nil }
        let isCurrent = held.generation == self.generation
        note(generation: generation)
        if isCurrent { held.generation = self.generation }
        held.changedAt = self.generation
        self.held = held
        return .nothing
    }

    /// The entry's source has another value, of that time; a flight that is under way goes on.
    ///
    /// It is as stale as it was, or stale from now on: only a flight makes up for an invalidation.
    mutating func supply(at asOf: Timestamp, isStale: Bool = false) {
        defer { checkInvariants() }
        held = Held(
            asOf: asOf,
            day: nil,
            generation: isStale ? 0 : held?.generation ?? generation,
            isOfSession: true
        )
    }

    // MARK: - Flights

    /// The flight brought a value.
    ///
    /// Returns `nil` if it must be dropped: it came too late. One that is ambiguous, because it is
    /// not known whether it has an operation in it that is under way, is not kept, if there is one.
    mutating func land(
        _ flight: UInt64,
        at now: Timestamp,
        day: LocalDay? = nil,
        isAmbiguous: Bool = false,
        nextFlight: UInt64
    ) -> Actions? {
        defer { checkInvariants() }
        guard case .fetching(flight, let generation) = network else { return nil }
        error = nil
        guard !isOvertaken(flightOf: generation), !isAmbiguous || held == nil else {
            var actions = end(flightOf: generation, nextFlight: nextFlight)
            actions.isOvertaken = true
            return actions
        }
        held = Held(asOf: now, day: day, generation: generation, isOfSession: true)
        return end(flightOf: generation, nextFlight: nextFlight)
    }

    /// The flight failed.
    ///
    /// Every waiter gets the error, and none after them does.
    ///
    /// Returns `nil` if the failure came too late to matter.
    mutating func fail(
        _ flight: UInt64,
        error: SanguineError,
        nextFlight: UInt64
    ) -> Actions? {
        defer { checkInvariants() }
        guard case .fetching(flight, let generation) = network else { return nil }
        guard !isOvertaken(flightOf: generation) else {
            // Who waits gets the newer value, and needs no error.
            var actions = end(flightOf: generation, nextFlight: nextFlight)
            actions.isOvertaken = true
            return actions
        }
        // The user has signed out, and observing does not sign in: that is no failure.
        self.error = error == .userChanged ? nil : error
        return end(flightOf: generation, nextFlight: nextFlight)
    }

    private func isOvertaken(flightOf generation: UInt64) -> Bool {
        held.map { $0.changedAt > generation } ?? false
    }

    // MARK: - Users

    /// Another user is there, or none: all that is known is forgotten, all that is under way ends.
    ///
    /// - Parameter nextFlight: The flight for the observers that stay; `nil` if nobody is signed
    ///   in, or a screen that is about to close would sign somebody in.
    /// - Returns: What to do now.
    mutating func reset(nextFlight: UInt64?) -> Actions {
        defer { checkInvariants() }
        var actions = abandon()
        held = nil
        error = nil
        if let nextFlight, !observers.isEmpty { actions.start = startIfIdle(nextFlight) }
        return actions
    }

    /// The client is closed: all that is under way ends, and nobody observes any more.
    mutating func close() -> Actions {
        defer { checkInvariants() }
        observers = []
        return abandon()
    }

    private mutating func abandon() -> Actions {
        var actions = Actions(answer: Array(needs.keys))
        if case .fetching(let flight, _) = network { actions.cancel = flight }
        needs = [:]
        network = .idle
        return actions
    }

    private mutating func end(flightOf generation: UInt64, nextFlight: UInt64) -> Actions {
        network = .idle
        let isFollowed = isFollowed(flightOf: generation, leaving: held?.generation)
        var actions = Actions()
        if generation == self.generation {
            // Nobody needs more than the present one.
            actions.answer = Array(needs.keys)
            needs = [:]
        } else {
            actions.answer = needs.filter { $0.value <= generation }.map(\.key)
            for waiter in actions.answer { needs[waiter] = nil }
        }
        if isFollowed { actions.start = startIfIdle(nextFlight) }
        return actions
    }

    private mutating func startIfIdle(_ flight: UInt64) -> UInt64? {
        guard network == .idle else { return nil }
        assert(flight > lastFlight, "Flights are numbered upwards.")
        lastFlight = flight
        network = .fetching(flight: flight, generation: generation)
        return flight
    }

    private mutating func cancelIfUnwanted() -> UInt64? {
        guard case .fetching(let flight, _) = network, needs.isEmpty, observers.isEmpty
        else { return nil }
        network = .idle
        return flight
    }

    private func checkInvariants() {
        assert(isFetching || needs.isEmpty, "A waiter waits for nothing.")
        if case .fetching(let flight, let generation) = network {
            assert(!needs.isEmpty || !observers.isEmpty, "A flight that nobody wants.")
            assert(flight == lastFlight && generation <= self.generation)
        }
        assert(held.map { $0.generation <= generation } ?? true)
        // With thousands of waiters the check would cost more than the event.
        if needs.count <= 64 { assert(needs.values.allSatisfy { $0 <= generation }) }
    }
}
