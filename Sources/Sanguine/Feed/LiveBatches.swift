import SanguineModel

/// Combines changes that arrive one by one into batches of whole operations.
///
/// Invariants:
///
/// 1. Batches follow each other without a gap, the first after the given position.
/// 2. A batch ends where an operation ends, so that no reader ever sees half of one.
struct LiveBatches {
    /// More changes than one operation can have are waiting for its end.
    struct Overrun: Error, Hashable {}

    /// The position at which the next batch begins.
    private(set) var position: Int64
    /// The epoch of the numbers; `nil` until it is known.
    private var epoch: Epoch?
    private var changes: [RecordChange] = []
    /// The last number of an operation that has arrived in part.
    private var through: Int64?
    /// The number through which all changes have arrived.
    private var boundary: Int64
    private var head: Int64 = 0
    /// The number of the last change, and the records that changed at it.
    private var last: (number: Int64, records: Set<RecordKey>) = (0, [])

    init(after mark: FeedMark) {
        position = mark.number
        boundary = mark.number
        epoch = mark.epoch
    }

    /// Returns whether an event's id belongs to the same epoch as earlier ones.
    mutating func isContinued(at id: String) -> Bool {
        guard let named = FeedMark(id)?.epoch else { return true }
        defer { epoch = named }
        return epoch == nil || epoch == named
    }

    /// Adds a change; returns the batch that is now complete, if any.
    mutating func add(_ event: LiveChange) throws(Overrun) -> SyncState.FeedBatch? {
        let change = event.change
        // One commit may change the balance and a quota under one number. A change with the number
        // of the last batch forms its own batch, which ends where it begins.
        let key = RecordKey(change.collection, change.id)
        if change.seq == last.number {
            guard last.records.insert(key).inserted else { return nil }
        } else {
            guard change.seq > boundary else { return nil }
            last = (change.seq, [key])
        }
        head = max(head, event.head)
        var batch: SyncState.FeedBatch?
        // An operation's last change is missing if its record has changed again since.
        if let through, change.seq > through { batch = reach(through) }
        changes.append(change)
        guard changes.count <= FeedLimits.batchedChanges + FeedLimits.waitingChanges else {
            throw Overrun()
        }
        let end = change.through ?? change.seq
        through = end
        if change.seq >= end {
            through = nil
            // Two ends in one step form one batch, with the later end.
            if let whole = reach(end) { return batch.map { merged($0, whole) } ?? whole }
        }
        return batch
    }

    /// Records that the server has no further changes up to a number.
    mutating func reached(_ number: Int64) -> SyncState.FeedBatch? {
        guard number > boundary else { return nil }
        head = max(head, number)
        through = nil
        return reach(number)
    }

    private mutating func reach(_ number: Int64) -> SyncState.FeedBatch? {
        boundary = number
        through = nil
        guard number >= head || changes.count >= FeedLimits.batchedChanges else { return nil }
        let answer = PullAnswer(
            changes: changes,
            next: number,
            head: max(head, number),
            hasMore: number < head,
            epoch: epoch
        )
        let batch = SyncState.FeedBatch(answer, since: position)
        changes = []
        position = number
        return batch
    }

    private func merged(
        _ first: SyncState.FeedBatch,
        _ second: SyncState.FeedBatch
    ) -> SyncState.FeedBatch {
        var batch = first
        batch.next = second.next
        batch.head = second.head
        batch.changes += second.changes
        return batch
    }
}
