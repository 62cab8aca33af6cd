package import OrderedCollections
package import SanguineModel

/// What is known of the operations that the authority has not settled yet, and the only code that
/// decides which of them is sent next.
///
///     queued ─▶ sending ─▶ acknowledged(at number) ─▶ settled: gone from here
///       ▲          │
///       └─ failed, ┤
///         deferred │
///                  └─▶ refused: in the tray, until it is retried or discarded
///
/// Pure: no I/O, no clock. Each event returns what must be made durable, see ``Step``; the shell
/// writes it before it acts on anything else. What was sending when the process died is
/// *unresolved* at the next start: it may have been done, and is sent again under the same id
/// before anything that depends on it.
///
/// Invariants, checked in debug builds after each event:
///
/// 1. Sequence numbers rise; an operation keeps its number and its id for life.
/// 2. An operation is in one flight at most; one flight at a time carries operations of a lane, and
///    a flight carries one kind. There are at most ``Limits/flights`` of a kind.
/// 3. Operations of a lane are sent in their order; no operation is sent before one that it depends
///    on was answered, or is sent before it in the same flight.
/// 4. With `limit` operations it is full; what is on disk is taken in all the same.
/// 5. `summary` counts `items` by their phase.
/// 6. For each kind in `looked`: none of its operations before `count` may take off, and a later
///    one of a lane in `closed` may not either.
package struct OutboxState: Sendable {
    /// How far a search for the next flight has come.
    private struct Search {
        /// How many operations it has looked at.
        var count = 0
        /// Lanes in which something earlier is not answered.
        var closed: Set<String>
    }

    package let limit: Int
    private let limits: [Kind: Limits]
    package private(set) var items: OrderedDictionary<Int64, Item> = [:]
    /// The epoch of the base's numbers; `nil` while it is not known.
    package private(set) var epoch: Epoch?
    package private(set) var pauses: Set<Pause> = []
    /// How often in a row flights of a group have failed, for groups that wait for their next try.
    package private(set) var waits: [RetryGroup: Int] = [:]
    /// How many operations there are.
    private(set) var summary = Outbox.Summary()
    private var failures: [RetryGroup: Int] = [:]
    private var flights: [UInt64: Flight] = [:]
    /// What the last search for a flight of each kind has found that must wait, so that the next
    /// one begins behind it; empty after whatever may have let something of it go.
    private var looked: [Kind: Search] = [:]
    private var lastFlight: UInt64 = 0

    /// Creates an outbox.
    ///
    /// - Parameters:
    ///   - limit: How many operations it takes, of all kinds.
    ///   - limits: How those of each kind are sent. Default for a kind that is left out: one by
    ///     one.
    package init(limit: Int, _ limits: [Kind: Limits]) {
        self.limit = limit
        self.limits = limits
    }

    // MARK: - Questions

    /// Whether another operation would be too much.
    package var isFull: Bool { items.count >= limit }

    /// The record mutations of which it is not known whether they are done, ascending.
    ///
    /// A base that was read without asking about all of them is not adopted: it may or may not have
    /// them in it.
    package var unresolved: [Int64] {
        items.values.filter { $0.kind == .mutator && $0.isUnresolved }.map(\.sequence)
    }

    /// Whether an answer to come says what became of all ``unresolved`` operations.
    ///
    /// Those of a lane that waits for its next try are not sent meanwhile.
    package var isAnswerDue: Bool {
        items.values.allSatisfy { item in
            item.kind != .mutator || !item.isUnresolved || waits[lane(of: item)] == nil
        }
    }

    /// The record mutations that are part of what is visible, ascending.
    package var visible: [Int64] {
        items.values.filter { $0.kind == .mutator && !$0.isRefused }.map(\.sequence)
    }

    /// The number that the base must have reached for all record mutations that are acknowledged to
    /// be settled.
    ///
    /// `.max` if one is acknowledged at a number of another epoch than the base's: no number of
    /// this one contains it.
    package var wantedHead: Int64? {
        items.values.compactMap { item in item.head.map { isOfBase(item) ? $0 : .max } }.max()
    }

    /// Whether a record mutation is acknowledged at a number of another epoch.
    package func isAcknowledged(outside epoch: Epoch) -> Bool {
        items.values.contains { $0.isAcknowledged(outside: epoch) }
    }

    /// The first operation of a kind that is not answered, in a lane that is not among these.
    package func firstUnanswered(_ kind: Kind, outside lanes: Set<String>) -> Int64? {
        items.values.first { item in
            item.kind == kind && item.isUnanswered && !lanes.contains(item.lane)
        }?
        .sequence
    }

    /// The last operation of a kind before which all are shown; 0 if there is none.
    package func lastShown(_ kind: Kind) -> Int64 {
        let arriving = items.values.first { $0.kind == kind && $0.isArriving }
        return arriving.map { $0.sequence - 1 } ?? items.keys.last ?? 0
    }

    /// Whether something of a kind would be sent if it came now, into a lane that is free.
    package func mayTakeOff(_ kind: Kind) -> Bool {
        let limits = limits(kind)
        // Lanes that wait together wait in one group.
        let mustWait = limits.operations > 1 && waits[RetryGroup(kind: kind, lane: "")] != nil
        return !mustWait && !pauses.contains(.offline) && !mustSignIn(kind)
            && flights.values.count { $0.kind == kind } < limits.flights
    }

    /// How often in a row the server has not known the operation's mutator, and its lane, if that
    /// waits for the next try.
    package func deferral(of sequence: Int64) -> (lane: RetryGroup, times: Int)? {
        guard let lane = items[sequence].map(lane(of:)) else { return nil }
        return waits[lane].map { (lane, $0) }
    }

    /// Whether those of a kind wait for somebody to sign in.
    package func mustSignIn(_ kind: Kind) -> Bool { pauses.contains(.signIn(kind)) }

    /// Whether an operation is refused, or was never sent.
    package func mayDiscard(_ sequence: Int64) -> Bool {
        guard let item = items[sequence] else { return false }
        return item.isRefused || item.isUnsent
    }

    /// The operations of a lane that wait and have surely reached nobody, the newest first.
    package func unsent(_ kind: Kind, in lane: String) -> [Int64] {
        items.values.reversed().filter { $0.kind == kind && $0.lane == lane && $0.isUnsent }
            .map(\.sequence)
    }

    // MARK: - Operations

    /// Takes an operation in, new or from the disk.
    ///
    /// One that was sending when the process died is unresolved.
    package mutating func add(_ item: Item) {
        defer { checkInvariants() }
        var item = item
        if case .sending = item.phase {
            item.phase = .queued
            item.mayBeDone = true
        }
        let place = items.keys.lastIndex { $0 < item.sequence }.map { $0 + 1 } ?? 0
        guard items[item.sequence] == nil else { return }
        summary.count(item.phase, 1)
        if place == items.count {
            items[item.sequence] = item
        } else {
            looked = [:]
            // Another process may have taken a smaller number first.
            items.updateValue(item, forKey: item.sequence, insertingAt: place)
        }
    }

    /// Takes out an operation that is refused, or was never sent.
    ///
    /// - Returns: What must be durable; `nil` if it may be done already.
    package mutating func discard(_ sequence: Int64) -> [Step]? {
        defer { checkInvariants() }
        guard mayDiscard(sequence), let item = items[sequence] else { return nil }
        remove([sequence])
        // What waited for it waits for what it waited for.
        for (later, dependent) in items where dependent.dependencies.contains(sequence) {
            items[later]?.dependencies.remove(sequence)
            items[later]?.dependencies.formUnion(item.dependencies)
        }
        return [.removed([sequence])]
    }

    // MARK: - Flights

    /// The flight to start now, if there is one, and what must be durable before it leaves.
    ///
    /// - Parameter kinds: The kinds that there is somebody for. Default: all.
    /// - Returns: The flight, and the steps.
    package mutating func takeOff(
        of kinds: [Kind] = Kind.allCases
    ) -> (flight: Flight, steps: [Step])? {
        defer { checkInvariants() }
        for kind in kinds where mayTakeOff(kind) {
            let chosen = search(kind)
            guard !chosen.isEmpty else { continue }
            lastFlight += 1
            let flight = Flight(number: lastFlight, kind: kind, sequences: chosen)
            for sequence in chosen { items[sequence]?.phase = .sending(flight: lastFlight) }
            flights[lastFlight] = flight
            return (flight, [.sending(chosen)])
        }
        return nil
    }

    /// The operations of a kind that can be sent together now.
    private mutating func search(_ kind: Kind) -> [Int64] {
        // Taken out, so that the lanes are not copied.
        var search = looked.removeValue(forKey: kind) ?? Search(closed: lanesInFlight(kind))
        var chosen: [Int64] = []
        var isChosen: Set<Int64> = []
        while search.count < items.count, chosen.count < limits(kind).operations {
            let item = items.values[search.count]
            // It is shown in a moment, and what comes after it is looked at then.
            if item.kind == kind, item.isArriving { break }
            search.count += 1
            guard item.kind == kind, item.phase == .queued else { continue }
            let mustWait = item.dependencies.contains { sequence in
                items[sequence].map { $0.isUnanswered && !isChosen.contains(sequence) } ?? false
            }
            guard !mustWait, !search.closed.contains(item.lane), waits[group(of: item)] == nil,
                waits[lane(of: item)] == nil
            else {
                search.closed.insert(item.lane)
                continue
            }
            chosen.append(item.sequence)
            isChosen.insert(item.sequence)
        }
        search.closed.formUnion(chosen.compactMap { items[$0]?.lane })
        looked[kind] = search
        return chosen
    }

    /// The answer came; what it does not mention is sent again.
    package mutating func land(
        _ number: UInt64,
        _ results: [PushResult],
        epoch: Epoch? = nil
    ) -> [Step] {
        defer { checkInvariants() }
        guard let flight = flights.removeValue(forKey: number) else { return [] }
        looked[flight.kind] = nil
        for group in groups(of: flight) { failures[group] = nil }
        putBack(flight, mayBeDone: true)
        return resolve(results, epoch: epoch)
    }

    /// There was no answer.
    ///
    /// - Parameters:
    ///   - number: The flight.
    ///   - failure: How it failed.
    ///   - wasSent: Whether the operations may have been done.
    /// - Returns: The groups that wait now, with how often in a row they have failed.
    package mutating func fail(
        _ number: UInt64,
        _ failure: Failure,
        wasSent: Bool
    ) -> [RetryGroup: Int] {
        defer { checkInvariants() }
        guard let flight = flights.removeValue(forKey: number) else { return [:] }
        looked[flight.kind] = nil
        let groups = groups(of: flight)
        putBack(flight, mayBeDone: wasSent)
        if failure == .needsSignIn {
            pauses.insert(.signIn(flight.kind))
            return [:]
        }
        for group in groups {
            failures[group, default: 0] += 1
            waits[group] = failures[group]
        }
        return waits.filter { groups.contains($0.key) }
    }

    /// A group's wait after a failure is over; or all are, because something has happened that
    /// makes another try worth it.
    package mutating func wake(_ group: RetryGroup? = nil) {
        defer { checkInvariants() }
        guard let group else { return (looked, waits) = ([:], [:]) }
        (looked[group.kind], waits[group]) = (nil, nil)
    }

    /// Something stands in the way of sending, or no longer does.
    package mutating func set(_ pause: Pause, _ isOn: Bool) {
        defer { checkInvariants() }
        if isOn {
            pauses.insert(pause)
        } else {
            pauses.remove(pause)
            waits = [:]
            looked = [:]
        }
    }

    /// Records what became of operations, from a push's answer or from a pull's.
    package mutating func resolve(_ results: [PushResult], epoch: Epoch? = nil) -> [Step] {
        defer { checkInvariants() }
        guard !results.isEmpty else { return [] }
        let known = Dictionary(items.values.map { ($0.id, $0.sequence) }) { first, _ in first }
        var steps: [Step] = []
        for result in results {
            guard let sequence = known[result.id], let item = items[sequence], item.isUnanswered
            else { continue }
            looked[item.kind] = nil
            switch result.status {
            case .applied, .replayed:
                failures[lane(of: item)] = nil
                let head = result.head ?? 0
                set(.acknowledged(head: head), of: sequence)
                items[sequence]?.epoch = epoch
                steps.append(.acknowledged(sequence, head: head, epoch: epoch))
            case .refused:
                failures[lane(of: item)] = nil
                let problem = result.problem ?? Problem(.internalFault, "Read the server's log.")
                set(.refused(problem), of: sequence)
                steps.append(.refused(sequence, problem))
            case .unknown:
                // The server does not know its mutator, and its lane waits. A copy of the request
                // that the network delivers late may still do it.
                guard let problem = result.problem, let since = result.head else { continue }
                failures[lane(of: item), default: 0] += 1
                waits[lane(of: item)] = failures[lane(of: item)]
                steps.append(.deferred(sequence, since: since, problem))
            }
        }
        return steps
    }

    /// The base has reached a number: record mutations that are acknowledged up to there are over.
    ///
    /// - Returns: Those operations, and what must be durable.
    package mutating func settle(through head: Int64) -> (sequences: [Int64], steps: [Step]) {
        defer { checkInvariants() }
        let settled = items.values.filter { item in
            isOfBase(item) && item.head.map { $0 <= head } ?? false
        }
        .map(\.sequence)
        guard !settled.isEmpty else { return ([], []) }
        remove(settled)
        return (settled, [.removed(settled)])
    }

    /// The base has numbers of an epoch.
    package mutating func enter(_ epoch: Epoch) { self.epoch = epoch }

    /// The server has numbers of an epoch: record mutations that are acknowledged in another one
    /// may be lost, and are sent again under the same ids.
    ///
    /// - Parameters:
    ///   - epoch: The epoch.
    ///   - isNew: Whether the base is of another one. Acknowledgements without an epoch may be lost
    ///     with it then.
    /// - Returns: What must be durable.
    package mutating func reopen(for epoch: Epoch, isNew: Bool = true) -> [Step] {
        defer { checkInvariants() }
        let lost = items.values.filter { item in
            item.isAcknowledged(outside: epoch)
                || isNew && self.epoch != nil && item.head != nil && item.epoch == nil
        }
        .map(\.sequence)
        guard !lost.isEmpty else { return [] }
        looked = [:]
        for sequence in lost {
            set(.queued, of: sequence)
            items[sequence]?.mayBeDone = true
            items[sequence]?.epoch = nil
        }
        return [.reopened(lost)]
    }

    /// Whether an acknowledgement's number may be compared with the base's.
    package func isOfBase(_ item: Item) -> Bool {
        guard let epoch, let other = item.epoch else { return true }
        return epoch == other
    }

    /// What those were acknowledged for is in the base: they are over.
    ///
    /// - Returns: What must be durable.
    package mutating func settle(_ sequences: [Int64]) -> [Step] {
        defer { checkInvariants() }
        let settled = sequences.filter { sequence in
            if case .acknowledged = items[sequence]?.phase { true } else { false }
        }
        guard !settled.isEmpty else { return [] }
        remove(settled)
        return [.removed(settled)]
    }

    /// An operation is shown: it may be sent from now on.
    package mutating func arrived(_ sequence: Int64) {
        defer { checkInvariants() }
        items[sequence]?.isArriving = false
    }

    /// What waits in a lane goes on in another one, behind what was made before it there.
    package mutating func move(_ sequence: Int64, to lane: String) {
        defer { checkInvariants() }
        guard items[sequence]?.phase == .queued else { return }
        looked = [:]
        items[sequence]?.lane = lane
    }

    private mutating func set(_ phase: Phase, of sequence: Int64) {
        guard let old = items[sequence]?.phase else { return }
        summary.count(old, -1)
        summary.count(phase, 1)
        items[sequence]?.phase = phase
    }

    private mutating func remove(_ sequences: [Int64]) {
        looked = [:]
        for sequence in sequences {
            if let item = items.removeValue(forKey: sequence) { summary.count(item.phase, -1) }
        }
    }

    /// Lanes in which something earlier is not answered.
    private func lanesInFlight(_ kind: Kind) -> Set<String> {
        let flying = flights.values.filter { $0.kind == kind }.flatMap(\.sequences)
        return Set(flying.compactMap { items[$0]?.lane })
    }

    private func limits(_ kind: Kind) -> Limits {
        limits[kind] ?? Limits(operations: 1, flights: 1)
    }

    // Lanes that travel together fail and wait together.
    private func group(of item: Item) -> RetryGroup {
        RetryGroup(kind: item.kind, lane: limits(item.kind).operations > 1 ? "" : item.lane)
    }

    private func lane(of item: Item) -> RetryGroup {
        RetryGroup(kind: item.kind, lane: item.lane)
    }

    private func groups(of flight: Flight) -> Set<RetryGroup> {
        Set(flight.sequences.compactMap { items[$0].map(group(of:)) })
    }

    private mutating func putBack(_ flight: Flight, mayBeDone: Bool) {
        for sequence in flight.sequences {
            guard case .sending(flight.number) = items[sequence]?.phase else { continue }
            items[sequence]?.phase = .queued
            // Once sent is sent: a later sending that was turned away does not undo it.
            if mayBeDone { items[sequence]?.mayBeDone = true }
        }
    }

    private func checkInvariants() {
        assert(
            Kind.allCases.allSatisfy { kind in
                flights.values.count { $0.kind == kind } <= limits(kind).flights
            }
        )
        // With thousands it would cost more than the event.
        guard items.count <= 64 else { return }
        assert(
            summary == items.values.reduce(into: Outbox.Summary()) { $0.count($1.phase, 1) },
            "An operation is counted wrongly."
        )
        assert(
            looked.values.allSatisfy { $0.count <= items.count },
            "It looked at what is not there."
        )
        assert(zip(items.keys, items.keys.dropFirst()).allSatisfy { $0 < $1 }, "Out of order.")
        assert(
            items.values.allSatisfy { item in
                guard case .sending(let number) = item.phase else { return true }
                return flights[number]?.sequences.contains(item.sequence) == true
            },
            "An operation is in a flight that is over."
        )
        assert(
            {
                let lanes = flights.values.map { flight in
                    Set(
                        flight.sequences.compactMap {
                            items[$0].map { [$0.kind.rawValue, $0.lane] }
                        }
                    )
                }
                let all = lanes.reduce(into: Set()) { $0.formUnion($1) }
                return lanes.map(\.count).reduce(0, +) == all.count
            }(),
            "Two flights carry operations of one lane."
        )
    }
}
