package import OrderedCollections
package import SanguineModel

/// What is known of the operations that the authority has not settled yet, and the only code that
/// decides which of them is sent next.
///
///     queued ─▶ sending ─▶ acknowledged(at number) ─▶ settled: gone from here
///       ▲          │
///       └─ failed ─┤
///                  └─▶ refused: in the tray, until it is retried or discarded
///
/// Pure: no I/O, no clock. Each event returns what must be made durable, see ``Record``; the shell
/// writes it before it acts on anything else. What was sending when the process died is
/// *unresolved* at the next start: it may have been done, and is sent again under the same id
/// before anything that depends on it.
///
/// Invariants, checked in debug builds after each event:
///
/// 1. Sequence numbers rise; an operation keeps its number and its id for life.
/// 2. An operation is in one flight at most; one flight at a time carries operations of a lane, and
///    there are at most `parallel` flights.
/// 3. Operations of a lane are sent in their order; no operation is sent before one that it depends
///    on was answered, or is sent before it in the same flight.
/// 4. There are at most `limit` operations, the refused among them.
/// 5. `summary` counts `items` by their phase.
/// 6. None of the operations before `looked.count` may take off, and a later one of a lane in
///    `looked.closed` may not either; for as long as `looked` is there.
package struct OutboxState: Sendable {
    /// Where an operation is.
    package enum Phase: Hashable, Sendable {
        /// Waits to be sent, for the first time or again.
        case queued
        /// On its way in that flight.
        case sending(flight: UInt64)
        /// Done: the base contains it from that number on.
        case acknowledged(head: Int64)
        /// Not done, and never will be.
        case refused(Problem)
    }

    /// An operation, without what it does.
    package struct Item: Sendable {
        package let id: Identifier
        package let sequence: Int64
        package fileprivate(set) var lane: String
        /// The last operations before it that touched what it touched when it was taken in, by
        /// sequence number.
        package var dependencies: Set<Int64> = []
        package var phase = Phase.queued
        /// Whether a sending was not answered: it may be done, or not.
        package var mayBeDone = false

        package init(id: Identifier, sequence: Int64, lane: String, phase: Phase = .queued) {
            self.id = id
            self.sequence = sequence
            self.lane = lane
            self.phase = phase
        }
    }

    /// Operations that are sent together, in this order.
    package struct Flight: Hashable, Sendable {
        package let number: UInt64
        package let sequences: [Int64]
    }

    /// What must be durable before the shell goes on.
    package enum Record: Hashable, Sendable {
        /// These may be done from now on: written before they leave.
        case sending([Int64])
        /// That one is done, and contained at the number.
        case acknowledged(Int64, head: Int64)
        /// That one is refused.
        case refused(Int64, Problem)
        /// These are over.
        case removed([Int64])
    }

    /// How far a search for the next flight has come.
    private struct Search {
        /// How many operations it has looked at.
        var count = 0
        /// Lanes in which something earlier is not answered.
        var closed: Set<String>
    }

    /// Why nothing is sent at present.
    package enum Pause: Hashable, Sendable {
        /// Somebody must sign in first.
        case signIn
        /// The network is away.
        case offline
    }

    /// How a flight failed.
    package enum Failure: Hashable, Sendable {
        /// It is tried again after a while, which grows.
        case retry
        /// The server named the time.
        case retryAfter(Duration)
        /// Nothing is sent before somebody signs in.
        case needsSignIn
    }

    package let limit: Int
    package let batch: Int
    package let parallel: Int
    package private(set) var items: OrderedDictionary<Int64, Item> = [:]
    package private(set) var pauses: Set<Pause> = []
    /// How often in a row flights of a line have failed, for lines that wait for their next try.
    package private(set) var waits: [String: Int] = [:]
    /// How many operations there are.
    private(set) var summary = Outbox.Summary()
    private var failures: [String: Int] = [:]
    private var flights: [UInt64: Flight] = [:]
    /// What the last search for a flight has found that must wait, so that the next one begins
    /// behind it; `nil` after whatever may have let something of it go.
    private var looked: Search?
    private var lastFlight: UInt64 = 0

    /// Creates an outbox.
    ///
    /// - Parameters:
    ///   - limit: How many operations it takes.
    ///   - batch: How many go in one flight. If more than one, all lanes fail and wait together.
    ///   - parallel: How many flights there may be at a time.
    package init(limit: Int, batch: Int, parallel: Int) {
        self.limit = limit
        self.batch = batch
        self.parallel = parallel
    }

    // MARK: - Questions

    /// Whether another operation would be too much.
    package var isFull: Bool { items.count >= limit }

    /// The operations of which it is not known whether they are done, ascending.
    ///
    /// A base that was read without asking about all of them is not adopted: it may or may not have
    /// them in it.
    package var unresolved: [Int64] {
        items.values.filter(\.isUnresolved).map(\.sequence)
    }

    /// The operations that are part of what is visible, ascending.
    package var visible: [Int64] {
        items.values.filter { !$0.isRefused }.map(\.sequence)
    }

    /// The number that the base must have reached for all that is acknowledged to be settled.
    package var wantedHead: Int64? {
        items.values.compactMap { if case .acknowledged(let head) = $0.phase { head } else { nil } }
            .max()
    }

    /// Whether an operation is refused, or was never sent.
    package func mayDiscard(_ sequence: Int64) -> Bool {
        guard let item = items[sequence] else { return false }
        return item.isRefused || (item.phase == .queued && !item.mayBeDone)
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
            looked = nil
            // Another process may have taken a smaller number first.
            items.updateValue(item, forKey: item.sequence, insertingAt: place)
        }
    }

    /// Takes out an operation that is refused, or was never sent.
    ///
    /// - Returns: What must be durable; `nil` if it may be done already.
    package mutating func discard(_ sequence: Int64) -> [Record]? {
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
    package mutating func takeOff() -> (flight: Flight, records: [Record])? {
        defer { checkInvariants() }
        guard flights.count < parallel, pauses.isEmpty else { return nil }
        var search = looked ?? Search(closed: lanesInFlight)
        looked = nil  // So that the lanes are not copied.
        var chosen: [Int64] = []
        var isChosen: Set<Int64> = []
        while search.count < items.count, chosen.count < batch {
            let item = items.values[search.count]
            search.count += 1
            guard item.phase == .queued else { continue }
            let mustWait = item.dependencies.contains { sequence in
                items[sequence].map { $0.isUnanswered && !isChosen.contains(sequence) } ?? false
            }
            guard !mustWait, !search.closed.contains(item.lane), waits[line(of: item.lane)] == nil
            else {
                search.closed.insert(item.lane)
                continue
            }
            chosen.append(item.sequence)
            isChosen.insert(item.sequence)
        }
        search.closed.formUnion(chosen.compactMap(lane(of:)))
        looked = search
        guard !chosen.isEmpty else { return nil }
        lastFlight += 1
        let flight = Flight(number: lastFlight, sequences: chosen)
        for sequence in chosen { items[sequence]?.phase = .sending(flight: lastFlight) }
        flights[lastFlight] = flight
        return (flight, [.sending(chosen)])
    }

    /// The answer came; what it does not mention is sent again.
    package mutating func land(_ number: UInt64, _ results: [PushResult]) -> [Record] {
        defer { checkInvariants() }
        guard let flight = flights.removeValue(forKey: number) else { return [] }
        looked = nil
        for line in lines(of: flight) { failures[line] = nil }
        putBack(flight, mayBeDone: true)
        return resolve(results)
    }

    /// There was no answer.
    ///
    /// - Parameters:
    ///   - number: The flight.
    ///   - failure: How it failed.
    ///   - wasSent: Whether the operations may have been done.
    /// - Returns: The lines that wait now, with how often in a row they have failed.
    package mutating func fail(_ number: UInt64, _ failure: Failure, wasSent: Bool) -> [String: Int]
    {
        defer { checkInvariants() }
        guard let flight = flights.removeValue(forKey: number) else { return [:] }
        looked = nil
        let lines = lines(of: flight)
        putBack(flight, mayBeDone: wasSent)
        if failure == .needsSignIn {
            pauses.insert(.signIn)
            return [:]
        }
        for line in lines {
            failures[line, default: 0] += 1
            waits[line] = failures[line]
        }
        return waits.filter { lines.contains($0.key) }
    }

    /// A line's wait after a failure is over; or all are, because something has happened that makes
    /// another try worth it.
    package mutating func wake(_ line: String? = nil) {
        defer { checkInvariants() }
        looked = nil
        if let line { waits[line] = nil } else { waits = [:] }
    }

    /// Something stands in the way of sending, or no longer does.
    package mutating func set(_ pause: Pause, _ isOn: Bool) {
        defer { checkInvariants() }
        if isOn {
            pauses.insert(pause)
        } else {
            pauses.remove(pause)
            waits = [:]
            looked = nil
        }
    }

    /// Takes note of what became of operations, from a push's answer or from a pull's.
    package mutating func resolve(_ results: [PushResult]) -> [Record] {
        defer { checkInvariants() }
        guard !results.isEmpty else { return [] }
        looked = nil
        let known = Dictionary(items.values.map { ($0.id, $0.sequence) }) { first, _ in first }
        var records: [Record] = []
        for result in results {
            guard let sequence = known[result.id], items[sequence]?.isUnanswered == true
            else { continue }
            switch result.status {
            case .applied, .replayed:
                let head = result.head ?? 0
                set(.acknowledged(head: head), of: sequence)
                records.append(.acknowledged(sequence, head: head))
            case .refused:
                let problem = result.problem ?? Problem(.internalFault, "Read the server's log.")
                set(.refused(problem), of: sequence)
                records.append(.refused(sequence, problem))
            case .unknown: break
            }
        }
        return records
    }

    /// The base has reached a number: what is acknowledged up to there is over.
    ///
    /// - Returns: Those operations, and what must be durable.
    package mutating func settle(through head: Int64) -> (sequences: [Int64], records: [Record]) {
        defer { checkInvariants() }
        let settled = items.values.filter { item in
            if case .acknowledged(let number) = item.phase { number <= head } else { false }
        }
        .map(\.sequence)
        guard !settled.isEmpty else { return ([], []) }
        remove(settled)
        return (settled, [.removed(settled)])
    }

    /// What those were acknowledged for is in the base: they are over.
    ///
    /// - Returns: What must be durable.
    package mutating func settle(_ sequences: [Int64]) -> [Record] {
        defer { checkInvariants() }
        let settled = sequences.filter { sequence in
            if case .acknowledged = items[sequence]?.phase { true } else { false }
        }
        guard !settled.isEmpty else { return [] }
        remove(settled)
        return [.removed(settled)]
    }

    /// What waits in a line goes on in another one, behind what was made before it there.
    package mutating func move(_ sequence: Int64, to lane: String) {
        defer { checkInvariants() }
        guard items[sequence]?.phase == .queued else { return }
        looked = nil
        items[sequence]?.lane = lane
    }

    private mutating func set(_ phase: Phase, of sequence: Int64) {
        guard let old = items[sequence]?.phase else { return }
        summary.count(old, -1)
        summary.count(phase, 1)
        items[sequence]?.phase = phase
    }

    private mutating func remove(_ sequences: [Int64]) {
        looked = nil
        for sequence in sequences {
            if let item = items.removeValue(forKey: sequence) { summary.count(item.phase, -1) }
        }
    }

    /// Lanes in which something earlier is not answered.
    private var lanesInFlight: Set<String> {
        Set(flights.values.flatMap { $0.sequences.compactMap(lane(of:)) })
    }

    // Lanes that fail and wait together.
    private func line(of lane: String) -> String { batch > 1 ? "" : lane }

    private func lane(of sequence: Int64) -> String? { items[sequence]?.lane }

    private func lines(of flight: Flight) -> Set<String> {
        Set(flight.sequences.compactMap(lane(of:)).map(line(of:)))
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
        assert(items.count <= limit, "The outbox holds more than it may.")
        assert(flights.count <= parallel)
        // With thousands it would cost more than the event.
        guard items.count <= 64 else { return }
        assert(
            summary == items.values.reduce(into: Outbox.Summary()) { $0.count($1.phase, 1) },
            "An operation is counted wrongly."
        )
        assert((looked?.count ?? 0) <= items.count, "It looked at what is not there.")
        assert(zip(items.keys, items.keys.dropFirst()).allSatisfy { $0 < $1 }, "Out of order.")
        assert(
            items.values.allSatisfy { item in
                guard case .sending(let number) = item.phase else { return true }
                return flights[number]?.sequences.contains(item.sequence) == true
            },
            "An operation is in a flight that is over."
        )
        let lanes = flights.values.map { Set($0.sequences.compactMap(lane(of:))) }
        assert(
            lanes.map(\.count).reduce(0, +) == lanes.reduce(into: Set()) { $0.formUnion($1) }.count
        )
    }
}

extension OutboxState.Item {
    /// Whether it may be done, or not: nobody knows.
    package var isUnresolved: Bool {
        switch phase {
        case .queued: mayBeDone
        case .sending: true
        case .acknowledged, .refused: false
        }
    }

    /// Whether it is in the tray.
    package var isRefused: Bool { if case .refused = phase { true } else { false } }

    /// Whether its answer is still to come.
    package var isUnanswered: Bool {
        switch phase {
        case .queued, .sending: true
        case .acknowledged, .refused: false
        }
    }
}

extension Outbox.Summary {
    /// Counts operations of a phase, or no longer.
    fileprivate mutating func count(_ phase: OutboxState.Phase, _ number: Int) {
        switch phase {
        case .queued, .sending: unsent += number
        case .acknowledged: settling += number
        case .refused: refused += number
        }
    }
}
