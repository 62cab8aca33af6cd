import OrderedCollections
import SanguineModel

/// The questions of one user that the feed has not brought yet, and the records that they wait for.
///
/// A change of the records concerns only the questions whose answer or thread it contains, and
/// those whose end the base has reached; see ``inquiry(about:at:of:)``.
///
/// Invariants:
///
/// 1. ``bytes`` is the sum of the sizes of all exchanges.
/// 2. The lists of answers, threads and ends contain each exchange, and no other.
struct PendingExchanges: Sendable {
    /// The exchanges, in the order of their questions.
    private(set) var all: OrderedDictionary<String, PendingExchange> = [:]
    /// The size of all exchanges in memory and on disk, in bytes.
    private(set) var bytes = 0

    private var sizes: [String: Int] = [:]
    private var keysByAnswer: [RecordID: String] = [:]
    private var keysByThread: [RecordID: OrderedSet<String>] = [:]
    /// The keys of the calls whose end has a number in the feed.
    private var ended: Set<String> = []
    private let limit: Int
    private let byteLimit: Int

    /// - Parameters:
    ///   - limit: The number of exchanges. Default: ``MessageLimits/pending``.
    ///   - byteLimit: Their size in bytes. Default: ``MessageLimits/pendingBytes``.
    init(limit: Int = MessageLimits.pending, byteLimit: Int = MessageLimits.pendingBytes) {
        (self.limit, self.byteLimit) = (limit, byteLimit)
    }

    var isEmpty: Bool { all.isEmpty }

    /// The keys of all calls, in the order of their questions.
    var keys: [String] { Array(all.keys) }

    /// The exchange of a call.
    subscript(key: String) -> PendingExchange? {
        get { all[key] }
        set {
            if let newValue { insert(newValue, key) } else { remove(key) }
        }
    }

    /// Returns the exchanges of a thread, in the order of their questions.
    func exchanges(in thread: RecordID) -> [PendingExchange] {
        keysByThread[thread]?.compactMap { all[$0] } ?? []
    }

    private mutating func insert(_ exchange: PendingExchange, _ key: String) {
        let size = exchange.bytes
        bytes += size - (sizes[key] ?? 0)
        sizes[key] = size
        all[key] = exchange
        keysByAnswer[exchange.answer.id] = key
        keysByThread[exchange.thread, default: []].append(key)
        if exchange.head == nil { ended.remove(key) } else { ended.insert(key) }
    }

    private mutating func remove(_ key: String) {
        guard let exchange = all.removeValue(forKey: key) else { return }
        bytes -= sizes.removeValue(forKey: key) ?? 0
        keysByAnswer[exchange.answer.id] = nil
        keysByThread[exchange.thread]?.remove(key)
        if keysByThread[exchange.thread]?.isEmpty == true { keysByThread[exchange.thread] = nil }
        ended.remove(key)
    }

    // MARK: - Limits

    /// Adds an exchange, and removes the oldest ones that were sent if there is no room.
    ///
    /// The feed brings those.
    ///
    /// - Parameter exchange: The exchange.
    /// - Returns: The removed exchanges; `nil` if there is no room, because the others wait for a
    ///   network. Then nothing has changed.
    mutating func add(_ exchange: PendingExchange) -> [PendingExchange]? {
        let size = exchange.bytes
        var (count, total) = (all.count + 1, bytes + size)
        var removed: [PendingExchange] = []
        for other in all.values where count > limit || total > byteLimit {
            guard !other.isWaiting else { continue }
            removed.append(other)
            count -= 1
            total -= sizes[other.key] ?? 0
        }
        guard count <= limit, total <= byteLimit else { return nil }
        for other in removed { remove(other.key) }
        insert(exchange, exchange.key)
        return removed
    }

    /// Removes the oldest exchanges that were sent until the others are within the limit, after an
    /// answer was added.
    ///
    /// - Returns: The removed exchanges.
    mutating func trim() -> [PendingExchange] {
        guard bytes > byteLimit else { return [] }
        var total = bytes
        var removed: [PendingExchange] = []
        for other in all.values where total > byteLimit && !other.isWaiting {
            removed.append(other)
            total -= sizes[other.key] ?? 0
        }
        for other in removed { remove(other.key) }
        return removed
    }
}

// MARK: - Bases

