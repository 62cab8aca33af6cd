import SanguineModel

/// Takes in what the feed carries beside records: it becomes the base of the entries that are about
/// it, so that what another device has spent, bought or consumed is shown without a request.
struct FeedCarrier: Sendable {
    /// The entries whose observers want the feed to be live.
    static let keys: Set<QueryKey> = [
        Query<Balance>.balance.key, Query<[Quota]>.quotas.key, Query<Account>.account.key,
    ]

    let balance: BalanceKeeper
    let partition: Partition
    // Weak: the cache holds the partition, and the partition the balance.
    weak let queries: QueryCache?

    /// A change of a collection that every account has.
    func take(_ change: RecordChange) {
        switch change.collection {
        case "$balance":
            if let value = decode(Balance.self, change) { balance.received(value) }
        case "$quotas":
            if let value = decode(Quota.self, change) { take(value) }
        case "$account":
            guard let value = decode(Account.self, change) else { return }
            queries?.set(value, for: .account, in: partition)
            // What a plan lifts is not said by the quotas themselves.
            queries?.invalidate(.quotas)
        default: break
        }
    }

    private func take(_ quota: Quota) {
        guard let queries, let (quotas, ground) = queries.base(of: .quotas),
            ground.partition === partition
        else { return }
        guard quotas.contains(where: { $0.name == quota.name }) else {
            return queries.invalidate(.quotas)
        }
        _ = queries.update(.quotas) { quotas in
            for place in quotas.indices where quotas[place].name == quota.name {
                quotas[place] = quota
            }
        }
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ change: RecordChange) -> Value? {
        change.value.flatMap { try? WireCoding.encode($0) }
            .flatMap { try? WireCoding.decode(type, from: $0) }
    }
}
