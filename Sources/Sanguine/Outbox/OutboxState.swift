package import OrderedCollections
package import SanguineModel

/// The state of the operations that the backend has not settled yet.
///
/// Only this type decides which of them is sent next.
///
///     queued ─▶ sending ─▶ acknowledged(at number) ─▶ settled: gone from here
///       ▲          │
///       └─ failed, ┤
///         deferred │
///                  └─▶ refused: in the tray, until it is retried or discarded
///
/// Pure: no I/O, no clock. Each event returns the steps that must be made durable, see ``Step``;
/// the shell writes them before it does anything else. An operation that was being sent when the
/// process died is *unresolved* at the next start: it may have been applied, and is sent again
/// under the same id before any operation that depends on it.
///
/// Invariants, checked in debug builds after each event:
///
/// 1. Sequence numbers increase. An operation keeps its number and its id.
/// 2. An operation is part of at most one send. At most one send at a time carries operations of a
///    lane, and a send carries one kind. There are at most ``Limits/sends`` sends of a kind.
/// 3. The operations of a lane are sent in order. No operation is sent before one that it depends
///    on is answered, unless both are in the same send, in that order. An upload that it depends on
///    must have succeeded; it is gone then.
/// 4. An outbox with `limit` operations is full, but still accepts operations from disk.
/// 5. `summary` counts `items` by their phase.
/// 6. For each kind in `looked`, none of its operations before `count` may be sent, nor any later
///    one of a lane in `closed`.
package struct OutboxState: Sendable {
    /// The progress of a search for the next send.
    private struct Search {
        /// The number of operations that were examined.
        var count = 0
        /// The lanes with an earlier operation that is not answered.
        var closed: Set<String>
    }

    package let limit: Int
    private let limits: [Kind: Limits]
    package private(set) var items: OrderedDictionary<Int64, Item> = [:]
    /// The epoch of the base's numbers; `nil` if it is not known.
    package private(set) var epoch: Epoch?
    package private(set) var pauses: Set<Pause> = []
    /// The number of consecutive failed sends of a group, for groups that wait for a retry.
    package private(set) var waits: [RetryGroup: Int] = [:]
    /// The numbers of operations, by phase.
    private(set) var summary = Outbox.Summary()
    private var failures: [RetryGroup: Int] = [:]
    private var sends: [UInt64: Send] = [:]
    /// The last search of each kind, so that the next one skips operations that must wait; cleared
    /// by every event after which one of them might be sent.
    private var looked: [Kind: Search] = [:]
    private var lastSend: UInt64 = 0

    /// Creates an outbox.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of operations, of all kinds.
    ///   - limits: The limits of each kind's sends. Kinds that are left out are sent one operation
    ///     at a time.
    package init(limit: Int, _ limits: [Kind: Limits]) {
        self.limit = limit
        self.limits = limits
    }

    // MARK: - Queries

    /// Whether the limit is reached.
    package var isFull: Bool { items.count >= limit }

    /// The record mutations that may have been applied without an acknowledgement, ascending.
    ///
    /// A base is not adopted if its request did not ask about all of them: it might contain them.
    package var unresolved: [Int64] {
        items.values.filter { $0.kind == .record && $0.isUnresolved }.map(\.sequence)
    }

    /// Whether a pending answer will resolve all ``unresolved`` operations.
    ///
    /// Operations of a lane that waits for its next try are not sent until then.
    package var isAnswerDue: Bool {
        items.values.allSatisfy { item in
            item.kind != .record || !item.isUnresolved || waits[lane(of: item)] == nil
        }
    }

    /// The record mutations that are part of the visible state, ascending.
    package var visible: [Int64] {
        items.values.filter { $0.kind == .record && !$0.isRefused }.map(\.sequence)
    }

    /// The number that the base must reach for all acknowledged record mutations to be settled.
    ///
    /// `.max` if one is acknowledged at a number of another epoch than the base's, because no
    /// number of the base's epoch contains it.
    package var wantedHead: Int64? {
        items.values.compactMap { item in item.head.map { isOfBase(item) ? $0 : .max } }.max()
    }

    /// Whether every record mutation is applied after a number of an epoch, or not at all.
    package func isAfter(_ number: Int64, of epoch: Epoch?) -> Bool {
        items.values.allSatisfy { item in
            guard item.kind == .record else { return true }
            guard let head = item.head else { return !item.isUnresolved }
            return head > number && (epoch == nil || item.epoch == epoch)
        }
    }

    /// Whether a record mutation is acknowledged at a number of another epoch.
    package func isAcknowledged(outside epoch: Epoch) -> Bool {
        items.values.contains { $0.isAcknowledged(outside: epoch) }
    }

    /// Returns the first unanswered operation of a kind, except in the given lanes.
    package func firstUnanswered(_ kind: Kind, outside lanes: Set<String>) -> Int64? {
        items.values.first { item in
            item.kind == kind && item.isUnanswered && !lanes.contains(item.lane)
        }?
        .sequence
    }

    /// Returns the last number before the first operation of a kind that is not visible yet, or 0.
    package func lastShown(_ kind: Kind) -> Int64 {
        let arriving = items.values.first { $0.kind == kind && $0.isArriving }
        return arriving.map { $0.sequence - 1 } ?? items.keys.last ?? 0
    }

    /// Whether a new operation of a kind in a free lane would be sent at once.
    package func canSend(_ kind: Kind) -> Bool {
        let limits = limits(kind)
        // Lanes that are sent together wait as one group.
        let mustWait = limits.operations > 1 && waits[RetryGroup(kind: kind, lane: "")] != nil
        return !mustWait && !pauses.contains(.offline) && !mustSignIn(kind)
            && sends.values.count { $0.kind == kind } < limits.sends
    }

    /// The operation's lane, and the number of consecutive times that the server did not know its
    /// mutation; `nil` if the lane does not wait for a next try.
    package func deferral(of sequence: Int64) -> (lane: RetryGroup, times: Int)? {
        guard let lane = items[sequence].map(lane(of:)) else { return nil }
        return waits[lane].map { (lane, $0) }
    }

    /// The number of consecutive failed sends of the operation, or of those that wait with it.
    package func failuresInARow(of sequence: Int64) -> Int {
        guard let item = items[sequence] else { return 0 }
        return max(failures[group(of: item)] ?? 0, failures[lane(of: item)] ?? 0)
    }

    /// The groups whose next try the operation waits for.
    package func waitingGroups(of sequence: Int64) -> Set<RetryGroup> {
        guard let item = items[sequence] else { return [] }
        return Set([group(of: item), lane(of: item)]).filter { waits[$0] != nil }
    }

    /// Whether operations of a kind wait for a sign-in.
    package func mustSignIn(_ kind: Kind) -> Bool { pauses.contains(.signIn(kind)) }

    /// Whether an operation is refused or was never sent, or is an upload that has not succeeded.
    package func mayDiscard(_ sequence: Int64) -> Bool { items[sequence]?.isRemovable ?? false }

    /// Returns the queued operations of a lane that have certainly not reached the backend, newest
    /// first.
    package func unsent(_ kind: Kind, in lane: String) -> [Int64] {
        items.values.reversed().filter { $0.kind == kind && $0.lane == lane && $0.isUnsent }
            .map(\.sequence)
    }

    // MARK: - Operations

    /// Adds an operation, new or from disk.
    ///
    /// An operation that was being sent when the process died becomes unresolved.
    package mutating func add(_ item: Item) {
        defer { checkInvariants() }
        var item = item
        if case .sending = item.phase {
            item.phase = .queued
            item.outcomeUnknown = true
        }
        let index = items.keys.lastIndex { $0 < item.sequence }.map { $0 + 1 } ?? 0
        guard items[item.sequence] == nil else { return }
        summary.count(item.phase, 1)
        if index == items.count {
            items[item.sequence] = item
        } else {
            looked = [:]
            // Another process may have taken a smaller number first.
            items.updateValue(item, forKey: item.sequence, insertingAt: index)
        }
    }

    /// Removes an operation that is refused or was never sent, or an upload with its send.
    ///
    /// - Returns: The steps to make durable; `nil` if it may have been applied.
    package mutating func discard(_ sequence: Int64) -> [Step]? {
        defer { checkInvariants() }
        guard mayDiscard(sequence), let item = items[sequence] else { return nil }
        if case .sending(let number) = item.phase { sends[number] = nil }
        remove([sequence])
        // Its dependents inherit its dependencies.
        for (later, dependent) in items where dependent.dependencies.contains(sequence) {
            items[later]?.dependencies.remove(sequence)
            items[later]?.dependencies.formUnion(item.dependencies)
        }
        return [.removed([sequence])]
    }

    // MARK: - Sends

    /// Starts the next send, if one is possible.
    ///
    /// - Parameter kinds: The kinds that have a backend. Default: all.
    /// - Returns: The send and the steps that must be durable before it leaves.
    package mutating func startSend(
        of kinds: [Kind] = Kind.allCases
    ) -> (send: Send, steps: [Step])? {
        defer { checkInvariants() }
        for kind in kinds where canSend(kind) {
            let chosen = search(kind)
            guard !chosen.isEmpty else { continue }
            lastSend += 1
            let send = Send(number: lastSend, kind: kind, sequences: chosen)
            for sequence in chosen { items[sequence]?.phase = .sending(send: lastSend) }
            sends[lastSend] = send
            return (send, [.sending(chosen)])
        }
        return nil
    }

    /// Returns the operations of a kind that can be sent together now.
    private mutating func search(_ kind: Kind) -> [Int64] {
        // Removed from the dictionary, so that the set of lanes is not copied.
        var search = looked.removeValue(forKey: kind) ?? Search(closed: sendingLanes(kind))
        var chosen: [Int64] = []
        var isChosen: Set<Int64> = []
        while search.count < items.count, chosen.count < limits(kind).operations {
            let item = items.values[search.count]
            // It will be visible in a moment; the operations behind it are examined then.
            if item.kind == kind, item.isArriving { break }
            search.count += 1
            guard item.kind == kind, item.phase == .queued else { continue }
            let mustWait = item.dependencies.contains { sequence in
                guard let earlier = items[sequence] else { return false }
                guard earlier.kind != .upload else { return true }
                return earlier.isUnanswered && !isChosen.contains(sequence)
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

    /// Records the answer to a send; operations that it does not mention are sent again.
    package mutating func complete(
        _ number: UInt64,
        _ results: [PushResult],
        epoch: Epoch? = nil
    ) -> [Step] {
        defer { checkInvariants() }
        guard let send = sends.removeValue(forKey: number) else { return [] }
        looked[send.kind] = nil
        for group in groups(of: send) { failures[group] = nil }
        putBack(send, outcomeUnknown: true)
        return resolve(results, epoch: epoch)
    }

    /// Records that a send got no answer.
    ///
    /// - Parameters:
    ///   - number: The send.
    ///   - failure: The failure.
    ///   - wasSent: Whether the operations may have been applied.
    /// - Returns: The groups that wait now, with the number of their failures in a row.
    package mutating func fail(
        _ number: UInt64,
        _ failure: Failure,
        wasSent: Bool
    ) -> [RetryGroup: Int] {
        defer { checkInvariants() }
        guard let send = sends.removeValue(forKey: number) else { return [:] }
        looked[send.kind] = nil
        let groups = groups(of: send)
        putBack(send, outcomeUnknown: wasSent)
        if failure == .needsSignIn {
            pauses.insert(.signIn(send.kind))
            return [:]
        }
        for group in groups {
            failures[group, default: 0] += 1
            waits[group] = failures[group]
        }
        return waits.filter { groups.contains($0.key) }
    }

    /// Ends the wait of a group after a failure; without a group, ends all waits because a send may
    /// succeed now.
    package mutating func wake(_ group: RetryGroup? = nil) {
        defer { checkInvariants() }
        guard let group else { return (looked, waits) = ([:], [:]) }
        (looked[group.kind], waits[group]) = (nil, nil)
    }

    /// Pauses sending for a reason, or ends that pause.
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

    /// Records the outcomes of operations, from the answer to a push or a pull.
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
                let problem =
                    result.problem
                    ?? Problem(.internalFault, "The server gave no reason. Read its log.")
                set(.refused(problem), of: sequence)
                steps.append(.refused(sequence, problem))
            case .unknown:
                // The server does not know the mutation, so its lane waits. A copy of the request
                // that the network delivers late may still apply it.
                guard let problem = result.problem, let since = result.head else { continue }
                failures[lane(of: item), default: 0] += 1
                waits[lane(of: item)] = failures[lane(of: item)]
                steps.append(.deferred(sequence, since: since, problem))
            }
        }
        return steps
    }

    /// Moves queued operations that were never sent to the tray; others stay as they are.
    package mutating func refuse(_ sequences: [Int64], _ problem: Problem) -> [Step] {
        let unsent = sequences.compactMap { items[$0] }.filter(\.isUnsent)
        return resolve(
            unsent.map { PushResult(id: $0.id, status: .refused, problem: problem) }
        )
    }

    /// Removes the record mutations that are acknowledged up to the number that the base has
    /// reached.
    ///
    /// - Returns: The removed operations and the steps to make durable.
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

    /// Sets the epoch of the base's numbers.
    package mutating func enter(_ epoch: Epoch) { self.epoch = epoch }

    /// Queues record mutations that are acknowledged in another epoch than the server's.
    ///
    /// The server may have lost them, and they are sent again under the same ids.
    ///
    /// - Parameters:
    ///   - epoch: The epoch of the server's numbers.
    ///   - isNew: Whether the base has another epoch. If so, acknowledgements without an epoch may
    ///     be lost as well. Default: yes.
    /// - Returns: The steps to make durable.
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
            items[sequence]?.outcomeUnknown = true
            items[sequence]?.epoch = nil
        }
        return [.reopened(lost)]
    }

    /// Whether an acknowledgement's number may be compared with the base's.
    package func isOfBase(_ item: Item) -> Bool {
        guard let epoch, let other = item.epoch else { return true }
        return epoch == other
    }

    /// Removes acknowledged operations whose changes are in the base.
    ///
    /// - Returns: The steps to make durable.
    package mutating func settle(_ sequences: [Int64]) -> [Step] {
        defer { checkInvariants() }
        let settled = sequences.filter { sequence in
            if case .acknowledged = items[sequence]?.phase { true } else { false }
        }
        guard !settled.isEmpty else { return [] }
        remove(settled)
        return [.removed(settled)]
    }

    /// Holds an operation, and later ones of its lane, until an earlier one is answered; until it
    /// has succeeded if that is an upload.
    package mutating func hold(_ sequence: Int64, until earlier: Int64) {
        defer { checkInvariants() }
        items[sequence]?.dependencies.insert(earlier)
        looked = [:]
    }

    /// Marks an operation as visible, so that it may be sent.
    package mutating func arrived(_ sequence: Int64) {
        defer { checkInvariants() }
        items[sequence]?.isArriving = false
    }

    /// Moves a queued operation to another lane, where its sequence number determines its position.
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

    /// The lanes of operations that are being sent.
    private func sendingLanes(_ kind: Kind) -> Set<String> {
        let flying = sends.values.filter { $0.kind == kind }.flatMap(\.sequences)
        return Set(flying.compactMap { items[$0]?.lane })
    }

    private func limits(_ kind: Kind) -> Limits {
        limits[kind] ?? Limits(operations: 1, sends: 1)
    }

    // Lanes that are sent together fail and wait together.
    private func group(of item: Item) -> RetryGroup {
        RetryGroup(kind: item.kind, lane: limits(item.kind).operations > 1 ? "" : item.lane)
    }

    private func lane(of item: Item) -> RetryGroup {
        RetryGroup(kind: item.kind, lane: item.lane)
    }

    private func groups(of send: Send) -> Set<RetryGroup> {
        Set(send.sequences.compactMap { items[$0].map(group(of:)) })
    }

    private mutating func putBack(_ send: Send, outcomeUnknown: Bool) {
        for sequence in send.sequences {
            guard case .sending(send.number) = items[sequence]?.phase else { continue }
            items[sequence]?.phase = .queued
            // A later send that was turned away does not undo an earlier one that may have arrived.
            if outcomeUnknown { items[sequence]?.outcomeUnknown = true }
        }
    }

    private func checkInvariants() {
        assert(
            Kind.allCases.allSatisfy { kind in
                sends.values.count { $0.kind == kind } <= limits(kind).sends
            }
        )
        // With thousands of operations, the checks would cost more than the event.
        guard items.count <= 64 else { return }
        assert(
            summary == items.values.reduce(into: Outbox.Summary()) { $0.count($1.phase, 1) },
            "The summary does not match the operations."
        )
        assert(
            looked.values.allSatisfy { $0.count <= items.count },
            "More operations were examined than exist."
        )
        assert(zip(items.keys, items.keys.dropFirst()).allSatisfy { $0 < $1 }, "Out of order.")
        assert(
            items.values.allSatisfy { item in
                guard case .sending(let number) = item.phase else { return true }
                return sends[number]?.sequences.contains(item.sequence) == true
            },
            "An operation belongs to a send that has ended."
        )
        assert(
            {
                let lanes = sends.values.map { send in
                    Set(
                        send.sequences.compactMap {
                            items[$0].map { [$0.kind.rawValue, $0.lane] }
                        }
                    )
                }
                let all = lanes.reduce(into: Set()) { $0.formUnion($1) }
                return lanes.map(\.count).reduce(0, +) == all.count
            }(),
            "Two sends contain operations of one lane."
        )
    }
}

extension OutboxState: CustomDebugStringConvertible {
    /// One line for reports: the operations by phase, the sends in progress, and why others wait.
    package var debugDescription: String {
        var parts = [
            "\(items.count) of \(limit) operations",
            "\(summary.unsent) unsent, \(summary.settling) settling, \(summary.refused) refused",
        ]
        if !sends.isEmpty { parts.append(sends.count.counted("send") + " in progress") }
        if !waits.isEmpty { parts.append("next try awaited by " + waits.count.counted("lane")) }
        let reasons = pauses.map(\.debugDescription).sorted()
        if !reasons.isEmpty { parts.append("paused: " + reasons.joined(separator: ", ")) }
        return parts.joined(separator: "; ")
    }
}

extension OutboxState.Pause: CustomDebugStringConvertible {
    /// The reason, in two or three words.
    package var debugDescription: String {
        switch self {
        case .offline: "no network"
        case .signIn(.record): "no session"
        case .signIn(.remote): "no valid token of the backend"
        case .signIn(.upload): "no session for files"
        }
    }
}
