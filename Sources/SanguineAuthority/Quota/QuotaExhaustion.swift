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
    var documentExpiry: Timestamp? { resetsAt + .seconds(86_400) }

    /// The key of the record of an account's quota.
    static func key(_ account: Identifier, _ quota: String) -> Key { key(id(account, quota)) }

    static func id(_ account: Identifier, _ quota: String) -> String {
        let name = quota.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        return "\(account) \(name)"
    }
}

extension QuotaCommands {
    /// Returns the event of a period whose units are all used, once; empty if some are left, or if
    /// it was reported before.
    ///
    /// Called when units are kept, not when they are held: a call that fails gives its units back.
    /// The units of other calls that still run count as used.
    func exhaustion(
        of period: QuotaRow?,
        _ profile: Account?,
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        guard let period, let profile, let limit = limits[period.name]?.limit(of: profile.plan),
            period.used >= limit
        else { return [] }
        let id = QuotaExhaustion.id(period.account, period.name)
        let known = try loaded.document(QuotaExhaustion.self, id)
        guard known?.day != period.day else { return [] }
        let data: [String: JSONValue] = ["quota": .string(period.name), "limit": .integer(limit)]
        let event = AnalyticsEvent(.quotaExhausted, of: profile.id, at: now, data: data)
        return [.put(QuotaExhaustion(period)), .event(event)]
    }
}
