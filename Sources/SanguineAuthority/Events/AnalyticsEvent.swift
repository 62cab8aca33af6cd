public import SanguineModel
import Synchronization

/// An event for analytics: a step in the life of an account.
///
/// It holds nothing personal: no name, no address of any kind, no device. Its receiver sees a keyed
/// hash instead of the account's id.
public struct AnalyticsEvent: Hashable, Codable, Sendable {
    /// The kind of an event.
    public enum Kind: String, Codable, Sendable, CaseIterable {
        /// A device created a guest.
        case accountCreated = "account.created"
        /// A guest became a registered account.
        case accountUpgraded = "account.upgraded"
        /// A guest was merged into an account.
        case accountMerged = "account.merged"
        /// The last unit of a quota was used and kept, for the rest of its period.
        case quotaExhausted = "quota.exhausted"
        /// A purchase was credited.
        case purchase = "purchase.credited"
        /// A purchase was refunded.
        case refund = "purchase.refunded"
        /// A refund was reversed.
        case refundReversed = "purchase.restored"
    }

    /// The id, which every delivery of the event has.
    public var id: Identifier
    /// The kind.
    public var kind: Kind
    /// The account.
    public var account: Identifier
    /// The time of the event.
    public var at: Timestamp
    /// Further facts, such as the quota's name; nothing personal.
    public var data: [String: JSONValue]
    /// The position in the order in which the events were decided.
    let position: String

    /// Creates an event.
    ///
    /// - Parameters:
    ///   - kind: The kind.
    ///   - account: The account.
    ///   - now: The time of the command that causes it.
    ///   - data: Further facts; nothing personal. Default: none.
    public init(
        _ kind: Kind,
        of account: Identifier,
        at now: Timestamp,
        data: [String: JSONValue] = [:]
    ) {
        id = Identifier(at: now)
        self.kind = kind
        self.account = account
        at = now
        self.data = data
        position = EventOrder.next(at: now)
    }
}

extension AnalyticsEvent: StoredDocument {
    static let kind = DocumentKind.event
    var documentID: String { "\(position)-\(id)" }
    /// The event outlives its account.
    var documentAccount: Identifier? { nil }
}

/// Numbers events so that the order of their document ids is that of their decisions.
///
/// Commands are decided one after the other, but several in one millisecond, and a wall clock may
/// be set back.
///
/// Mutable state: the last number, guarded by its mutex.
enum EventOrder {
    private static let last = Mutex<(milliseconds: Int64, count: Int64)>((0, 0))

    /// Returns a text that follows the previous one.
    static func next(at now: Timestamp) -> String {
        let (milliseconds, count) = last.withLock { last in
            let milliseconds = now.millisecondsSince1970
            last = milliseconds > last.milliseconds ? (milliseconds, 0) : (last.0, last.count + 1)
            return last
        }
        return padded(milliseconds, to: 15) + "-" + padded(count, to: 8)
    }

    private static func padded(_ number: Int64, to width: Int) -> String {
        let text = String(max(0, number))
        return String(repeating: "0", count: max(0, width - text.count)) + text
    }
}

extension Change {
    /// Stores an event for analytics in the same transaction.
    ///
    /// Nothing is stored unless the server delivers events.
    static func event(_ event: AnalyticsEvent) -> Change { .put(event) }

    fileprivate var isEvent: Bool {
        guard case .put(.document(let row)) = self else { return false }
        return row.kind == .event || row.kind == .quotaExhaustion
    }
}

extension Command {
    /// The command without the events that it stores.
    var withoutEvents: Command<Outcome> {
        let decide = decide
        var command = Command(
            keys: keys,
            surplus: surplus,
            reading: { loaded, reader throws(Problem) in
                var decision = try decide(loaded, reader)
                if decision.changes.contains(where: \.isEvent) {
                    decision.changes.removeAll(where: \.isEvent)
                }
                return decision
            }
        )
        command.isLong = isLong
        return command
    }
}
