import SanguineModel

/// Base, pending and feed together: what makes *no flicker* and *exactly once* visible to the user.
///
/// The one rule beside replay: **a base is adopted only when it is known, of each operation that may
/// have been done, whether it is in it.** A pull says so of the operations that it was asked about;
/// what arrives live while a push is unanswered is held back until the answer is there. So an
/// operation's effect is never shown twice, and never disappears between the acknowledgement and
/// the feed, whichever comes first.
///
/// Pure: the base is kept outside. The shell makes what ``Effects`` says durable, in its order:
///
/// 1. ``Effects/records``, in the outbox;
/// 2. ``Effects/adopt``, in the base, with its position, in one transaction; then it calls
///    ``adopted(_:over:)``, and does what that returns.
///
/// A death between any two steps leaves a state from which the next start goes on.
///
/// Invariants:
///
/// 1. What is visible is the base with all operations replayed that are not settled or refused.
/// 2. The position never falls but by a reset.
/// 3. Nothing is held back when no operation is unresolved.
struct SyncState {
    /// A part of the feed that the shell received.
    struct FeedBatch: Sendable {
        /// The position that it was asked from.
        let since: Int64
        /// The position that it leads to.
        let next: Int64
        /// The newest number that the authority knew.
        let head: Int64
        let changes: [RecordChange]
        /// Whether records that no batch from here on mentions are gone.
        let isReset: Bool
        /// The operations that the answer says of whether it has them.
        let asked: Set<Int64>
        let results: [PushResult]
        /// Where the records lie already that this makes the base; ``changes`` is empty then.
        var staged: Int64?
    }

    /// What the shell must do now, in this order.
    struct Effects {
        /// To be made durable in the outbox.
        var records: [OutboxState.Record] = []
        /// To be written to the base.
        var adopt: FeedBatch?
        /// The records whose visible value may have changed.
        var changed: Set<RecordKey> = []
        /// Whether any visible value may have changed: the base is another.
        var isEverythingChanged = false
        /// Whether the shell must pull: what it received could not be used, or is not enough.
        var mustPull = false
        /// The operations whose outcome is known now.
        var ended: [(sequence: Int64, outcome: Outcome)] = []
    }

    /// What became of an operation.
    enum Outcome: Hashable, Sendable {
        case applied(head: Int64)
        case refused(Problem)
    }

    private(set) var outbox: OutboxState
    private(set) var replay: Replay
    /// The number of the feed that the base has reached.
    private(set) var position: Int64
    /// What came live while it was not known what it contains.
    private var held: [FeedBatch] = []
    private var heldChanges = 0
    private let heldLimit: Int

    init(schema: RecordSchema, outbox: OutboxState, position: Int64, heldLimit: Int = 256) {
        self.outbox = outbox
        replay = Replay(schema: schema)
        self.position = position
        self.heldLimit = heldLimit
    }

    // MARK: - Operations

    /// Takes an operation in that is durable already.
    mutating func add(
        _ operation: Replay.Operation,
        as item: OutboxState.Item,
        over base: some RecordSource
    ) throws -> Effects {
        var effects = Effects()
        var item = item
        if case .acknowledged(let head) = item.phase, head <= position {
            // The process died after the base had it and before the outbox knew.
            effects.records = [.removed([item.sequence])]
            return effects
        }
        if !item.isRefused {
            effects.changed = try replay.add(operation, over: base)
            item.dependencies = replay.dependencies(of: item.sequence)
        }
        outbox.add(item)
        return effects
    }

    /// Takes an operation out that is refused, or was never sent; `nil` if it may be done.
    mutating func discard(_ sequence: Int64, over base: some RecordSource) throws -> Effects? {
        guard let records = outbox.discard(sequence) else { return nil }
        return Effects(
            records: records,
            changed: try replay.settle(removing: [sequence], changed: [], over: base)
        )
    }

    /// See ``OutboxState/takeOff()``.
    mutating func takeOff() -> (flight: OutboxState.Flight, records: [OutboxState.Record])? {
        outbox.takeOff()
    }

