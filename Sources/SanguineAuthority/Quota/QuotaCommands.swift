import Foundation
import SanguineModel

/// Quotas: periods and their use.
///
/// A period is a day, week or month of the user's calendar, and is named by its first day. A new
/// one begins only when *both* the end of the old one has passed, in the zone that the account had
/// at its beginning, *and* the account's zone shows a later period. So travelling, or setting
/// another zone, never grants a second quota, and no span of time has more periods than the
/// calendar.
struct QuotaCommands: Sendable {
    let limits: [String: QuotaRule]
    let now: Timestamp

    func consume(
        _ name: String,
        _ account: Identifier,
        _ submission: Submission<ConsumeRequest>
    ) -> Command<Answer> {
        let keys: [Key] = [
            .account(account), .balance(account), .quota(account, name: name),
            .operation(account, key: submission.key), QuotaExhaustion.key(account, name),
        ]
        return Command(keys: keys) { loaded throws(Problem) in
            guard let profile = loaded.account(account)?.profile(at: now),
                var feed = loaded.balance(account)
            else { throw .noAccount }
            guard let rule = limits[name] else { throw .noQuota }
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
                body: ResponseEncoder.encode(quota(period, of: profile, rule)),
                head: feed.head
            )
            let done = OperationRow(
                account: account,
                key: submission.key,
                fingerprint: submission.fingerprint.bytes,
                state: .done(answer),
                at: now
            )
            let events = try exhaustion(of: period, profile, loaded)
            return Decision(
                Answer(answer),
                changes: [.put(.quota(period)), .put(.balance(feed)), .put(.operation(done))]
                    + events
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
            guard let profile = loaded.account(account)?.profile(at: now),
                let balance = loaded.balance(account)
            else { throw .noAccount }
            guard let rule = limits[name] else { throw .noQuota }
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
                    "Give back at most \(period.used) units: no more of '\(name)' were used."
                )
            }
            period.used -= request.amount
            period.held = min(period.held, period.used)
            var draft = LedgerDraft(balance, now: now)
            draft.addEntry("\(name) +\(request.amount): \(request.reason)")
            period.seq = draft.nextNumber()
            let answer = StoredAnswer(
                status: 200,
                body: ResponseEncoder.encode(
                    QuotaAnswer(
                        balance: encoder.message(draft.balance),
                        quota: quota(period, of: profile, rule)
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
        guard let rule = limits[name] else { throw .noQuota }
        var period = current(name, of: profile, row)
        if let limit = rule.limit(of: profile.plan), period.used > limit - amount {
            throw .exhausted(quota(period, of: profile, rule), at: now)
        }
        // Some plans have no limit, so the count is kept from overflowing.
        period.used = min(period.used, WireLimits.amount) + amount
        return period
    }

    /// Whether the account's plan lifts the limit of the quota now.
    func isUnlimited(_ name: String, _ row: AccountRow?) -> Bool {
        guard let rule = limits[name], let row else { return false }
        return rule.limit(of: row.profile(at: now).plan) == nil
    }

    /// Returns the period without the units of a hold; `nil` if it belongs to another day, so that
    /// the units cannot be returned.
    static func givenBack(_ hold: QuotaHold, to row: QuotaRow?) -> QuotaRow? {
        guard var period = kept(hold, in: row) else { return nil }
        period.used = max(0, period.used - hold.units)
        period.held = min(period.held, period.used)
        return period
    }

    /// Returns the period in which the units of a hold stay used; `nil` if it belongs to another
    /// day.
    static func kept(_ hold: QuotaHold, in row: QuotaRow?) -> QuotaRow? {
        guard var period = row, period.day == hold.day else { return nil }
        period.held = max(0, period.held - hold.units)
        return period
    }

    /// Returns a quota as its owner sees it now; `nil` for a name that is no longer configured.
    func quota(_ name: String, of profile: Account, _ row: QuotaRow?) -> Quota? {
        guard let rule = limits[name] else { return nil }
        return quota(current(name, of: profile, row), of: profile, rule)
    }

    /// Returns all quotas of an account, ordered by name, as they are now.
    func all(of profile: Account, _ loaded: Loaded) -> [Quota] {
        limits.sorted { $0.key < $1.key }.map { name, rule in
            let period = current(name, of: profile, loaded.quota(profile.id, name: name))
            return quota(period, of: profile, rule)
        }
    }

    /// Returns the stored period, or a new one if the stored one is over or has not begun.
    ///
    /// A period that ends further ahead than a period lasts was begun by a clock that was fast and
    /// is correct now.
    func current(_ name: String, of profile: Account, _ row: QuotaRow?) -> QuotaRow {
        let zone = profile.zone
        let span = limits[name]?.period ?? .day
        let today = CalendarDay(containing: now, in: zone)
        if let row, row.resetsAt <= now + span.longest,
            now < row.resetsAt || span.first(of: today) <= row.day
        {
            return row
        }
        return QuotaRow(
            account: profile.id,
            name: name,
            day: span.first(of: today),
            used: 0,
            resetsAt: span == .day
                ? CalendarDay.nextMidnight(after: now, in: zone)
                : max(
                    span.next(after: today).start(in: zone),
                    CalendarDay.nextMidnight(after: now, in: zone)
                ),
            seq: row?.seq ?? 0
        )
    }

    private func quota(_ period: QuotaRow, of profile: Account, _ rule: QuotaRule) -> Quota {
        let limit = rule.limit(of: profile.plan)
        return Quota(
            name: period.name,
            limit: limit ?? rule.limit,
            used: period.used,
            resetsAt: max(
                period.resetsAt,
                rule.period.next(after: period.day).start(in: profile.zone)
            ),
            unlimited: limit == nil,
            lifts: rule.plans(above: profile.plan),
            period: rule.period == .day ? nil : rule.period
        )
    }
}

extension Account {
    /// The zone whose midnights end the user's days.
    ///
    /// Names are checked before they are stored; one that a later system does not know counts as
    /// UTC.
    var zone: TimeZone { TimeZone(identifier: timeZone) ?? .gmt }
}
