import SanguineModel

/// Puts changes that arrive one by one together to what may be shown: whole operations.
///
/// Invariants:
///
/// 1. Batches follow each other without a gap, the first after the position given.
/// 2. A batch ends where an operation ends, so no reader ever sees half of one.
struct LiveBatches {
    /// More changes than one operation can have wait for its end.
    struct Overrun: Error, Hashable {}

    /// Where the next batch begins.
    private(set) var position: Int64
    private var changes: [RecordChange] = []
    /// Where the operation ends of which changes are there.
    private var through: Int64?
    /// Up to where all is there that will come.
    private var boundary: Int64
    private var head: Int64 = 0

    init(after position: Int64) {
        self.position = position
        boundary = position
    }

    /// Takes a change in; returns the batch that is whole now, if one is.
    mutating func take(_ event: LiveChange) throws(Overrun) -> SyncState.FeedBatch? {
        let change = event.change
        guard change.seq > boundary else { return nil }  // It was here before.
        head = max(head, event.head)
        var batch: SyncState.FeedBatch?
        // The last change of an operation is missing if its record has changed again since.
        if let through, change.seq > through { batch = reach(through) }
        changes.append(change)
        guard changes.count <= FeedLimits.batchedChanges + FeedLimits.waitingChanges else {
            throw Overrun()
        }
        let end = change.through ?? change.seq
        through = end
        if change.seq >= end {
            through = nil
            // Two ends in one step are one batch, with the later end.
            if let whole = reach(end) { return batch.map { merged($0, whole) } ?? whole }
        }
        return batch
    }

    /// The server has nothing up to a number.
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
            hasMore: number < head
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
