/// The entries in memory, who is observed of them, and what they cost.
///
/// Invariants:
///
/// 1. ``bytes`` is the sum of the entries' costs.
/// 2. After ``evict()`` it is at most the limit, but for entries in use.
struct EntryTable {
    /// What the entries cost, in bytes.
    private(set) var bytes = 0
    /// The keys of the entries that somebody observes.
    private(set) var observed: Set<QueryKey> = []
    private var records: [QueryKey: QueryRecord] = [:]
    private var uses: UInt64 = 0
    /// Past how many bytes entries are evicted.
    private var evictAt: Int
    private let limit: Int

    /// - Parameter limit: How many bytes the entries may cost.
    init(limit: Int) {
        self.limit = limit
        evictAt = limit
    }

    /// The entry of the key.
    subscript(key: QueryKey) -> QueryRecord? { records[key] }

    /// All entries, in no order.
    var all: some Collection<QueryRecord> { records.values }

    mutating func add(_ record: QueryRecord) {
        records[record.key] = record
        bytes += record.cost
    }

    mutating func remove(_ key: QueryKey) {
        guard let record = records.removeValue(forKey: key) else { return }
        observed.remove(key)
        bytes -= record.cost
    }

    /// Takes note of the entry's being used: it is evicted after all that were used before.
    mutating func use(_ record: QueryRecord) {
        uses &+= 1
        record.lastUse = uses
    }

    /// Takes over what the entry's value costs, in bytes beside the entry's own.
    mutating func measure(_ record: QueryRecord, _ bytes: Int) {
        self.bytes -= record.cost
        record.cost = ClientLimits.entryOverheadBytes + bytes
        self.bytes += record.cost
    }

    /// Takes note of whether somebody observes the entry.
    ///
    /// - Returns: Whether that is new.
    mutating func list(_ record: QueryRecord) -> Bool {
        let isObserved = record.state.isObserved
        guard isObserved != record.isListed else { return false }
        record.isListed = isObserved
        if isObserved { observed.insert(record.key) } else { observed.remove(record.key) }
        return true
    }

    /// Forgets the entries that were not used for longest, down to nine tenths of the limit.
    ///
    /// - Returns: The keys of those that have gone.
    mutating func evict() -> [QueryKey] {
        guard bytes > evictAt else { return [] }
        let target = limit / 10 * 9  // Some room, or each new value would sort them again.
        var evicted: [QueryKey] = []
        for record in records.values.filter({ !$0.state.isInUse })
            .sorted(by: { $0.lastUse < $1.lastUse })
        {
            guard bytes > target else { break }
            remove(record.key)
            evicted.append(record.key)
        }
        // What is in use cannot go: then it is tried again when a tenth more has come.
        evictAt = bytes > target ? bytes + limit / 10 : limit
        return evicted
    }
}
