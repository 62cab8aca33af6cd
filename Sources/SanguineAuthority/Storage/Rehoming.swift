public import SanguineModel

/// The move of rows from a merged guest to its account, by a driver, without reading them.
///
/// It moves:
/// - all devices of the guest, with ``DeviceRow/closed``: only the device that merges keeps its
///   access, by a change of its own;
/// - the operations of the guest, except for those whose key the account has used as well, which
///   remain as they are. The feed number of each operation that has one becomes ``head``, at which
///   the account's feed contains its changes;
/// - the cached answers of the guest, except for those that the account has as well, which are
///   removed.
public struct Rehoming: Hashable, Sendable {
    /// The guest.
    public var guest: Identifier
    /// The account.
    public var account: Identifier
    /// The number in the account's feed at which it contains everything of the guest.
    public var head: Int64

    /// Creates the move.
    public init(of guest: Identifier, to account: Identifier, head: Int64) {
        self.guest = guest
        self.account = account
        self.head = head
    }
}

/// The rows of an account that are found by their owner.
public struct OwnedRows: Hashable, Sendable {
    /// The account's files, in any order.
    public var blobs: [BlobRow] = []
    /// The account's open holds, in any order.
    public var openHolds: [HoldRow] = []
    /// The account's sessions that have not ended, in any order.
    public var sessions: [SessionRow] = []
    /// The account's documents of all kinds, in any order.
    public var documents: [DocumentRow] = []
    /// The keys of the account's running operations, in any order.
    public var runningKeys: [String] = []

    /// Creates an empty set.
    public init() {}
}

extension OperationRow {
    /// Returns the operation as one of the account, with changes that its feed contains at `head`.
    func rehomed(to account: Identifier, head: Int64) -> OperationRow {
        var row = self
        row.account = account
        switch state {
        case .done(var answer) where answer.head != nil:
            answer.head = head
            row.state = .done(answer)
        case .pushed(_, let refusal):
            row.state = .pushed(head: head, refusal: refusal)
        case .running, .done, .forgotten: break
        }
        return row
    }
}

extension ResultRow {
    /// The number of bytes of a key before the account.
    public static let questionBytes = 32

    /// Returns the answer as one of the account.
    func rehomed(to account: Identifier) -> ResultRow {
        var row = self
        row.key = key.prefix(Self.questionBytes) + account.bytes
        row.account = account
        return row
    }
}
