import SanguineModel

/// The daily quotas of an account after a merge: of both uses, the larger one counts.
struct QuotaMerge {
    /// The account's periods that change, without their numbers of the feed.
    private(set) var periods: [QuotaRow] = []
    /// The open holds of both sides, each as one of the account.
    private(set) var holds: [HoldRow] = []
    /// The days of the account's periods, by the name of the quota.
    private var days: [String: CalendarDay] = [:]
    /// The units that the holds may return to these periods.
    private var held: [String: Int64] = [:]

    /// Creates the result of a merge.
    ///
    /// A unit of the smaller use was not counted, so that it cannot be returned: a hold returns at
    /// most the units by which the use of its side exceeds that of the other side.
    init(
        _ quotas: QuotaCommands,
        of guest: Account,
        into account: Account,
        _ loaded: Loaded,
        guestHolds: [HoldRow],
        accountHolds: [HoldRow]
    ) {
        var (guestRoom, accountRoom): ([String: Int64], [String: Int64]) = ([:], [:])
        for name in quotas.limits.keys.sorted() {
            let theirs = quotas.current(name, of: guest, loaded.quota(guest.id, name: name))
            var own = quotas.current(name, of: account, loaded.quota(account.id, name: name))
            guestRoom[name] = max(0, theirs.used - own.used)
            accountRoom[name] = max(0, own.used - theirs.used)
            days[name] = own.day
            guard theirs.used > own.used else { continue }
            own.used = theirs.used
            periods.append(own)
        }
        for var hold in guestHolds {
            hold.account = account.id
            let today = hold.quota.map { $0.day == loaded.quota(guest.id, name: $0.name)?.day }
            limit(&hold, isToday: today ?? false, to: &guestRoom)
            holds.append(hold)
        }
        for var hold in accountHolds where hold.quota != nil {
            let today = hold.quota.map { $0.day == days[$0.name] }
            limit(&hold, isToday: today ?? false, to: &accountRoom)
            holds.append(hold)
        }
    }

    /// Returns the units of the account's period that holds may return after the merge.
    func held(in period: QuotaRow) -> Int64 {
        days[period.name] == period.day ? min(held[period.name] ?? 0, period.used) : period.held
    }

    /// Limits the units that a hold returns, and lets it return them to the account's period.
    private mutating func limit(
        _ hold: inout HoldRow,
        isToday: Bool,
        to room: inout [String: Int64]
    ) {
        guard var quota = hold.quota else { return }
        let units = isToday ? min(quota.units, room[quota.name] ?? 0) : 0
        room[quota.name, default: 0] -= units
        held[quota.name, default: 0] += units
        quota.units = units
        quota.day = days[quota.name] ?? quota.day
        hold.quota = quota
    }
}
