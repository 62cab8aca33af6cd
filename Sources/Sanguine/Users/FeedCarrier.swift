import SanguineModel
import Synchronization

/// Takes in what the feed carries beside records: it becomes the base of the entries that are about
/// it, so that what another device has spent, bought or consumed is shown without a request.
///
/// Mutable state: `newest`, by its mutex, held over nothing.
final class FeedCarrier: Sendable {
    /// The entries whose observers want the feed to be live.
    static let keys: Set<QueryKey> = [
        ValueQuery<Balance>.balance.key, ValueQuery<[Quota]>.quotas.key,
        ValueQuery<Account>.account.key,
    ]

    private let balance: BalanceKeeper
    private let partition: Partition
    // Weak: the cache holds the partition, and the partition the balance.
    private weak let queries: QueryCache?
    /// The number in the feed of what was taken in last; one for each quota, and two.
    ///
    /// A pull's answer may come after what the live feed has brought meanwhile.
    private let newest = Mutex(Newest())

    private struct Newest {
        var epoch: Epoch?
        var numbers: [RecordKey: Int64] = [:]

        /// Numbers of another epoch say nothing.
        mutating func enter(_ other: Epoch?) {
            guard let other, other != epoch else { return }
            if epoch != nil { numbers = [:] }
            epoch = other
        }
    }

    init(balance: BalanceKeeper, partition: Partition, queries: QueryCache) {
        (self.balance, self.partition, self.queries) = (balance, partition, queries)
    }

    /// A change of a collection that every account has; nothing if a later one was taken in.
    ///
    /// - Parameters:
    ///   - change: The change.
    ///   - isReset: Whether the feed has begun afresh: its numbers are not those of before.
    ///   - epoch: The epoch of its number; `nil` if the server did not say.
    func take(_ change: RecordChange, isReset: Bool = false, epoch: Epoch? = nil) {
        let isNew = newest.withLock { newest in
            let key = RecordKey(change.collection, change.id)
            newest.enter(epoch)
            guard isReset || change.seq >= newest.numbers[key, default: 0] else { return false }
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
        case "$account":
            guard let value = decode(Account.self, change) else { return }
            queries?.set(value, for: .account, in: partition)
            // What a plan lifts is not said by the quotas themselves.
            queries?.invalidate(.quotas)
        default: break
        }
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ change: RecordChange) -> Value? {
        change.value.flatMap { try? WireCoding.encode($0) }
            .flatMap { try? WireCoding.decode(type, from: $0) }
    }
}
