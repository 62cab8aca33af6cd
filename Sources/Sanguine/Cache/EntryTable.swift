/// The entries in memory, the set of observed ones, and the memory they take.
///
/// Invariants:
///
/// 1. ``bytes`` is the sum of the entries' costs.
/// 2. After ``evict()`` it is at most the limit, except for entries in use.
struct EntryTable {
    /// The cost of all entries, in bytes.
    private(set) var bytes = 0
    /// The keys of the observed entries.
    private(set) var observed: Set<QueryKey> = []
    private var entries: [QueryKey: Entry] = [:]
    private var uses: UInt64 = 0
    /// The number of bytes above which entries are evicted.
    private var evictAt: Int
    private let limit: Int

    /// - Parameter limit: The number of bytes that the entries may cost.
    init(limit: Int) {
        self.limit = limit
        evictAt = limit
    }

    /// The entry of the key.
    subscript(key: QueryKey) -> Entry? { entries[key] }

    /// All entries, in no particular order.
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

    /// Records that the entry was used: entries used earlier are evicted first.
    mutating func use(_ entry: Entry) {
        uses &+= 1
        entry.lastUse = uses
    }

    /// Records the size of the entry's value, in bytes; the entry itself costs more.
    mutating func measure(_ entry: Entry, _ bytes: Int) {
        self.bytes -= entry.cost
        entry.cost = ClientLimits.entryOverheadBytes + bytes
        self.bytes += entry.cost
    }

    /// Records whether the entry is observed.
    ///
    /// - Returns: Whether this has changed.
    mutating func list(_ entry: Entry) -> Bool {
        let isObserved = entry.state.isObserved
        guard isObserved != entry.isListed else { return false }
        entry.isListed = isObserved
        if isObserved { observed.insert(entry.key) } else { observed.remove(entry.key) }
        return true
    }

    /// Removes the least recently used entries, down to nine tenths of the limit.
    ///
    /// - Returns: The keys of the removed entries.
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
        // Entries in use cannot go: the next attempt comes when the size has grown by a tenth.
        evictAt = bytes > target ? bytes + limit / 10 : limit
        return evicted
    }
}
