import Foundation
import SanguineModel

/// The record that the exhaustion of a quota was reported, so that it is reported once per period.
struct QuotaExhaustion: StoredDocument {
    static let kind = DocumentKind.quotaExhaustion

    /// The account.
    var account: Identifier
    /// The name of the quota.
    var quota: String
    /// The first day of the period.
    var day: CalendarDay
    /// The end of the period, after which the record is not needed.
    var resetsAt: Timestamp

    init(_ period: QuotaRow) {
        (account, quota) = (period.account, period.name)
        (day, resetsAt) = (period.day, period.resetsAt)
    }

    var documentID: String { Self.id(account, quota) }
    var documentAccount: Identifier? { account }
    /// After the last moment of the period: one that began at the date line's eastern side ends up
    /// to 26 hours later on its western side.
    var documentExpiry: Timestamp? { resetsAt + .seconds(2 * 86_400) }

    /// The key of the record of an account's quota.
    static func key(_ account: Identifier, _ quota: String) -> Key { key(id(account, quota)) }

    static func id(_ account: Identifier, _ quota: String) -> String {
        let name = quota.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        return "\(account) \(name)"
    }
}

extension QuotaExhaustion {
    /// Returns whether one of the documents reports the exhaustion of the period.
    static func isReported(_ period: QuotaRow, in documents: [DocumentRow]) -> Bool {
        let id = id(period.account, period.name)
        return documents.contains { row in
            guard row.kind == kind, row.id == id, let known = try? Self(row) else { return false }
            return known.day == period.day
        }
    }
}

extension QuotaCommands {
    /// Returns the event of a period whose units are all used, once; empty if some are left, or if
    /// it was reported before.
    ///
    /// Units that open holds may return are left. So the event belongs to the command that keeps
    /// the last unit.
    func exhaustion(
        of period: QuotaRow?,
        _ profile: Account?,
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        guard let period, let profile else { return [] }
        let id = QuotaExhaustion.id(period.account, period.name)
        let known = try loaded.document(QuotaExhaustion.self, id)
        guard known?.day != period.day else { return [] }
        return exhaustion(of: period, profile)
    }

    /// Returns the event of a period that was not reported before; empty if units are left.
    private func exhaustion(of period: QuotaRow, _ profile: Account) -> [Change] {
        guard let limit = limits[period.name]?.limit(of: profile.plan),
            period.used - period.held >= limit
        else { return [] }
        let data: [String: JSONValue] = ["quota": .string(period.name), "limit": .integer(limit)]
        let event = AnalyticsEvent(.quotaExhausted, of: profile.id, at: now, data: data)
        return [.put(QuotaExhaustion(period)), .event(event)]
    }

    /// Returns the event of an account's period after a merge.
    ///
    /// The larger use of both sides counts, so the report of either one is that of the account.
    ///
    /// - Parameters:
    ///   - period: The account's period after the merge.
    ///   - profile: The account.
    ///   - isReported: Whether the exhaustion of the account's period before the merge was
    ///     reported.
    ///   - isGuestReported: Whether that of the guest's period was reported.
    /// - Returns: The event, or only the record of the guest's one; empty if there is neither.
    func exhaustion(
        merged period: QuotaRow,
        _ profile: Account,
        isReported: Bool,
        isGuestReported: Bool
    ) -> [Change] {
        if isReported { return [] }
        return isGuestReported ? [.put(QuotaExhaustion(period))] : exhaustion(of: period, profile)
    }
}
