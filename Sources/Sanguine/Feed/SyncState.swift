package import SanguineModel

/// Combines base, pending operations and feed: no flicker, and every effect shown exactly once.
///
/// Two rules apply besides replay:
///
/// **A base is adopted only when the client knows, for each operation that may have been done,
/// whether the base contains it.** A pull states this for the operations that it was asked about. A
/// batch that arrives while a push is unanswered is held back until the answer has arrived. So an
/// operation's effect is never shown twice, and never disappears between the acknowledgement and
/// the feed, whichever comes first.
///
/// **Only a complete base settles acknowledged operations.** The feed has each record once, in its
/// newest state. If an operation changed two records, the first page may have one, and the last
/// page the other, which has changed again since. So while there are acknowledged operations, pages
/// are held back until the last one has arrived, and adopted in one step. Otherwise each page is
/// shown as it comes.
///
/// Pure: the base is kept outside. The shell makes ``Actions`` durable, in this order:
///
/// 1. ``Actions/steps``, in the outbox;
/// 2. ``Actions/adopt``, in the base, with its position, in one transaction; then it calls
///    ``adopted(_:over:)`` and executes the result.
///
/// After a crash between any two steps, the next start continues from the stored state.
///
/// Invariants:
///
/// 1. The visible state is the base with all operations replayed that are not settled or refused.
/// 2. The position never decreases, except by a reset.
/// 3. The held batch follows the base without a gap, and has at most `heldLimit` changes; beyond
///    that, acknowledged operations are hidden until the base has them.
package struct SyncState {
    /// A part of the feed that the shell received.
    package struct FeedBatch: Sendable {
        /// The position that it was requested from.
        package var since: Int64
        /// The position that it leads to.
        package var next: Int64
        /// The newest number that the authority knew.
        package var head: Int64
        /// The last number whose deletions the authority had forgotten; kept with the position.
        package var horizon: Int64
        /// The epoch of these numbers; `nil` if the server has none.
        package var epoch: Epoch?
        package var changes: [RecordChange]
        /// Whether records that neither this batch nor a later one mentions are gone.
        package var isReset: Bool
        /// The operations for which the answer states whether it contains them.
        package var asked: Set<Int64>
        package let results: [PushResult]
        /// The space that already holds the records of this base; ``changes`` is empty then.
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

    /// The actions that the shell must perform, in this order.
    package struct Actions {
        /// Steps to make durable in the outbox.
        package var steps: [OutboxState.Step] = []
        /// The batch to write to the base.
        package var adopt: FeedBatch?
        /// The records whose visible value may have changed.
        package var changed: Set<RecordKey> = []
        /// Whether any visible value may have changed, because the base was replaced.
        package var isEverythingChanged = false
        /// The reason why the visible state is unknown; the other actions must be performed anyway.
        package var failure: (any Error)?
        /// The data that the shell must supply, because the received data could not be used or is
        /// not sufficient.
        package var missing = Missing.nothing

        /// Whether the shell must pull, if it is not live.
        package var mustPull: Bool { missing != .nothing }
    }

    /// The data of the server that the base lacks.
    package enum Missing: Int, Comparable, Sendable {
        case nothing
        /// Data that the live feed, or the answer to a push in progress, will bring: it is pulled
        /// if there is no live feed, or if it does not arrive.
        case echo
        /// Data that only a pull brings.
        case more

        package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
    }

    /// All of the user's operations; only the record mutations are replayed.
    package var outbox: OutboxState
    package private(set) var replay: Replay
    /// The number of the feed that the base has reached.
    package private(set) var position: Int64
    /// The horizon of that position.
    package private(set) var horizon: Int64
    /// Whether the base was complete when it was last read.
    package private(set) var isComplete = false
    /// Whether the base is a state of the server that is complete, though perhaps old.
    ///
    /// Until then, it has a part of the user's records, or none.
    package private(set) var isWhole = false
    /// Whether the base may hold records that the current reset, perhaps an earlier process's, does
    /// not mention.
    private var isResetting = true
    /// Everything that has arrived but must not be adopted yet, as one batch.
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

    /// Replaces the base under the operations: it was read again, or is empty.
    ///
    /// - Parameters:
    ///   - position: The number of the feed that it has reached.
    ///   - epoch: The epoch of that number; `nil` if it is unknown.
    ///   - isWhole: Whether the base has been complete.
    ///   - operations: The record mutations, as they are on disk.
    ///   - base: The new base.
    /// - Throws: The error of reading the base.
    package mutating func restart(
        at position: Int64,
        of epoch: Epoch? = nil,
        isWhole: Bool = false,
        with operations: [Replay.Operation],
        over base: some RecordSource
    ) throws {
        replay = Replay(schema: replay.schema)
        self.position = position
        (horizon, held, isComplete, isResetting) = (0, nil, false, true)
        self.isWhole = isWhole
        if let epoch {
            // Not written: the stored state leads to the same result at the next start.
            _ = outbox.reopen(for: epoch)
            outbox.enter(epoch)
        }
        let visible = Set(outbox.visible)
        for operation in operations where visible.contains(operation.sequence) {
            _ = try replay.add(operation, over: base)
        }
    }

    // MARK: - Operations

    /// Adds an operation that is already durable.
    ///
    /// - Parameters:
    ///   - operation: The operation's effect.
    ///   - item: Its progress.
    ///   - dryRunResult: The result of running it now, if that is known.
    ///   - base: The base.
    /// - Returns: The actions to perform.
    /// - Throws: The error of reading the base.
    package mutating func add(
        _ operation: Replay.Operation,
        as item: OutboxState.Item,
        dryRun dryRunResult: Replay.DryRun? = nil,
        over base: some RecordSource
    ) throws -> Actions {
        var actions = Actions()
        var item = item
        if case .acknowledged = item.phase, !outbox.isOfBase(item) {
            // One of the histories is lost: the server states whether the operation was applied.
            (item.phase, item.outcomeUnknown, item.epoch) = (.queued, true, nil)
        }
        if case .acknowledged(let head) = item.phase, head <= position {
            // The process ended after the base had it and before the outbox knew.
            actions.steps = [.removed([item.sequence])]
            return actions
        }
        if !item.isRefused {
            actions.changed =
                if let dryRunResult {
                    try replay.add(dryRunResult, at: item.sequence, over: base)
                } else {
                    try replay.add(operation, over: base)
                }
            item.dependencies.formUnion(replay.dependencies(of: item.sequence))
        }
        outbox.add(item)
        return actions
    }

    /// Removes an operation that is refused or was never sent; `nil` if it may have been done.
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

    /// Records the answer to a push.
    package mutating func pushCompleted(
        _ sendNumber: UInt64,
        _ answer: PushAnswer,
        epoch: Epoch? = nil,
        over base: some RecordSource
    ) -> Actions {
        settled(after: outbox.complete(sendNumber, answer.results, epoch: epoch), over: base)
    }

    /// Moves operations that were never sent to the tray.
    package mutating func refuse(
        _ sequences: [Int64],
        _ problem: Problem,
        over base: some RecordSource
    ) -> Actions {
        settled(after: outbox.refuse(sequences, problem), over: base)
    }

    /// Replaces the arguments of an operation, with which it is shown afterwards.
    ///
    /// - Returns: The records whose visible value changed.
    package mutating func rewrite(
        _ operation: Replay.Operation,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        try replay.replace(operation, over: base)
    }

    // MARK: - Feed

    /// Records a part of the feed.
    package mutating func received(
        _ batch: FeedBatch,
        over base: some RecordSource
    ) -> Actions {
        var actions = Actions()
        var steps: [OutboxState.Step] = []
        let isNext = batch.since == pullPosition
        if let epoch = batch.epoch, epoch != pullEpoch {
            // A batch from the start is valid in any epoch.
            let isWhole = batch.isReset || batch.since == 0
            guard isNext, isWhole || pullEpoch == nil else {
                // Its numbers mean nothing here: a pull will return a reset.
                actions.missing = .more
                return actions
            }
            // The held batch is of a lost history, and may contain operations that are sent again.
            if isWhole { held = nil }
            steps = outbox.reopen(for: epoch)
        } else if isNext, let epoch = batch.epoch {
            // An answer of a lost history may have arrived after the base left it.
            steps = outbox.reopen(for: epoch, isNew: false)
        }
        steps += outbox.resolve(batch.results, epoch: batch.epoch)
        actions = settled(after: steps, over: base)
        if actions.adopt != nil {
            // The held batch comes first, and this one does not begin where it ends.
            actions.missing = .more
            return actions
        }
        guard isNext else {
            // It overlaps a batch that arrived in the meantime, or follows one that did not come.
            if batch.next > pullPosition { actions.missing = .more }
            return actions
        }
        hold(batch)
        actions.adopt = popHeld()
        actions.missing = actions.adopt == nil ? missing : .nothing
        return actions
    }

    /// Records that a batch and its position are in the base, and settles what it contains.
    package mutating func adopted(
        _ batch: FeedBatch,
        over base: some RecordSource
    ) throws -> Actions {
        position = batch.next
        let isOtherEpoch = batch.epoch.map { $0 != outbox.epoch } ?? false
        horizon = isOtherEpoch ? batch.horizon : max(horizon, batch.horizon)
        if let epoch = batch.epoch { outbox.enter(epoch) }
        isComplete = batch.isComplete
        if isComplete || batch.staged != nil { isWhole = isComplete }
        // Records that a reset does not mention are removed at its end, without being named.
        let isOther = batch.isReset || batch.staged != nil || (isResetting && isComplete)
        isResetting = (isResetting || batch.isReset) && !isComplete
        var settled: [Int64] = []
        var actions = Actions()
        if isComplete {
            (settled, actions.steps) = outbox.settle(through: position)
        } else if outbox.wantedHead != nil {
            // Too much to hold back. The operations were applied: hiding them briefly beats showing
            // them twice.
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

    /// Leaves the feed of a guest who has become a part of another account.
    ///
    /// The base stays visible until the other feed, read from its start, replaces it. Operations
    /// that the guest's feed has acknowledged are sent again under the same ids: the other feed has
    /// other numbers.
    ///
    /// - Parameter epoch: The epoch that stands for the guest's feed.
    /// - Returns: The steps to make durable.
    mutating func leave(for epoch: Epoch) -> [OutboxState.Step] {
        (held, isComplete) = (nil, false)
        let steps = outbox.reopen(for: epoch)
        outbox.enter(epoch)
        return steps
    }

    /// Drops a held batch that has its own space, because the space is deleted.
    mutating func dropStaged() { if held?.staged != nil { held = nil } }

    /// The space of the held batch; `nil` if there is none.
    var heldSpace: Int64? { held?.staged }

    // MARK: - An unfinished restore

    /// Whether the records of a feed up to a number can be shown as they are restored, because they
    /// certainly contain no operation that is not settled.
    ///
    /// Operations that are sent later have later numbers. An operation that may be among the
    /// restored records would be shown twice.
    func mayShow(restoreTo head: Int64, of epoch: Epoch?) -> Bool {
        position == 0 && held == nil && outbox.isAfter(head, of: epoch)
    }

    /// Replays the operations over restored records that have become visible.
    ///
    /// - Parameters:
    ///   - keys: The records.
    ///   - everything: Whether they replace all visible records.
    ///   - base: The base with these records.
    /// - Throws: The error of reading the base.
    mutating func restored(
        _ keys: [RecordKey],
        everything: Bool,
        over base: some RecordSource
    ) throws {
        guard replay.count > 0 else { return }
        _ = try replay.settle(removing: [], changed: keys, everything: everything, over: base)
    }

    /// The position of the next pull: after the held batch.
    package var pullPosition: Int64 { held?.next ?? position }

    /// The horizon that the next pull sends.
    package var pullHorizon: Int64 {
        guard let held else { return horizon }
        return held.epoch == outbox.epoch ? max(horizon, held.horizon) : held.horizon
    }

    /// The epoch that the next pull sends.
    package var pullEpoch: Epoch? { held?.epoch ?? outbox.epoch }

    private mutating func settled(
        after steps: [OutboxState.Step],
        over base: some RecordSource
    ) -> Actions {
        var actions = Actions(steps: steps)
        let refused = steps.compactMap { step in
            if case .refused(let sequence, _) = step { sequence } else { nil }
        }
        if !refused.isEmpty { settle(refused, over: base, &actions) }
        actions.adopt = popHeld()
        if held == nil, actions.adopt == nil, isComplete {
            // An operation that changed nothing is done at a number that the base has already
            // reached.
            let (settled, ended) = outbox.settle(through: position)
            actions.steps += ended
            settle(settled, over: base, &actions)
        }
        actions.missing = actions.adopt == nil ? missing : .nothing
        return actions
    }

    // Outcomes of operations count even if the base cannot be read.
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

    /// The data that is still to come, as far as it is known.
    package var missing: Missing {
        if let held {
            // Only a pull returns the outcome of an operation that another history has
            // acknowledged.
            if !held.isComplete || hasOtherHistory(held) { return .more }
            if isKnown(held) { return .nothing }
            return outbox.isAnswerDue ? .echo : .more
        }
        if !isComplete { return .more }
        guard let wanted = outbox.wantedHead, wanted > position else { return .nothing }
        // Of another epoch: only a pull returns the outcome in this one.
        return wanted == .max ? .more : .echo
    }

    // Whether it is known, for each operation that may be done, if the batch contains it.
    private func isKnown(_ batch: FeedBatch) -> Bool {
        !hasOtherHistory(batch) && outbox.unresolved.allSatisfy(batch.asked.contains)
    }

    // Whether an operation was acknowledged in another history than the batch's.
    private func hasOtherHistory(_ batch: FeedBatch) -> Bool {
        batch.epoch.map { outbox.isAcknowledged(outside: $0) } ?? false
    }

    private mutating func hold(_ batch: FeedBatch) {
        guard var all = held, !batch.isReset else {  // A reset replaces everything before it.
            held = batch
            return
        }
        all.next = batch.next
        all.head = batch.head
        all.horizon = max(all.horizon, batch.horizon)
        all.asked = batch.asked
        all.changes += batch.changes
        held = all
        // Too much to keep: it is read again from the base's position, when everything is known.
        if all.changes.count > heldLimit, outbox.wantedHead == nil { held = nil }
    }

    private mutating func popHeld() -> FeedBatch? {
        guard let batch = held, isKnown(batch),
            batch.isComplete || outbox.wantedHead == nil || batch.changes.count > heldLimit
        else { return nil }
        held = nil
        return batch
    }
}

extension SyncState: CustomDebugStringConvertible {
    /// One line for reports: the base's position and epoch, its distance, and what it lacks.
    package var debugDescription: String {
        var parts = ["at \(position)"]
        parts.append(outbox.epoch.map { "epoch \($0.text.prefix(8))" } ?? "no epoch")
        if let lag { parts.append("\(lag) behind") }
        if let held { parts.append("\(held.changes.count) changes held back") }
        let lacks =
            switch missing {
            case .nothing: "complete"
            case .echo: "waiting for its own changes"
            case .more: "needs a pull"
            }
        return (parts + [lacks]).joined(separator: ", ")
    }

    /// The number of feed entries that the base is behind; `nil` if it is at the newest known one.
    var lag: Int64? {
        let wanted = outbox.wantedHead.flatMap { $0 == .max ? nil : $0 }
        let newest = max(held?.head ?? position, wanted ?? position)
        return newest > position ? newest - position : nil
    }
}
