import SanguineModel

/// Decides whether a list that was read at some moment may be shown to an account.
///
/// Every commit that changes a collection which others may read gets a number. A read is as of the
/// last number before it began, so that it contains all commits up to that number.
///
/// Invariants:
/// 1. The number of a collection, and the one that an account has written, never decrease.
/// 2. At most twice ``accounts`` accounts are known by name; each other account is treated as if
///    it had made the last write of all the others.
struct CollectionVersions: Sendable {
    /// The number of accounts of a generation: 5,000.
    static let accounts = 5_000

    /// The number of the last commit.
    private(set) var last: UInt64 = 0
    /// The last commit whose changes are not known exactly.
    private var unknown: UInt64 = 0
    private var collections: [String: UInt64] = [:]
    /// The last commits that were announced to readers.
    private var announced: [String: UInt64] = [:]
    // Accounts that have written, the later ones in `recent`.
    private var recent: [Identifier: UInt64] = [:]
    private var earlier: [Identifier: UInt64] = [:]
    private var forgotten: UInt64 = 0

    /// Records a commit before any of its accounts receives the acknowledgement.
    mutating func committed(_ changed: Set<String>, by accounts: some Sequence<Identifier>) {
        guard !changed.isEmpty else { return }
        last += 1
        for name in changed { collections[name] = last }
        for account in accounts { know(account, last) }
    }

    /// Records all commits of the collections so far as announced.
    ///
    /// Call it before readers are notified.
    mutating func announce(_ changed: some Sequence<String>) {
        for name in changed { announced[name] = collections[name] }
    }

    /// Records that anything may have changed.
    mutating func anythingChanged() {
        last += 1
        unknown = last
    }

    /// Whether a read of a collection as of a number contains all commits.
    func isCurrent(_ asOf: UInt64, _ collection: String) -> Bool {
        asOf >= version(of: collection)
    }

    /// Whether a read of a collection as of a number contains everything that was acknowledged to
    /// the account or announced to readers.
    func isEnough(_ asOf: UInt64, _ collection: String, for account: Identifier) -> Bool {
        let known = max(written(by: account), announced[collection] ?? 0)
        return asOf >= min(version(of: collection), max(unknown, known))
    }

    private func version(of collection: String) -> UInt64 {
        max(collections[collection] ?? 0, unknown)
    }

    private func written(by account: Identifier) -> UInt64 {
        recent[account] ?? earlier[account] ?? forgotten
    }

    private mutating func know(_ account: Identifier, _ number: UInt64) {
        recent[account] = max(written(by: account), number)
        guard recent.count >= Self.accounts else { return }
        forgotten = earlier.values.reduce(forgotten, max)
        earlier = recent
        recent = [:]
    }
}
