import Crypto
public import SanguineModel

/// An entry of the audit log: one act of an administrator.
///
/// The entries form a chain, because each one contains the hash of the entry before it: an entry
/// that is changed, inserted or removed later breaks the chain. Entries are append-only.
public struct AuditRow: Hashable, Sendable {
    /// The position in the log: 1 for the first entry, without gaps.
    public var number: Int64
    /// The ``hash`` of the entry before; 32 zeros for the first entry.
    public var previous: [UInt8]
    /// The time of the action.
    public var at: Timestamp
    /// The name of the admin token.
    public var actor: String
    /// The role of the admin token.
    public var role: String
    /// The action, such as `account.grant`.
    public var action: String
    /// The account that the action concerns; `nil` if it concerns none.
    public var account: Identifier?
    /// The reason that the administrator gave.
    public var reason: String
    /// `done`, or the code of the problem with which the action was refused.
    public var outcome: String
    /// The details, such as the amount; `nil` if the action has none, and in entries of earlier
    /// versions.
    public var detail: String?

    /// Creates the entry.
    public init(
        number: Int64,
        previous: [UInt8],
        at: Timestamp,
        actor: String,
        role: String,
        action: String,
        account: Identifier?,
        reason: String,
        outcome: String,
        detail: String? = nil
    ) {
        self.number = number
        self.previous = previous
        self.at = at
        self.actor = actor
        self.role = role
        self.action = action
        self.account = account
        self.reason = reason
        self.outcome = outcome
        self.detail = detail
    }

    /// The ``previous`` of the first entry.
    public static let noHash = [UInt8](repeating: 0, count: 32)

    /// The SHA-256 of all members.
    public var hash: [UInt8] {
        var sum = SHA256()
        func add(_ bytes: [UInt8]) {
            // The length comes first, so that no two entries have equal content.
            sum.update(data: Self.bytes(Int64(bytes.count)))
            sum.update(data: bytes)
        }
        add(Self.bytes(number))
        add(previous)
        add(Self.bytes(at.millisecondsSince1970))
        add(account?.bytes ?? [])
        for text in [actor, role, action, reason, outcome] { add(Array(text.utf8)) }
        // Entries of earlier versions have no detail, and keep their hash.
        if let detail { add(Array(detail.utf8)) }
        return Array(sum.finalize())
    }

    private static func bytes(_ number: Int64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    }
}

/// Checks the chain of an audit log, entry by entry.
public struct AuditChain: Sendable {
    /// The number of entries so far.
    public private(set) var count: Int64 = 0
    /// The first fault, in a sentence; `nil` if there is none.
    public private(set) var finding: String?
    private var previous = AuditRow.noHash

    /// Creates a check of an empty log.
    public init() {}

    /// Adds the next entry, in the order of the numbers.
    public mutating func add(_ row: AuditRow) {
        count += 1
        defer { previous = row.hash }
        guard finding == nil else { return }
        if row.number != count {
            finding = "entry \(count) of the audit log is missing"
        } else if row.previous != previous {
            finding = "entry \(count) of the audit log does not contain the hash of the one before"
        }
    }
}
