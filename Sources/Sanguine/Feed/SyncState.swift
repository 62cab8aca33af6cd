package import SanguineModel

/// Base, pending and feed together: what makes *no flicker* and *exactly once* visible to the user.
///
/// Two rules beside replay:
///
/// **A base is adopted only when it is known, of each operation that may have been done, whether it
/// is in it.** A pull says so of the operations that it was asked about; what arrives while a push
/// is unanswered is held back until the answer is there. So an operation's effect is never shown
/// twice, and never disappears between the acknowledgement and the feed, whichever comes first.
///
/// **Acknowledged operations are settled by a complete base only.** The feed has each record once,
/// at its newest: of an operation that changed two records the first page may have one, and the
/// last page the other, which somebody else has changed since. So with acknowledged operations in
/// the replay pages are held back until the last one is there, and adopted in one step. Without
/// them each page is shown as it comes.
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
/// 3. What is held back follows the base without a gap, and is at most `heldLimit` changes; past
///    that, acknowledged operations are hidden until the base has them.
package struct SyncState {
    /// A part of the feed that the shell received.
    package struct FeedBatch: Sendable {
        /// The position that it was asked from.
        package var since: Int64
        /// The position that it leads to.
        package var next: Int64
        /// The newest number that the authority knew.
        package var head: Int64
        /// Up to where the authority had forgotten deletions; kept with the position.
        package var horizon: Int64
        /// The epoch of these numbers; `nil` from a server that knows of none.
        package var epoch: Epoch?
        package var changes: [RecordChange]
        /// Whether records that no batch from here on mentions are gone.
        package var isReset: Bool
        /// The operations that the answer says of whether it has them.
        package var asked: Set<Int64>
        package let results: [PushResult]
        /// Where the records lie already that this makes the base; ``changes`` is empty then.
        package var staged: Int64?

        /// Whether nothing newer was left to read.
        package var isComplete: Bool { next >= head }

        /// Creates a part from a pull's answer.
        package init(_ answer: PullAnswer, since: Int64, asked: Set<Int64> = []) {
            self.since = since
            next = answer.next
            head = answer.head
            horizon = answer.horizon ?? 0
            epoch = answer.epoch
            changes = answer.changes
            isReset = answer.reset
            self.asked = asked
            results = answer.operations ?? []
        }
    }

    /// What the shell must do now, in this order.
    package struct Actions {
        /// To be made durable in the outbox.
        package var steps: [OutboxState.Step] = []
        /// To be written to the base.
        package var adopt: FeedBatch?
        /// The records whose visible value may have changed.
        package var changed: Set<RecordKey> = []
        /// Whether any visible value may have changed: the base is another.
        package var isEverythingChanged = false
        /// Why it is not known what is visible now; what is said beside it counts all the same.
        package var failure: (any Error)?
        /// What the shell must see to: what it received could not be used, or is not enough.
        package var missing = Missing.nothing

        /// Whether the shell must pull, if it is not live.
        package var mustPull: Bool { missing != .nothing }
    }

    /// What the base lacks that the server has.
    package enum Missing: Int, Comparable, Sendable {
        case nothing
        /// What the live feed, or the answer to a push that is under way, brings by itself: it is
        /// pulled if there is no live feed, or it does not come.
        case echo
        /// What only a pull brings.
        case more

        package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
    }

    /// All of the user's operations; of these the record mutations are replayed.
    package var outbox: OutboxState
    package private(set) var replay: Replay
    /// The number of the feed that the base has reached.
    package private(set) var position: Int64
    /// The horizon that came with it.
    package private(set) var horizon: Int64
    /// Whether the base is all that there was when it was last read, and not a part.
    package private(set) var isComplete = false
    /// Whether the base may hold records that the reset under way, perhaps an earlier process's,
    /// does not mention.
    private var isResetting = true
    /// What came and must not be adopted yet, as one batch.
    private var held: FeedBatch?
    private let heldLimit: Int

    package init(
        schema: RecordSchema,
        outbox: OutboxState,
        position: Int64,
        horizon: Int64 = 0,
        heldLimit: Int = 10_000
    ) {
        self.outbox = outbox
        replay = Replay(schema: schema)
        self.position = position
        self.horizon = horizon
        self.heldLimit = heldLimit
    }

    /// Puts another base under the operations: it was read anew, or is empty.
    ///
    /// - Parameters:
    ///   - position: The number of the feed that it has reached.
    ///   - epoch: The epoch of that number; `nil` if it is not known.
    ///   - operations: The record mutations, as they are on disk.
    ///   - base: The base.
    /// - Throws: what the base threw.
    package mutating func restart(
        at position: Int64,
        of epoch: Epoch? = nil,
        with operations: [Replay.Operation],
        over base: some RecordSource
    ) throws {
        replay = Replay(schema: replay.schema)
        self.position = position
        (horizon, held, isComplete, isResetting) = (0, nil, false, true)
        if let epoch {
            // Not written: what is on disk leads to the same at the next start.
            _ = outbox.reopen(for: epoch)
            outbox.enter(epoch)
        }
        let visible = Set(outbox.visible)
        for operation in operations where visible.contains(operation.sequence) {
            _ = try replay.add(operation, over: base)
        }
    }

    // MARK: - Operations

    /// Takes an operation in that is durable already.
    ///
    /// - Parameters:
    ///   - operation: What it does.
    ///   - item: How far it is.
    ///   - rehearsal: What it does now, if that is known.
    ///   - base: The base.
    /// - Returns: What to do.
    /// - Throws: what the base threw.
    package mutating func add(
        _ operation: Replay.Operation,
        as item: OutboxState.Item,
        rehearsed rehearsal: Replay.Rehearsal? = nil,
        over base: some RecordSource
    ) throws -> Actions {
        var actions = Actions()
        var item = item
        if case .acknowledged = item.phase, !outbox.isOfBase(item) {
            // One of the two histories is lost: the server says whether the operation is done.
            (item.phase, item.mayBeDone, item.epoch) = (.queued, true, nil)
        }
        if case .acknowledged(let head) = item.phase, head <= position {
            // The process died after the base had it and before the outbox knew.
            actions.steps = [.removed([item.sequence])]
            return actions
        }
        if !item.isRefused {
            actions.changed =
                if let rehearsal {
                    try replay.add(rehearsal, at: item.sequence, over: base)
                } else {
                    try replay.add(operation, over: base)
                }
            item.dependencies = replay.dependencies(of: item.sequence)
        }
        outbox.add(item)
        return actions
    }

    /// Takes an operation out that is refused, or was never sent; `nil` if it may be done.
    package mutating func discard(
        _ sequence: Int64,
        over base: some RecordSource
    ) throws -> Actions? {
        guard let steps = outbox.discard(sequence) else { return nil }
        return Actions(
            steps: steps,
            changed: try replay.settle(removing: [sequence], changed: [], over: base)
        )
    }

    /// A push was answered.
    package mutating func landed(
        _ flight: UInt64,
        _ answer: PushAnswer,
        epoch: Epoch? = nil,
        over base: some RecordSource
    ) -> Actions {
        took(note: outbox.land(flight, answer.results, epoch: epoch), over: base)
    }

    // MARK: - Feed

    /// A part of the feed is there.
    package mutating func received(
        _ batch: FeedBatch,
        over base: some RecordSource
    ) -> Actions {
        var actions = Actions()
        var steps: [OutboxState.Step] = []
        let isNext = batch.since == pullPosition
        if let epoch = batch.epoch, epoch != pullEpoch {
            // From the start on there is nothing that another epoch makes wrong.
            let isWhole = batch.isReset || batch.since == 0
            guard isNext, isWhole || pullEpoch == nil else {
                // Its numbers say nothing here: a pull is answered with a reset.
                actions.missing = .more
                return actions
            }
            // What is held back is of a lost history, and may contain what is sent again.
            if isWhole { held = nil }
            steps = outbox.reopen(for: epoch)
        } else if isNext, let epoch = batch.epoch {
            // An answer of a lost history may have come after the base had left it.
            steps = outbox.reopen(for: epoch, isNew: false)
        }
        steps += outbox.resolve(batch.results, epoch: batch.epoch)
        actions = took(note: steps, over: base)
        if actions.adopt != nil {
            // What was held back comes first, and this begins where that does not end.
            actions.missing = .more
            return actions
        }
        guard isNext else {
            // It overlaps with what came meanwhile, or comes after something that did not.
            if batch.next > pullPosition { actions.missing = .more }
            return actions
        }
        hold(batch)
        actions.adopt = takeHeld()
        actions.missing = actions.adopt == nil ? missing : .nothing
        return actions
    }

    /// A batch and its position are in the base: what it contains is settled, in this one step.
    package mutating func adopted(
        _ batch: FeedBatch,
        over base: some RecordSource
    ) throws -> Actions {
        position = batch.next
        let isOtherEpoch = batch.epoch.map { $0 != outbox.epoch } ?? false
        horizon = isOtherEpoch ? batch.horizon : max(horizon, batch.horizon)
        if let epoch = batch.epoch { outbox.enter(epoch) }
        isComplete = batch.isComplete
        // Records that a reset does not mention go at its end, and nobody names them.
        let isOther = batch.isReset || batch.staged != nil || (isResetting && isComplete)
        isResetting = (isResetting || batch.isReset) && !isComplete
        var settled: [Int64] = []
        var actions = Actions()
        if isComplete {
            (settled, actions.steps) = outbox.settle(through: position)
        } else if outbox.wantedHead != nil {
            // More than may be held back. They are done: better hidden for a moment than twice.
            (settled, actions.steps) = outbox.settle(through: .max)
        }
        actions.changed = try replay.settle(
            removing: settled,
            changed: batch.changes.map { RecordKey($0.collection, $0.id) },
            everything: isOther,
            over: base
        )
        actions.isEverythingChanged = isOther
        actions.missing = missing
        return actions
    }

    /// What is held back and lies in a space of its own is dropped: the space goes.
    mutating func dropStaged() { if held?.staged != nil { held = nil } }

    /// Where the next pull begins: after what is held back.
    package var pullPosition: Int64 { held?.next ?? position }

    /// The horizon that the next pull names.
    package var pullHorizon: Int64 {
        guard let held else { return horizon }
        return held.epoch == outbox.epoch ? max(horizon, held.horizon) : held.horizon
    }

    /// The epoch that the next pull names.
    package var pullEpoch: Epoch? { held?.epoch ?? outbox.epoch }

    private mutating func took(
        note steps: [OutboxState.Step],
        over base: some RecordSource
    ) -> Actions {
        var actions = Actions(steps: steps)
        let refused = steps.compactMap { step in
            if case .refused(let sequence, _) = step { sequence } else { nil }
        }
        if !refused.isEmpty { settle(refused, over: base, &actions) }
        actions.adopt = takeHeld()
        if held == nil, actions.adopt == nil, isComplete {
            // What changed nothing is done at a number that the base has reached already.
            let (settled, ended) = outbox.settle(through: position)
            actions.steps += ended
            settle(settled, over: base, &actions)
        }
        actions.missing = actions.adopt == nil ? missing : .nothing
        return actions
    }

    // What has become of operations is so, whether the base can be read or not.
    private mutating func settle(
        _ sequences: [Int64],
        over base: some RecordSource,
        _ actions: inout Actions
    ) {
        do {
            let changed = try replay.settle(removing: sequences, changed: [], over: base)
            actions.changed.formUnion(changed)
        } catch {
            actions.failure = error
        }
    }

    /// What is to come, as far as it is known.
    package var missing: Missing {
        if let held {
            // Only a pull says what became of an operation that another history has acknowledged.
            if !held.isComplete || hasOtherHistory(held) { return .more }
            if isKnown(held) { return .nothing }
            return outbox.isAnswerDue ? .echo : .more
        }
        if !isComplete { return .more }
        guard let wanted = outbox.wantedHead, wanted > position else { return .nothing }
        // Of another epoch: only a pull says what became of this one.
        return wanted == .max ? .more : .echo
    }

    // Whether it is known, of each operation that may be done, whether the batch has it.
    private func isKnown(_ batch: FeedBatch) -> Bool {
        !hasOtherHistory(batch) && outbox.unresolved.allSatisfy(batch.asked.contains)
    }

    // Whether an operation is acknowledged in another history than the batch's.
    private func hasOtherHistory(_ batch: FeedBatch) -> Bool {
        batch.epoch.map { outbox.isAcknowledged(outside: $0) } ?? false
    }

    private mutating func hold(_ batch: FeedBatch) {
        guard var all = held, !batch.isReset else {  // After a reset nothing before it counts.
            held = batch
            return
        }
        all.next = batch.next
        all.head = batch.head
        all.horizon = max(all.horizon, batch.horizon)
        all.asked = batch.asked
        all.changes += batch.changes
        held = all
        // Too much to keep: it is read again from the base's position, when all is known.
        if all.changes.count > heldLimit, outbox.wantedHead == nil { held = nil }
    }

    private mutating func takeHeld() -> FeedBatch? {
        guard let batch = held, isKnown(batch),
            batch.isComplete || outbox.wantedHead == nil || batch.changes.count > heldLimit
        else { return nil }
        held = nil
        return batch
    }
}
