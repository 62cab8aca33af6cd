import SanguineModel

/// A thread that its user has deleted: a call must not begin it again.
///
/// A device sends a call within minutes, or when its suspended process continues. So a deletion is
/// remembered for at least ``leastKept``, in which every such call arrives and is refused. It is
/// forgotten after ``kept``, or earlier if the account has more than ``number`` of them. Only a
/// call that arrives even later begins the thread again.
struct DeletedThread: StoredDocument, Hashable {
    static let kind = DocumentKind.deletedThread
    /// The time after which a deletion is forgotten: 90 days.
    static let kept = Duration.seconds(90 * 86_400)
    /// The time for which a deletion is remembered in any case: 7 days.
    static let leastKept = Duration.seconds(7 * 86_400)
    /// The number of deletions of an account above which those that are older than ``leastKept``
    /// are forgotten: 1,000.
    static let number = 1_000
    /// The number of deletions above ``number`` that one step forgets.
    static let forgottenAtOnce = 256

    let account: Identifier
    let thread: RecordID
    let at: Timestamp

    var documentID: String { Self.id(account, thread) }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { at + Self.kept }

    static func id(_ account: Identifier, _ thread: RecordID) -> String { "\(account) \(thread)" }
}

/// A deleted thread whose messages remain to be removed.
struct ThreadRemoval: StoredDocument, Hashable {
    static let kind = DocumentKind.threadRemoval

    let account: Identifier
    let thread: RecordID

    var documentID: String { DeletedThread.id(account, thread) }
    var documentAccount: Identifier? { account }
}
