import SanguineModel
import Synchronization

/// Applies the feed's changes of the balance, the quotas and the account to the cache.
///
/// A change becomes the base of the entry it belongs to, so that tokens another device has spent,
/// bought or consumed are shown without a request.
///
/// Mutable state: `newest`, protected by its mutex; no call is made while it is held.
final class FeedCacheUpdater: Sendable {
    /// The entries whose observers need the live feed.
    static let keys: Set<QueryKey> = [
        ValueQuery<Balance>.balance.key, ValueQuery<[Quota]>.quotas.key,
        ValueQuery<Account>.account.key,
    ]

    private static let accountCollection = "$account"

    private let balance: BalanceKeeper
    private let cacheScope: CacheScope
    // Weak: the cache holds the cache scope, and the cache scope the balance.
    private weak let queries: QueryCache?
    /// The feed numbers of the newest changes: one for each quota, the balance and the account.
    ///
    /// The answer to a pull may arrive after newer changes of the live feed.
    private let newest = Mutex(Newest())

    private struct Newest {
        var epoch: Epoch?
        var numbers: [RecordKey: Int64] = [:]
        /// The number of this device's last change of the account.
        var ownChange: Int64 = 0

        /// Discards the numbers of an earlier epoch: they cannot be compared.
        mutating func enter(_ other: Epoch?) {
            guard let other, other != epoch else { return }
            if epoch != nil { (numbers, ownChange) = ([:], 0) }
            epoch = other
        }
    }

    private let schema: RecordSchema
    private let switches: SwitchBoard?

    init(
        balance: BalanceKeeper,
        cacheScope: CacheScope,
        queries: QueryCache,
        schema: RecordSchema = .standard,
        switches: SwitchBoard? = nil
    ) {
        (self.balance, self.cacheScope, self.queries) = (balance, cacheScope, queries)
        (self.schema, self.switches) = (schema, switches)
    }

    /// Marks the published lists and lookups of collections as stale, and those of the records
    /// that count them.
    func invalidateLists(of collections: Set<String>) {
        let counted = collections.flatMap { schema.collection($0)?.counts ?? [] }
        for name in collections.union(counted.map(\.collection)).sorted() where isPublished(name) {
            queries?.invalidate(.dependency(PublishedRecords.dependency(name)))
        }
    }

    /// The published lists that are shown, for the live connection.
    var publishedLists: PublishedLists {
        PublishedLists(
            shown: { [weak queries] in queries?.observedCollections ?? [] },
            changed: { [weak self] in self?.invalidateLists(of: $0) }
        )
    }

    /// Whether lists that the server makes depend on the collection: those of all users' records,
    /// and timelines.
    private func isPublished(_ name: String) -> Bool {
        guard let collection = schema.collection(name) else { return false }
        return collection.access != .owner || !schema.followedMembers(of: name).isEmpty
    }

    /// Applies a change of the balance, a quota or the account, unless a later one was applied.
    ///
    /// - Parameters:
    ///   - change: The change.
    ///   - isReset: Whether the feed has started over, so that earlier numbers no longer apply.
    ///   - epoch: The epoch of its number; `nil` if the server did not name one.
    func apply(_ change: RecordChange, isReset: Bool = false, epoch: Epoch? = nil) {
        guard change.collection != Switches.collection else {
            // They have a number of their own, because they are the same in all feeds.
            if let value = change.value { switches?.receive(value, isReset: isReset, of: epoch) }
            return
        }
        let isNew = newest.withLock { newest in
            let key = RecordKey(change.collection, change.id)
            newest.enter(epoch)
            var known = newest.numbers[key, default: 0]
            if change.collection == Self.accountCollection { known = max(known, newest.ownChange) }
            guard isReset || change.seq >= known else { return false }
            newest.numbers[key] = change.seq
            return true
        }
        guard isNew else { return }
        switch change.collection {
        case "$balance":
            if let value = decode(Balance.self, change) { balance.received(value, epoch) }
        case "$quotas":
            if let value = decode(Quota.self, change),
                !balance.received(value, head: change.seq, epoch)
            {
                queries?.invalidate(.quotas)
            }
        case Self.accountCollection:
            guard let value = decode(Account.self, change) else { return }
            queries?.set(value, for: .account, in: cacheScope)
            // The quotas do not contain the amounts that a plan raises.
            queries?.invalidate(.quotas)
        default: break
        }
    }

    /// Shows the balance and the plan after a purchase, as the feed will.
    func purchased(_ purchase: CreditedPurchase) {
        let (answer, mark) = (purchase.answer, purchase.mark)
        balance.received(answer.balance, mark.epoch)
        let isNewest = newest.withLock { newest in
            newest.enter(mark.epoch)
            let key = newest.numbers.keys.first { $0.collection == Self.accountCollection }
            return key.flatMap { newest.numbers[$0] } ?? 0 <= mark.number
        }
        guard isNewest, let queries, var account = queries.snapshot(of: .account).value,
            account.plan != answer.plan
        else { return }
        account.plan = answer.plan
        changedAccount(at: mark)
        queries.set(account, for: .account, in: cacheScope)
        queries.invalidate(.quotas)
    }

    /// Forgets the numbers of a guest's feed, which another account's feed replaces.
    func forgetNumbers() { newest.withLock { $0 = Newest() } }

    /// Records that the account contains a change of this device from a number on: an earlier state
    /// that arrives later must not hide it again.
    func changedAccount(at mark: FeedMark) {
        newest.withLock { newest in
            newest.enter(mark.epoch)
            newest.ownChange = max(newest.ownChange, mark.number)
        }
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ change: RecordChange) -> Value? {
        change.value.flatMap { try? WireCoding.encode($0) }
            .flatMap { try? WireCoding.decode(type, from: $0) }
    }
}
