public import SanguineModel

/// The limit of a quota, its period, and the plans that lift or raise it.
///
/// A whole number stands for a limit per day that `premium` lifts:
///
/// ```swift
/// settings.quotas = ["readings": 3, "letters": QuotaRule(limit: 10, period: .month)]
/// ```
public struct QuotaRule: Hashable, Sendable {
    /// The span of time for which a limit holds, in the account's time zone.
    public typealias Period = Quota.Period

    /// The units that a period allows.
    public var limit: Int64
    /// The span of time for which the limit holds.
    public var period: Period
    /// The limits of plans for which another one holds; `nil` for no limit.
    ///
    /// Plans that are not listed have ``limit``.
    public var plans: [Account.Plan: Int64?]

    /// Creates a rule.
    ///
    /// - Parameters:
    ///   - limit: The units that a period allows.
    ///   - period: The span of time. Default: a day.
    ///   - plans: The limits of plans for which another one holds; `nil` for no limit. Default: no
    ///     limit for `premium`.
    public init(
        limit: Int64,
        period: Period = .day,
        plans: [Account.Plan: Int64?] = [.premium: nil]
    ) {
        self.limit = limit
        self.period = period
        self.plans = plans
    }

    /// Returns the limit of a plan; `nil` for no limit.
    func limit(of plan: Account.Plan) -> Int64? {
        guard let own = plans[plan] else { return limit }
        return own
    }

    /// The plans with more units than a plan has, ordered by name.
    func plans(above plan: Account.Plan) -> [String] {
        guard let limit = limit(of: plan) else { return [] }
        return plans.filter { $0.key != plan && $0.value.map { $0 > limit } ?? true }
            .map(\.key.rawValue).sorted()
    }

    /// The units per day, rounded up.
    var perDay: Int64 {
        let days: Int64 =
            switch period {
            case .day: 1
            case .week: 7
            case .month: 31
            }
        return limit / days + (limit % days > 0 ? 1 : 0)
    }
}

extension QuotaRule: ExpressibleByIntegerLiteral {
    /// Creates a limit per day that `premium` lifts.
    public init(integerLiteral value: Int64) { self.init(limit: value) }
}

extension QuotaRule.Period {
    /// The largest distance to the end of a period: a day more than it lasts, so that a clock that
    /// is set back by a day does not grant a second quota.
    var longest: Duration {
        switch self {
        case .day: .seconds(48 * 3_600)
        case .week: .seconds(8 * 86_400)
        case .month: .seconds(32 * 86_400)
        }
    }
}
