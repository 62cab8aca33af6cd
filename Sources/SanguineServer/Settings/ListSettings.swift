import SanguineAuthority
import SanguineModel

extension QuotaSetting {
    /// The members of a quota in the file: `quotas.<name>.<member>`.
    ///
    /// `quotas.<name>` with a number stands for a limit per day.
    public enum Field: String, CaseIterable, Sendable {
        /// The units of a period; required.
        case limit
        /// The period: `day`, `week` or `month`. Default: `day`.
        case period
        /// The plans without a limit: `premium` or `none`. Default: `premium`.
        case lifts
        /// The units of a period for `premium`. Default: none, see ``lifts``.
        case premium

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .limit, .premium: QuotaSetting.allowed
            case .period: QuotaRule.Period.allCases.map(\.rawValue).joined(separator: ", ")
            case .lifts: "premium, none"
            }
        }

        static let units = 0...1_000_000_000

        static func problems(in quota: QuotaSetting) -> [SettingsError.Problem] {
            var problems: [SettingsError.Problem] = []
            func check(_ units: Int?, _ setting: String) {
                guard let units, !Self.units.contains(units) else { return }
                problems.append(
                    .invalid(
                        setting: setting,
                        value: String(units),
                        allowed: QuotaSetting.allowed,
                        source: "settings"
                    )
                )
            }
            check(quota.perPeriod, "quotas.\(quota.name)")
            check(quota.premium, "quotas.\(quota.name).premium")
            return problems
        }
    }

    /// Reads a quota from the file; `nil` if the text is not a number.
    public init?(name: String, text: String) {
        guard let perDay = Int(text) else { return nil }
        self.init(name: name, perDay: perDay)
    }

    /// Reads a quota with members from the file.
    ///
    /// - Throws: `SettingsError` for members with invalid values.
    public init(
        name: String,
        members: [Field: String],
        source: String
    ) throws(SettingsError) {
        var problems: [SettingsError.Problem] = []
        func refuse(_ field: Field) {
            problems.append(
                .invalid(
                    setting: "quotas.\(name).\(field.rawValue)",
                    value: members[field] ?? "",
                    allowed: field.allowed,
                    source: source
                )
            )
        }
        let limit = members[.limit].flatMap { Int($0) }
        if limit == nil { refuse(.limit) }
        let period = QuotaRule.Period(rawValue: members[.period] ?? "day")
        if period == nil { refuse(.period) }
        let premium = members[.premium].flatMap { Int($0) }
        if members[.premium] != nil, premium == nil { refuse(.premium) }
        let lifts = members[.lifts] ?? (premium == nil ? "premium" : "none")
        if !["none", "premium"].contains(lifts) || (premium != nil && lifts == "premium") {
            refuse(.lifts)
        }
        guard problems.isEmpty, let limit, let period else { throw SettingsError(problems) }
        self.init(
            name: name,
            limit: limit,
            period: period,
            isLifted: lifts == "premium",
            premium: premium
        )
    }

    /// The setting in the form of the file: the members by name, or a number under an empty name.
    public var texts: [(field: String, text: String)] {
        if self == QuotaSetting(name: name, perDay: perPeriod) { return [("", "\(perPeriod)")] }
        var texts = [("limit", "\(perPeriod)"), ("period", period.rawValue)]
        texts.append(("lifts", isLifted ? "premium" : "none"))
        if let premium { texts.append(("premium", "\(premium)")) }
        return texts
    }

    /// The rule of the authority.
    var rule: QuotaRule {
        var plans: [Account.Plan: Int64?] = [:]
        if isLifted { plans[.premium] = .some(nil) }
        if let premium { plans[.premium] = Int64(premium) }
        return QuotaRule(limit: Int64(perPeriod), period: period, plans: plans)
    }

    /// A description of the values that ``init(name:text:)`` accepts.
    public static var allowed: String { "a whole number from 0 to 1000000000" }
}
