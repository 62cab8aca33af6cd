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
    private var entries: [QueryKey: Entry] = [:]
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
    subscript(key: QueryKey) -> Entry? { entries[key] }

    /// All entries, in no order.
    var all: some Collection<Entry> { entries.values }

    mutating func add(_ entry: Entry) {
        entries[entry.key] = entry
        bytes += entry.cost
    }

    mutating func remove(_ key: QueryKey) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        observed.remove(key)
        bytes -= entry.cost
    }

    /// Takes note of the entry's being used: it is evicted after all that were used before.
    mutating func use(_ entry: Entry) {
        uses &+= 1
        entry.lastUse = uses
    }

    /// Takes over what the entry's value costs, in bytes beside the entry's own.
    mutating func measure(_ entry: Entry, _ bytes: Int) {
        self.bytes -= entry.cost
        entry.cost = ClientLimits.entryOverheadBytes + bytes
        self.bytes += entry.cost
    }

    /// Takes note of whether somebody observes the entry.
    ///
    /// - Returns: Whether that is new.
    mutating func list(_ entry: Entry) -> Bool {
        let isObserved = entry.state.isObserved
        guard isObserved != entry.isListed else { return false }
        entry.isListed = isObserved
        if isObserved { observed.insert(entry.key) } else { observed.remove(entry.key) }
        return true
    }

    /// Forgets the entries that were not used for longest, down to nine tenths of the limit.
    ///
    /// - Returns: The keys of those that have gone.
    mutating func evict() -> [QueryKey] {
        guard bytes > evictAt else { return [] }
        let target = limit / 10 * 9  // Some room, or each new value would sort them again.
        var evicted: [QueryKey] = []
        for entry in entries.values.filter({ !$0.state.isInUse })
            .sorted(by: { $0.lastUse < $1.lastUse })
        {
            guard bytes > target else { break }
            remove(entry.key)
            evicted.append(entry.key)
        }
        // What is in use cannot go: then it is tried again when a tenth more has come.
        evictAt = bytes > target ? bytes + limit / 10 : limit
        return evicted
    }
}
