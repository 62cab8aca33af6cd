import HeapModule
import SanguineModel

/// When which of the polled keys is due: one timer for all of them.
///
/// A key that is due is due once, however long ago: its next turn counts from now, not from when
/// the last one should have been. After an hour in the background there is one fetch and not
/// sixty. Each interval is up to a tenth longer or shorter by chance, so that devices that began
/// together do not stay together.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. Each key has one turn ahead: the heap's element of its number.
/// 2. The heap holds at most twice as many elements as there are keys, and 16.
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

    /// How many keys are polled.
    var count: Int { polls.count }

    /// When the next turn is; `nil` if nothing is polled.
    var nextDue: Duration? { turns.min?.due }

    /// Somebody observes a key that is to be fetched every so often.
    ///
    /// Its turn comes after an interval. Of several intervals for one key the shortest counts.
    ///
    /// - Parameters:
    ///   - key: What to fetch.
    ///   - interval: How often; a shorter one than a second counts as a second.
    ///   - now: The present time on the clock of waits.
    ///   - random: Where chance comes from.
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

    /// An observer of a polled key has gone.
    ///
    /// With the last one the polling ends.
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

    /// Takes the keys whose turn has come, the longest due first, and gives each its next turn.
    mutating func takeDue(
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

    /// Removes turns that were overtaken or given up, as far as they are in the way.
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
