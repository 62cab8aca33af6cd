/// Decides which lookups are sent together in one request.
///
/// The first lookup opens a batch and starts its time window. Lookups within the window join the
/// batch; when the window ends, or the batch is full, the batch is closed and sent, and the next
/// lookup opens another one. An id that is looked up twice in an open batch is requested once. A
/// closed batch accepts no lookups: its response may be older than the reason for the lookup.
///
/// All lookups in one state may be joined: the owner has one state for each name, user and policy.
///
/// The owner numbers askers and batches. The state performs no I/O and reads no clock.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. At most one batch is open, and it has an id; each of its ids has an asker.
/// 2. No batch has more than `size` ids.
/// 3. An asker waits for one batch; a batch without askers is cancelled.
struct BatchState<ID: Hashable & Sendable>: Sendable {
    /// A batch that must be sent now.
    struct Closed: Hashable, Sendable {
        let batch: UInt64
        /// The ids to request, each once, in the order of their first lookup.
        let ids: [ID]
    }

    /// The actions that the owner must perform.
    struct Actions: Hashable, Sendable {
        /// The batch whose window begins.
        var opened: UInt64?
        /// The batch to send.
        var closed: Closed?
        /// The batch that no longer has callers, whether open or in flight.
        var cancelled: UInt64?

        static var nothing: Actions { Actions() }
    }

    private struct Open {
        let batch: UInt64
        var ids: [ID] = []
        var askers: [ID: Int] = [:]
    }

    private struct Asker {
        let batch: UInt64
        let id: ID
    }

    let size: Int
    private var open: Open?
    private var askers: [UInt64: Asker] = [:]
    /// The number of askers of each batch in flight.
    private var underWay: [UInt64: Int] = [:]

    init(size: Int) { self.size = max(1, size) }

    // MARK: - Queries

    /// Whether there are no lookups.
    var isIdle: Bool { askers.isEmpty && open == nil && underWay.isEmpty }

    /// The number of askers.
    var askerCount: Int { askers.count }

    /// Returns the batch that the asker waits for.
    func batch(of asker: UInt64) -> UInt64? { askers[asker]?.batch }

    // MARK: - Events

    /// Adds a lookup.
    ///
    /// - Parameters:
    ///   - asker: The asker's number, which must be new.
    ///   - id: The id to look up.
    ///   - nextBatch: The number of the batch if one has to be opened.
    /// - Returns: The actions to perform.
    mutating func ask(_ asker: UInt64, for id: ID, nextBatch: UInt64) -> Actions {
        defer { checkInvariants() }
        let isFirst = open == nil
        var open = open ?? Open(batch: nextBatch)
        if open.askers[id] == nil { open.ids.append(id) }
        open.askers[id, default: 0] += 1
        askers[asker] = Asker(batch: open.batch, id: id)
        self.open = open
        if open.ids.count >= size { return close(open) }
        return Actions(opened: isFirst ? open.batch : nil)
    }

    /// Ends the window of a batch.
    ///
    /// Nothing happens if the batch is already closed.
    mutating func windowEnded(_ batch: UInt64) -> Actions {
        defer { checkInvariants() }
        guard let open, open.batch == batch else { return .nothing }
        return close(open)
    }

    /// Removes an asker.
    ///
    /// The last asker's removal cancels the batch; other askers are not affected.
    mutating func leave(_ asker: UInt64) -> Actions {
        defer { checkInvariants() }
        guard let gone = askers.removeValue(forKey: asker) else { return .nothing }
        if var open, open.batch == gone.batch {
            open.askers[gone.id, default: 1] -= 1
            if open.askers[gone.id] == 0 {
                open.askers[gone.id] = nil
                open.ids.removeAll { $0 == gone.id }
            }
            self.open = open.ids.isEmpty ? nil : open
            return Actions(cancelled: open.ids.isEmpty ? gone.batch : nil)
        }
        underWay[gone.batch, default: 1] -= 1
        guard underWay[gone.batch] == 0 else { return .nothing }
        underWay[gone.batch] = nil
        return Actions(cancelled: gone.batch)
    }

    /// Ends a batch that has been answered or has failed.
    ///
    /// - Returns: The askers that wait for it, and their ids.
    mutating func ended(_ batch: UInt64) -> [UInt64: ID] {
        defer { checkInvariants() }
        guard underWay.removeValue(forKey: batch) != nil else { return [:] }
        let answered = askers.filter { $0.value.batch == batch }.mapValues(\.id)
        for asker in answered.keys { askers[asker] = nil }
        return answered
    }

    private mutating func close(_ open: Open) -> Actions {
        self.open = nil
        underWay[open.batch] = open.askers.values.reduce(0, +)
        return Actions(closed: Closed(batch: open.batch, ids: open.ids))
    }

    private func checkInvariants() {
        #if DEBUG
        if let open {
            assert(!open.ids.isEmpty && open.ids.count < size, "An open batch is empty or full.")
            assert(open.ids.count == open.askers.count && underWay[open.batch] == nil)
        }
        assert(underWay.values.allSatisfy { $0 > 0 }, "A running batch has no callers.")
        let waiting = (open?.askers.values.reduce(0, +) ?? 0) + underWay.values.reduce(0, +)
        assert(askers.count == waiting, "A caller waits for no batch.")
        #endif
    }
}
