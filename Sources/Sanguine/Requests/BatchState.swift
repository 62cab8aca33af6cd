/// Which look-ups go together in one request; the only code that decides it.
///
/// The first look-up opens a batch and, with it, a window in time. Those that come within the
/// window join; when it ends, or when the batch is full, the batch is closed and sent, and the next
/// look-up opens another. An id that is looked up twice in an open batch is asked for once. A batch
/// that is closed takes nobody in: its answer may be from before whatever made them ask.
///
/// Everything in here may travel together: the owner keeps one state for each name, user and
/// policy.
///
/// Askers and batches are numbered by their owner. The state performs no I/O and reads no clock.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. At most one batch is open, and it has an id; each of its ids has an asker.
/// 2. No batch has more than `size` ids.
/// 3. An asker waits for one batch; a batch that nobody waits for is cancelled.
struct BatchState<ID: Hashable & Sendable>: Sendable {
    /// A batch that is to be sent now.
    struct Closed: Hashable, Sendable {
        let batch: UInt64
        /// What to ask for, each once, in the order in which it was looked up first.
        let ids: [ID]
    }

    /// What the owner must do now.
    struct Actions: Hashable, Sendable {
        /// The batch whose window begins.
        var opened: UInt64?
        /// The batch to send.
        var closed: Closed?
        /// The batch that nobody wants any more, be it open or under way.
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
    /// How many wait for each batch that is under way.
    private var underWay: [UInt64: Int] = [:]

    init(size: Int) { self.size = max(1, size) }

    // MARK: - Questions

    /// Whether nobody asks.
    var isIdle: Bool { askers.isEmpty && open == nil && underWay.isEmpty }

    /// How many ask.
    var askerCount: Int { askers.count }

    /// The batch that the asker waits for.
    func batch(of asker: UInt64) -> UInt64? { askers[asker]?.batch }

    // MARK: - Events

    /// Somebody looks an id up.
    ///
    /// - Parameters:
    ///   - asker: Who; a new number.
    ///   - id: What.
    ///   - nextBatch: The number of the batch that may have to be opened.
    /// - Returns: What to do now.
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

    /// The window of a batch has ended.
    ///
    /// Nothing happens if it was closed before.
    mutating func windowEnded(_ batch: UInt64) -> Actions {
        defer { checkInvariants() }
        guard let open, open.batch == batch else { return .nothing }
        return close(open)
    }

    /// An asker gave up.
    ///
    /// The last one takes the batch with it; no other notices.
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

    /// A batch has been answered, or has failed.
    ///
    /// - Returns: Who waits for it, and for what.
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
        assert(underWay.values.allSatisfy { $0 > 0 }, "A batch that nobody waits for.")
        let waiting = (open?.askers.values.reduce(0, +) ?? 0) + underWay.values.reduce(0, +)
        assert(askers.count == waiting, "An asker waits for no batch.")
        #endif
    }
}
