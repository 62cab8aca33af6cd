import SanguineModel

/// A thread that its user has deleted: a call must not begin it again.
struct DeletedThread: StoredDocument, Hashable {
    static let kind = DocumentKind.deletedThread
    /// The time for which the deletion is remembered.
    static let kept = Duration.seconds(90 * 86_400)

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
