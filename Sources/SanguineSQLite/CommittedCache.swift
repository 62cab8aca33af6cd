import SanguineAuthority
import SanguineModel
import Synchronization

/// The committed profiles and balances of recently used accounts.
///
/// Invariants:
/// 1. A cached row is the newest committed one at every moment. The writer removes the rows that it
///    changed before it commits, and adds the new ones afterwards, so that no reader finds the old
///    value here after another reader has seen the new one in the database.
/// 2. All rows that are cached at one moment belong to one snapshot. This follows from 1.
/// 3. A reader that fetched a row adds it only if no commit of the account began or ended since
///    before the read. See ``Ticket``.
/// 4. The cache contains at most `capacity` accounts.
///
/// Mutable state: one `State`, guarded by its mutex, because loading a cached row must not suspend.
final class CommittedCache: Sendable {
    /// The rows that a transaction changed; a deleted row is `nil`.
    struct Draft {
        var accounts: [Identifier: AccountRow?] = [:]
        var balances: [Identifier: BalanceRow?] = [:]

        var isEmpty: Bool { accounts.isEmpty && balances.isEmpty }

        mutating func record(_ change: Change) {
            switch change {
            case .put(.account(let row)): accounts.updateValue(row, forKey: row.id)
            case .put(.balance(let row)): balances.updateValue(row, forKey: row.account)
            case .delete(.account(let id)): accounts.updateValue(nil, forKey: id)
            case .delete(.balance(let id)): balances.updateValue(nil, forKey: id)
            default: break
            }
        }
    }

    /// Permission to cache a row that is about to be read, unless a commit intervenes.
    struct Ticket {
        fileprivate let account: Identifier
        fileprivate let count: UInt64
    }

    fileprivate struct Slot {
        var id: Identifier
        var account: AccountRow?
        var balance: BalanceRow?
        /// Whether the slot was used since it was filled and since the hand last passed.
        var wasUsed = false
    }

    fileprivate struct State {
        var slots: [Slot] = []
        var index: [Identifier: Int] = [:]
        /// The next candidate for eviction by the clock algorithm, an LRU with cheap reads.
        var hand = 0
        /// Accounts whose change is being committed.
        var committing: Set<Identifier> = []
        /// The number of commits that began or ended, by stripe of the account.
        var stripes = [UInt64](repeating: 0, count: 1_024)
    }

    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    // MARK: - Readers

    /// Returns the rows with these keys, or `nil` unless all of them are cached.
    func loaded(_ keys: [Key]) -> Loaded? {
        state.withLock { state in
            var loaded = Loaded()
            for key in keys {
                guard let row = state.row(key) else { return nil }
                loaded.add(row)
            }
            return loaded
        }
    }

    /// Returns tickets for the accounts of these keys.
    ///
    /// Call this before the snapshot begins.
    func tickets(for keys: [Key]) -> [Ticket] {
        state.withLock { state in
            keys.compactMap { key in
                guard let account = key.cachedAccount, !state.committing.contains(account) else {
                    return nil
                }
                return Ticket(account: account, count: state.stripes[State.stripe(of: account)])
            }
        }
    }

    /// Caches rows that were read after the tickets were issued.
    func fill(_ rows: [Row], with tickets: [Ticket]) {
        state.withLock { state in
            for row in rows {
                guard let account = row.key.cachedAccount,
                    let ticket = tickets.first(where: { $0.account == account }),
                    ticket.count == state.stripes[State.stripe(of: account)]
                else { continue }
                state.put(row, capacity: capacity)
            }
        }
    }

    // MARK: - Writer

    /// Returns the row if it is cached.
    func row(_ key: Key) -> Row? {
        state.withLock { $0.row(key) }
    }

    /// Caches a row that the writer read and did not change; only the writer could have changed it.
    func fill(_ row: Row) {
        guard row.key.cachedAccount != nil else { return }
        state.withLock { $0.put(row, capacity: capacity) }
    }

    /// Removes the rows that are about to change.
    ///
    /// Readers use the database until the commit ends.
    func commitBegins(_ draft: Draft) {
        state.withLock { state in
            for id in draft.accounts.keys {
                state.begin(id)
                if let slot = state.index[id] { state.slots[slot].account = nil }
            }
            for id in draft.balances.keys {
                state.begin(id)
                if let slot = state.index[id] { state.slots[slot].balance = nil }
            }
        }
    }

    /// Caches the committed rows.
    ///
    /// After a failed commit none are cached, so that readers use the database.
    func commitEnded(_ draft: Draft, committed: Bool) {
        state.withLock { state in
            for (id, row) in draft.accounts {
                state.end(id)
                if committed, let row { state.put(.account(row), capacity: capacity) }
            }
            for (id, row) in draft.balances {
                state.end(id)
                if committed, let row { state.put(.balance(row), capacity: capacity) }
            }
            state.committing.removeAll(keepingCapacity: true)
        }
    }

    /// The number of cached accounts.
    var count: Int { state.withLock { $0.slots.count } }
}

extension CommittedCache.State {
    static func stripe(of account: Identifier) -> Int { account.hashValue & 1_023 }

    mutating func row(_ key: Key) -> Row? {
        guard let id = key.cachedAccount, let slot = index[id] else { return nil }
        slots[slot].wasUsed = true
        return switch key {
        case .account: slots[slot].account.map(Row.account)
        case .balance: slots[slot].balance.map(Row.balance)
        default: nil
        }
    }

    mutating func put(_ row: Row, capacity: Int) {
        guard let id = row.key.cachedAccount else { return }
        let known = index[id]
        let slot = known ?? makeSlot(for: id, capacity: capacity)
        slots[slot].wasUsed = known != nil
        switch row {
        case .account(let row): slots[slot].account = row
        case .balance(let row): slots[slot].balance = row
        default: break
        }
        assert(slots.count <= capacity && index.count == slots.count)
    }

    private mutating func makeSlot(for id: Identifier, capacity: Int) -> Int {
        if slots.count < capacity {
            slots.append(CommittedCache.Slot(id: id))
            index[id] = slots.count - 1
            return slots.count - 1
        }
        while slots[hand].wasUsed {
            slots[hand].wasUsed = false
            hand = (hand + 1) % capacity
        }
        let slot = hand
        hand = (hand + 1) % capacity
        index[slots[slot].id] = nil
        slots[slot] = CommittedCache.Slot(id: id)
        index[id] = slot
        return slot
    }

    mutating func begin(_ account: Identifier) {
        committing.insert(account)
        stripes[Self.stripe(of: account)] += 1
    }

    mutating func end(_ account: Identifier) {
        stripes[Self.stripe(of: account)] += 1
    }
}

extension Key {
    /// The account, if rows of this kind are cached.
    fileprivate var cachedAccount: Identifier? {
        switch self {
        case .account(let id), .balance(let id): id
        default: nil
        }
    }
}
