import Foundation
import SanguineModel

/// Daily quotas: periods and their use.
///
/// A period belongs to one day of the user's calendar. A new one begins only when *both* the end of
/// the old one has passed, in the zone that the account had at its beginning, *and* the account's
/// zone shows a later day. So travelling, or setting another zone, never grants a second quota for
/// one day, and no span of time has more periods than dates.
struct QuotaCommands: Sendable {
    /// The largest distance to the end of a period: two days, so that a clock that is set back by a
    /// day does not grant a second quota.
    private static let longestPeriod: Duration = .seconds(48 * 3_600)

    let limits: [String: Int64]
    let now: Timestamp

    func consume(
        _ name: String,
        _ account: Identifier,
        _ submission: Submission<ConsumeRequest>
    ) -> Command<Answer> {
        let keys: [Key] = [
            .account(account), .balance(account), .quota(account, name: name),
            .operation(account, key: submission.key),
        ]
        return Command(keys: keys) { loaded throws(Problem) in
            guard let profile = loaded.account(account)?.profile,
                var feed = loaded.balance(account)
            else { throw .noAccount }
            guard let limit = limits[name] else { throw .noQuota }
            let row = loaded.operation(account, key: submission.key)
            if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                return Decision(Answer(answer, replayed: true))
            }
            let amount = try submission.content.get().amount ?? 1
            try Amounts.check(amount)

            var period = try taken(amount, name, of: profile, loaded.quota(account, name: name))
            feed.head += 1
            period.seq = feed.head
            let answer = StoredAnswer(
                status: 200,
                body: ResponseEncoder.encode(quota(period, of: profile, limit: limit)),
                head: feed.head
            )
            let done = OperationRow(
                account: account,
                key: submission.key,
                fingerprint: submission.fingerprint.bytes,
                state: .done(answer),
                at: now
            )
            return Decision(
                Answer(answer),
                changes: [.put(.quota(period)), .put(.balance(feed)), .put(.operation(done))]
                    + exhaustion(of: period, profile)
            )
        }
    }

    /// Counts units as unused, and records that in the ledger.
    ///
    /// - Throws: `invalid_content` for more units than are used.
    func giveBack(
        _ name: String,
        _ account: Identifier,
        _ encoder: ResponseEncoder,
        _ submission: Submission<SpendRequest>
    ) -> Command<Answer> {
        let keys: [Key] = [
            .account(account), .balance(account), .quota(account, name: name),
            .operation(account, key: submission.key),
        ]
        return Command(keys: keys) { loaded throws(Problem) in
            guard let profile = loaded.account(account)?.profile,
                let balance = loaded.balance(account)
            else { throw .noAccount }
            guard let limit = limits[name] else { throw .noQuota }
            let row = loaded.operation(account, key: submission.key)
            if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                return Decision(Answer(answer, replayed: true))
            }
            let request = try submission.content.get()
            try Amounts.check(request.amount)
            try Amounts.check(reason: request.reason)
            var period = current(name, of: profile, loaded.quota(account, name: name))
            guard request.amount <= period.used else {
                throw Problem(
                    .invalidContent,
                    "Give back at most \(period.used) units: no more of '\(name)' were used today."
                )
            }
            period.used -= request.amount
            var draft = LedgerDraft(balance, now: now)
            draft.addEntry("\(name) +\(request.amount): \(request.reason)")
            period.seq = draft.nextNumber()
            let answer = StoredAnswer(
                status: 200,
                body: ResponseEncoder.encode(
                    QuotaAnswer(
                        balance: encoder.message(draft.balance),
                        quota: quota(period, of: profile, limit: limit)
                    )
                ),
                head: draft.balance.head
            )
            let done = OperationRow(
                account: account,
                key: submission.key,
                fingerprint: submission.fingerprint.bytes,
                state: .done(answer),
                at: now
            )
            return Decision(
                Answer(answer),
                changes: draft.changes + [.put(.quota(period)), .put(.operation(done))]
            )
        }
    }

    /// Returns the current period with an amount added to its use.
    ///
    /// The caller sets its number of the feed.
    ///
    /// - Throws: `not_found` for an unknown name, `quota_exhausted`.
    func taken(
        _ amount: Int64,
        _ name: String,
        of profile: Account,
        _ row: QuotaRow?
    ) throws(Problem) -> QuotaRow {
        guard let limit = limits[name] else { throw .noQuota }
        var period = current(name, of: profile, row)
        guard profile.plan == .premium || period.used <= limit - amount else {
            throw exhausted(quota(period, of: profile, limit: limit))
        }
        // Premium accounts have no limit, so the count is kept from overflowing.
        period.used = min(period.used, WireLimits.amount) + amount
        return period
    }

    /// Returns the event of a period whose last unit was just used; empty if some are left.
    func exhaustion(of period: QuotaRow, _ profile: Account) -> [Change] {
        guard profile.plan != .premium, let limit = limits[period.name], period.used == limit else {
            return []
        }
        let data: [String: JSONValue] = ["quota": .string(period.name), "limit": .integer(limit)]
        let event = AnalyticsEvent(.quotaExhausted, of: profile.id, at: now, data: data)
        return [.event(event)]
    }

    /// Returns the period without the units of a hold; `nil` if it belongs to another day, so that
    /// the units cannot be returned.
    static func givenBack(_ hold: QuotaHold, to row: QuotaRow?) -> QuotaRow? {
        guard var period = row, period.day == hold.day else { return nil }
        period.used = max(0, period.used - hold.units)
        return period
    }

    /// Returns a quota as its owner sees it now; `nil` for a name that is no longer configured.
    func quota(_ name: String, of profile: Account, _ row: QuotaRow?) -> Quota? {
        guard let limit = limits[name] else { return nil }
        return quota(current(name, of: profile, row), of: profile, limit: limit)
    }

    /// Returns all quotas of an account, ordered by name, as they are now.
    func all(of profile: Account, _ loaded: Loaded) -> [Quota] {
        limits.sorted { $0.key < $1.key }.map { name, limit in
            let period = current(name, of: profile, loaded.quota(profile.id, name: name))
            return quota(period, of: profile, limit: limit)
        }
    }

    /// Returns the stored period, or a new one if the stored one is over or has not begun.
    ///
    /// A period that ends more than two days ahead was begun by a clock that was fast and is
    /// correct now.
    private func current(_ name: String, of profile: Account, _ row: QuotaRow?) -> QuotaRow {
        let zone = profile.zone
        let today = CalendarDay(containing: now, in: zone)
        if let row, row.resetsAt <= now + Self.longestPeriod,
            now < row.resetsAt || today <= row.day
        {
            return row
        }
        return QuotaRow(
            account: profile.id,
            name: name,
            day: today,
            used: 0,
            resetsAt: CalendarDay.nextMidnight(after: now, in: zone),
            seq: row?.seq ?? 0
        )
    }

    private func quota(_ period: QuotaRow, of profile: Account, limit: Int64) -> Quota {
        Quota(
            name: period.name,
            limit: limit,
            used: period.used,
            resetsAt: max(period.resetsAt, period.day.next.start(in: profile.zone)),
            unlimited: profile.plan == .premium
        )
    }

    private func exhausted(_ quota: Quota) -> Problem {
        var problem = Problem(
            .quotaExhausted,
            "Wait until 'resetsAt', or change to a plan that 'lifts' lists.",
            retryAfter: max(1, (quota.resetsAt - now).secondsRoundedUp)
        )
        problem.resetsAt = quota.resetsAt
        problem.lifts = [Account.Plan.premium.rawValue]
        return problem
    }
}

extension Account {
    /// The zone whose midnights end the user's days.
    ///
    /// Names are checked before they are stored; one that a later system does not know counts as
    /// UTC.
    var zone: TimeZone { TimeZone(identifier: timeZone) ?? .gmt }
}

extension Problem {
    static var noQuota: Problem {
        Problem(.notFound, "Use a name that GET /v1/quotas lists.")
    }
}
