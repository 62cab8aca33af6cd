import SanguineModel

/// The progress of the removal of an account, from the commit that ended all access.
struct Removal: StoredDocument, Hashable {
    static let kind = DocumentKind.removal

    var account: Identifier
    /// The time at which all access ended.
    var startedAt: Timestamp
    /// The number of rows that were removed.
    var removed = 0
    /// The time at which nothing was left; `nil` until then.
    var finishedAt: Timestamp?
    /// The guests of the account whose rows remain to be removed; `nil` for none.
    var aliases: [Identifier]?

    /// The id of the document of an unfinished removal, which follows those of finished ones.
    static func openID(_ account: Identifier) -> String { "open \(account)" }
    static func doneID(_ account: Identifier) -> String { "done \(account)" }

    /// The time for which the document of a finished removal is kept: 30 days.
    static let kept = Duration.seconds(30 * 86_400)
    /// The time after the first commit before which a removal does not finish, so that every
    /// request that was admitted before has ended: 60 s.
    static let quietTime = Duration.seconds(60)
    /// The number of rows that one step reads and removes, in one transaction.
    static let stepRows = 100
    /// The number of rows of one step that may be large, such as answers.
    static let stepAnswers = 20
    /// The size of records after which a step reads no further one.
    static let stepBytes = 1 << 20
    /// The number of guests in ``aliases``.
    static let aliasesLimit = 100

    var documentID: String { finishedAt == nil ? Self.openID(account) : Self.doneID(account) }
    // Not the account's, so that the removal does not remove it.
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { finishedAt.map { $0 + Self.kept } }

    var status: RemovalStatus {
        RemovalStatus(
            account: account,
            state: finishedAt == nil ? .running : .done,
            startedAt: startedAt,
            removed: removed
        )
    }
}