    /// A push was answered.
    mutating func landed(
        _ flight: UInt64,
        _ answer: PushAnswer,
        over base: some RecordSource
    ) throws -> Effects {
        try took(note: outbox.land(flight, answer.results), over: base)
    }

    /// A push was not answered.
    mutating func failed(
        _ flight: UInt64,
        _ failure: OutboxState.Failure,
        wasSent: Bool
    ) -> [String: Int] {
        outbox.fail(flight, failure, wasSent: wasSent)
    }

    /// See ``OutboxState/wake(_:)``.
    mutating func wake(_ line: String? = nil) { outbox.wake(line) }

    /// See ``OutboxState/set(_:_:)``.
    mutating func set(_ pause: OutboxState.Pause, _ isOn: Bool) { outbox.set(pause, isOn) }

    // MARK: - Feed

    /// A part of the feed is there.
    mutating func received(_ batch: FeedBatch, over base: some RecordSource) throws -> Effects {
        var effects = try took(note: outbox.resolve(batch.results), over: base)
        if effects.adopt != nil {
            // What was held back comes first, and this begins where that does not end.
            effects.mustPull = true
            return effects
        }
        guard batch.isReset || batch.since <= position else {
            effects.mustPull = true
            return effects
        }
        guard batch.isReset || batch.next > position else { return effects }
        guard batch.isReset || batch.since == position || held.last?.next == batch.since else {
            effects.mustPull = true  // It overlaps with what came meanwhile.
            return effects
        }
        if held.isEmpty, outbox.unresolved.allSatisfy(batch.asked.contains) {
            effects.adopt = batch
        } else {
            hold(batch, &effects)
        }
        return effects
    }

    /// A batch and its position are in the base: what it contains is settled, in this one step.
    mutating func adopted(_ batch: FeedBatch, over base: some RecordSource) throws -> Effects {
        position = batch.next
        let (settled, records) = outbox.settle(through: position)
        var effects = Effects(records: records)
        effects.changed = try replay.settle(
            removing: settled,
            changed: batch.changes.map { RecordKey($0.collection, $0.id) },
            everything: batch.isReset,
            over: base
        )
        effects.isEverythingChanged = batch.isReset
        effects.adopt = nextHeld()
        effects.mustPull = batch.next < batch.head && effects.adopt == nil
        return effects
    }

    private mutating func took(
        note records: [OutboxState.Record],
        over base: some RecordSource
    ) throws -> Effects {
        var effects = Effects(records: records)
        var refused: [Int64] = []
        for record in records {
            switch record {
            case .refused(let sequence, let problem):
                refused.append(sequence)
                effects.ended.append((sequence, .refused(problem)))
            case .acknowledged(let sequence, let head):
                effects.ended.append((sequence, .applied(head: head)))
            case .sending, .removed: break
            }
        }
        if !refused.isEmpty {
            effects.changed = try replay.settle(removing: refused, changed: [], over: base)
        }
        effects.adopt = nextHeld()
        if effects.adopt == nil {
            // Done before the base that is held already: nothing will come to settle it.
            let (settled, settledRecords) = outbox.settle(through: position)
            if !settled.isEmpty {
                effects.records += settledRecords
                let changed = try replay.settle(removing: settled, changed: [], over: base)
                effects.changed.formUnion(changed)
            }
            effects.mustPull = outbox.wantedHead.map { $0 > position } ?? false
        }
        return effects
    }

    private mutating func hold(_ batch: FeedBatch, _ effects: inout Effects) {
        guard heldChanges + batch.changes.count <= heldLimit else {
            held = []
            heldChanges = 0
            effects.mustPull = true
            return
        }
        held.append(batch)
        heldChanges += batch.changes.count
    }

    // What was held back and may be adopted now: nothing is unresolved any more.
    private mutating func nextHeld() -> FeedBatch? {
        guard outbox.unresolved.isEmpty else { return nil }
        while let batch = held.first {
            held.removeFirst()
            heldChanges -= batch.changes.count
            if batch.isReset || batch.since == position { return batch }
            if batch.next > position { break }
        }
        held = []
        heldChanges = 0
        return nil
    }
}
