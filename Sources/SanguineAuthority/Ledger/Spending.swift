import Foundation
public import SanguineModel

/// The amount that an account has spent in one day, and the limit of the account.
///
/// A day's amount counts spends, the amounts of holds placed on that day, and, once such a hold is
/// settled, its charge instead. A hold that is settled on a later day does not change that day: it
/// belongs to the day on which it was placed.
public struct Spending: Hashable, Sendable {
    /// The amount of one day of the account.
    public struct Period: Hashable, Sendable {
        /// The day in the account's calendar.
        public var day: CalendarDay
        /// The amount that counts towards the limit.
        public var used: Int64
        /// The end of the day, in the account's time zone at its beginning.
        public var resetsAt: Timestamp

        /// Creates a period.
        public init(day: CalendarDay, used: Int64, resetsAt: Timestamp) {
            self.day = day
            self.used = used
            self.resetsAt = resetsAt
        }
    }

    /// The limit of this account per day; `nil` for the server's.
    public var perDay: Int64?
    /// The latest period; `nil` before the first one.
    public var period: Period?

    /// Creates the state of an account that has spent nothing.
    public init(perDay: Int64? = nil, period: Period? = nil) {
        self.perDay = perDay
        self.period = period
    }
}

/// The rules for a command that spends: the server's limit, and the account's calendar.
struct SpendingRules: Sendable {
    /// The largest distance to the end of a period, as for quotas.
    private static let longestPeriod: Duration = .seconds(48 * 3_600)

    /// The server's limit per day; `nil` for none.
    let perDay: Int64?
    /// The zone of the account; ignored without a limit.
    let zone: TimeZone
    let now: Timestamp

    /// Counts an amount towards the limit.
    ///
    /// - Returns: The day on which it counts; `nil` without a limit.
    /// - Throws: `spending_limit_reached`.
    func count(_ amount: Int64, in spending: inout Spending) throws(Problem) -> CalendarDay? {
        guard let limit = spending.perDay ?? perDay else { return nil }
        var period = current(spending.period)
        guard period.used <= limit - amount else { throw exceeded(amount, limit, period) }
        period.used += amount
        spending.period = period
        return period.day
    }

    /// Returns the stored period, or a new one if the stored one is over.
    ///
    /// As for quotas, a new one begins only when both the old one's end has passed and the account
    /// has a later day, so that another time zone never grants a second limit.
    private func current(_ period: Spending.Period?) -> Spending.Period {
        let today = CalendarDay(containing: now, in: zone)
        if let period, period.resetsAt <= now + Self.longestPeriod,
            now < period.resetsAt || today <= period.day
        {
            return period
        }
        return Spending.Period(
            day: today,
            used: 0,
            resetsAt: CalendarDay.nextMidnight(after: now, in: zone)
        )
    }

    private func exceeded(_ amount: Int64, _ limit: Int64, _ period: Spending.Period) -> Problem {
        let resetsAt = max(period.resetsAt, period.day.next.start(in: zone))
        var problem = Problem(
            .spendingLimitReached,
            amount > limit
                ? "Use a smaller amount: the account may spend \(limit) per day."
                : """
                Wait until 'resetsAt', or use at most \(max(0, limit - period.used)): the account \
                may spend \(limit) per day.
                """,
            retryAfter: max(1, (resetsAt - now).secondsRoundedUp)
        )
        problem.required = amount
        problem.resetsAt = resetsAt
        return problem
    }
}

extension Spending {
    /// Adds the amount of the same day, or replaces the period by a later one.
    ///
    /// The settlement of an open hold lowers the amount by the part that is not charged. If only
    /// the larger amount counted, a hold of one side would return what the other side has spent.
    mutating func merge(_ other: Spending) {
        guard let theirs = other.period else { return }
        guard var period, period.day >= theirs.day else {
            period = theirs
            return
        }
        if period.day == theirs.day { period.used += theirs.used }
        self.period = period
    }

    /// Replaces the counted amount of a hold by its charge.
    mutating func settle(_ hold: HoldRow, charged: Int64) {
        guard var period, period.day == hold.spentOn else { return }
        period.used = max(0, period.used - (hold.amount - charged))
        self.period = period
    }
}

extension Loaded {
    /// Returns the rules for a command that spends; the account must have been requested.
    func spendingRules(
        _ perDay: Int64?,
        of account: Identifier,
        now: Timestamp
    ) -> SpendingRules {
        SpendingRules(perDay: perDay, zone: self.account(account)?.profile.zone ?? .gmt, now: now)
    }
}
