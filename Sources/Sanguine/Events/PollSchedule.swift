import HeapModule
import SanguineModel

/// The due times of polled keys, with one timer for all of them.
///
/// A key that is due is due once, however long ago: its next turn counts from the current time, not
/// from its last due time. After an hour in the background there is one fetch, not sixty. Each
/// interval is randomly up to a tenth longer or shorter, so that devices that started together do
/// not stay together.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. Each key has one future turn: the heap's element with its number.
/// 2. The heap holds at most 16 elements more than twice the number of keys.
struct PollSchedule<Key: Hashable & Sendable>: Sendable {
    private struct Poll {
        var interval: Duration
        var turn: UInt64
        var observers: Int
    }

    private struct Turn: Comparable, Sendable {
        var due: Duration
        var number: UInt64
        var key: Key

        static func == (lhs: Turn, rhs: Turn) -> Bool { lhs.number == rhs.number }
        static func < (lhs: Turn, rhs: Turn) -> Bool {
            (lhs.due, lhs.number) < (rhs.due, rhs.number)
        }
    }

    private var polls: [Key: Poll] = [:]
    private var turns = Heap<Turn>()
    private var lastNumber: UInt64 = 0

    init() {}

    /// The number of polled keys.
    var count: Int { polls.count }

    /// The time at which the next turn is due; `nil` if nothing is polled.
    var nextDue: Duration? { turns.min?.due }

    /// Adds an observer of a polled key.
    ///
    /// Its turn comes after an interval. If one key has several intervals, the shortest counts.
    ///
    /// - Parameters:
    ///   - key: The key to fetch.
    ///   - interval: The polling interval; less than a second counts as a second.
    ///   - now: The current time on the clock for delays.
    ///   - random: The source of randomness.
    mutating func begin(
        _ key: Key,
        every interval: Duration,
        at now: Duration,
        using random: inout some RandomNumberGenerator
    ) {
        defer { checkInvariants() }
        let interval = max(interval, EventLimits.shortestSleep)
        guard var poll = polls[key] else {
            polls[key] = Poll(interval: interval, turn: 0, observers: 1)
            schedule(key, at: now, using: &random)
            return
        }
        poll.observers += 1
        let isShorter = interval < poll.interval
        poll.interval = min(interval, poll.interval)
        polls[key] = poll
        if isShorter { schedule(key, at: now, using: &random) }
    }

    /// Removes an observer of a polled key.
    ///
    /// Polling ends with the last one.
    mutating func end(_ key: Key) {
        defer { checkInvariants() }
        guard let poll = polls[key] else { return }
        if poll.observers > 1 {
            polls[key]?.observers -= 1
        } else {
            polls[key] = nil
            prune()
        }
    }

    /// Returns the due keys, the longest overdue first, and schedules their next turns.
    mutating func popDue(
        at now: Duration,
        using random: inout some RandomNumberGenerator
    ) -> [Key] {
        defer { checkInvariants() }
        var due: [Key] = []
        while let turn = turns.min, turn.due <= now {
            due.append(turn.key)
            schedule(turn.key, at: now, using: &random)
        }
        return due
    }

    private mutating func schedule(
        _ key: Key,
        at now: Duration,
        using random: inout some RandomNumberGenerator
    ) {
        guard let interval = polls[key]?.interval else { return }
        let jitter = EventLimits.pollJitter
        lastNumber += 1
        polls[key]?.turn = lastNumber
        turns.insert(
            Turn(
                due: now + interval * (1 + Double.random(in: -jitter...jitter, using: &random)),
                number: lastNumber,
                key: key
            )
        )
        prune()
    }

    /// Removes outdated turns from the front of the heap, and all of them if there are too many.
    private mutating func prune() {
        while let turn = turns.min, polls[turn.key]?.turn != turn.number { turns.removeMin() }
        guard turns.count > 2 * polls.count + 16 else { return }
        turns = Heap(turns.unordered.filter { polls[$0.key]?.turn == $0.number })
    }

    private func checkInvariants() {
        assert(turns.count <= 2 * polls.count + 16)
        assert(turns.isEmpty == polls.isEmpty)
        if let turn = turns.min { assert(polls[turn.key]?.turn == turn.number) }
    }
}