extension PendingExchanges {
    /// The records to read before exchanges can end.
    struct Inquiry: Hashable, Sendable {
        /// The exchanges whose answers are read.
        var answers: [PendingExchange] = []
        /// The exchanges of changed threads whose answers have not changed.
        var others: [PendingExchange] = []
        /// The threads that are read.
        var threads: OrderedSet<RecordID> = []

        var isEmpty: Bool { answers.isEmpty && threads.isEmpty }
        /// The number of records that are read.
        var count: Int { answers.count + threads.count }
    }

    /// The contents of the records that an inquiry names.
    struct Facts: Sendable {
        /// The states of the answers that the base contains, by their keys.
        var states: [String: String] = [:]
        /// The inquired threads that are visible.
        var threads: Set<RecordID> = []
        /// Whether the base has all of the user's records.
        var isWhole = false
        /// The number of the feed that the base has reached.
        var position: Int64 = 0
        /// The epoch of that number.
        var epoch: Epoch?
    }

    /// The changes that follow from facts.
    struct Reconciliation: Sendable {
        /// The records whose readers are notified.
        var records: Set<RecordKey> = []
        /// The keys of changed and of removed exchanges.
        var changed: Set<String> = []
        /// The keys of the calls whose answers the base contains.
        var answered: [String] = []
    }

    /// Returns the records to read after a change.
    ///
    /// - Parameters:
    ///   - changed: The changed records.
    ///   - position: The number of the feed that the base has reached.
    ///   - epoch: The epoch of that number.
    /// - Returns: The records.
    func inquiry(
        about changed: Set<RecordKey>,
        at position: Int64,
        of epoch: Epoch?
    ) -> Inquiry {
        var keys: Set<String> = ended.filter { key in
            all[key]?.isReached(by: position, of: epoch) == true
        }
        var threads: Set<RecordID> = []
        for record in changed {
            switch record.collection {
            case ChatMessage.collection.name:
                if let key = keysByAnswer[record.id] { keys.insert(key) }
            case ChatThread.collection.name:
                if keysByThread[record.id] != nil { threads.insert(record.id) }
            default: break
            }
        }
        return inquiry(of: keys, and: threads)
    }

    /// Returns the records to read for these exchanges, changed or not.
    func inquiry(of keys: some Sequence<String>) -> Inquiry { inquiry(of: Set(keys), and: []) }

    private func inquiry(of keys: Set<String>, and threads: Set<RecordID>) -> Inquiry {
        var inquiry = Inquiry()
        inquiry.answers = keys.compactMap { all[$0] }
        inquiry.threads = OrderedSet(threads)
        inquiry.threads.append(contentsOf: inquiry.answers.map(\.thread))
        for thread in threads {
            inquiry.others += exchanges(in: thread).filter { !keys.contains($0.key) }
        }
        return inquiry
    }

    /// Removes the exchanges that the records contain by now.
    ///
    /// An exchange that has changed since the inquiry stays, and is reconciled after that change.
    mutating func reconcile(_ inquiry: Inquiry, with facts: Facts) -> Reconciliation {
        var result = Reconciliation()
        func ownFacts(of exchange: PendingExchange) -> PendingExchange.Facts {
            PendingExchange.Facts(
                answer: facts.states[exchange.key],
                hasThread: facts.threads.contains(exchange.thread),
                isWhole: facts.isWhole
            )
        }
        for exchange in inquiry.answers where all[exchange.key] == exchange {
            let own = ownFacts(of: exchange)
            let isSettled = exchange.isSettled(by: own, at: facts.position, of: facts.epoch)
            if isSettled, own.isAnswered { result.answered.append(exchange.key) }
            reconcile(exchange, own, isSettled: isSettled, &result)
        }
        for exchange in inquiry.others where all[exchange.key] == exchange {
            let own = ownFacts(of: exchange)
            reconcile(exchange, own, isSettled: exchange.isDeleted(by: own), &result)
        }
        return result
    }

    private mutating func reconcile(
        _ exchange: PendingExchange,
        _ facts: PendingExchange.Facts,
        isSettled: Bool,
        _ result: inout Reconciliation
    ) {
        if isSettled {
            remove(exchange.key)
            result.records.formUnion(exchange.records)
        } else if facts.hasThread, !exchange.hadThread {
            all[exchange.key]?.hadThread = true
        } else {
            return
        }
        result.changed.insert(exchange.key)
    }
}
