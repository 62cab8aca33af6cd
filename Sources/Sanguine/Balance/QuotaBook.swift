import Foundation
import OrderedCollections
import SanguineModel

/// The user's daily quotas, with the calls that use them.
///
/// A quota is a balance of units that is reset each day, and the same code handles it. So a call
/// shows its cost at once, and the number does not jump back and forth.
///
/// A new day starts from zero, because calls of the previous day count against that day.
struct QuotaBook: Sendable {
    /// One quota.
    private struct Line: Sendable {
        /// The quota as received from the server, or as reset for a new day.
        private(set) var quota: Quota?
        /// The time at which its day ends, by the device's clock.
        private(set) var endsAt: Timestamp?
        /// The units left, counted from ``QuotaBook/ceiling``, with the calls that use them.
        var units = BalanceState()

        init() {}

        init(_ quota: Quota) { (self.quota, endsAt) = (quota, quota.resetsAt) }

        init(restoring line: QuotaArchive.Line, units: BalanceState) {
            (quota, self.units) = (line.quota, units)
            endsAt = line.endsAt ?? line.quota.resetsAt
        }

        /// Stores the quota from the server.
        ///
        /// A list is current. If its day ended long ago according to the device's clock, that clock
        /// is ahead: the day then ends at the next occurrence of the same time of day.
        mutating func update(_ quota: Quota, at now: Timestamp, isCurrent: Bool) {
            let isShownBeyond = isBeyondItsDay && self.quota?.resetsAt == quota.resetsAt
            self.quota = quota
            guard !isShownBeyond else { return }
            let late = now - quota.resetsAt
            let isAhead = isCurrent && late > BalanceLimits.lateAnswer
            let days = isAhead ? Int(late.components.seconds / 86_400) + 1 : 0
            endsAt = quota.resetsAt + .hours(24 * days)
        }

        /// Continues with the calls of an earlier day that were not sent yet: they use units of the
        /// day on which the server receives them.
        mutating func carry(_ earlier: Line) {
            for call in earlier.units.calls where call.phase == .waiting {
                _ = units.began(
                    call.key,
                    function: "",
                    expectedCost: call.predicted,
                    isWaiting: true,
                    isWithheld: call.isWithheld == true,
                    at: call.since
                )
            }
        }

        /// Whether the quota is shown although its day is over according to the device's clock.
        var isBeyondItsDay: Bool { quota.map { $0.resetsAt != endsAt } ?? false }

        /// Base ⊕ pending; only the candidate while it is unknown which calls the first base
        /// contains.
        var visible: Quota? {
            guard let quota, let left = units.visible ?? units.candidate?.balance else {
                return nil
            }
            return Quota(
                name: quota.name,
                limit: quota.limit,
                used: max(0, QuotaBook.ceiling - left.available),
                resetsAt: quota.resetsAt,
                unlimited: quota.unlimited,
                lifts: quota.lifts,
                period: quota.period
            )
        }
    }

    private var lines: OrderedDictionary<String, Line> = [:]
    /// The names of the last list, in its order.
    private var names: [String] = []
    /// The time at which the list was fetched.
    private(set) var receivedAt: Timestamp?
    /// Whether a day has begun since the list was fetched, so that the shown values are an
    /// assumption.
    private var hasNewDay = false

    /// The units left of an unused quota: more than any limit, so that a quota that is not enforced
    /// can be used beyond its limit.
    private static let ceiling: Int64 = 1 << 60

    init() {}

    init(restoring archive: QuotaArchive, sendingAgain isQueued: (String) -> Bool) {
        names = Array(archive.quotas.map(\.quota.name).prefix(BalanceLimits.quotas))
        receivedAt = archive.receivedAt
        for line in archive.quotas.prefix(BalanceLimits.quotas) {
            let units = BalanceState(restoring: line.units, sendingAgain: isQueued)
            lines[line.quota.name] = Line(restoring: line, units: units)
        }
    }

    /// The quotas in their stored form.
    var archive: QuotaArchive? {
        receivedAt.map { receivedAt in
            QuotaArchive(
                quotas: names.compactMap { name in
                    lines[name].flatMap { line in
                        line.quota.map {
                            let units = BalanceArchive(line.units)
                            return .init(quota: $0, units: units, endsAt: line.endsAt)
                        }
                    }
                },
                receivedAt: receivedAt
            )
        }
    }

    /// Base ⊕ pending of each quota, or `nil` if no list was ever received.
    var visible: [Quota]? {
        receivedAt.map { _ in names.compactMap { lines[$0]?.visible } }
    }

    /// Whether calls have ended that only a newer list contains.
    var wantsFetch: Bool {
        receivedAt != nil && lines.values.contains { $0.quota != nil && $0.units.awaitsBase }
    }

    // MARK: - Days

    /// The time at which the next day of any quota begins; `nil` if no quota is known.
    var nextDayStart: Timestamp? { names.compactMap { lines[$0]?.endsAt }.min() }

    /// Whether a newer list may differ although nothing has happened here.
    var isOutdated: Bool { hasNewDay || names.contains { lines[$0]?.isBeyondItsDay == true } }

    /// Starts a new day for each quota whose day is over: no unit of it is used.
    ///
    /// This needs no request, so it also works without a network. The next list brings the server's
    /// values.
    ///
    /// - Parameters:
    ///   - now: The current time.
    ///   - zone: The time zone of the user's days.
    mutating func startNewDays(at now: Timestamp, in zone: TimeZone) {
        for (name, line) in lines {
            guard let quota = line.quota, let end = line.endsAt, end <= now else { continue }
            let fresh = Quota(
                name: name,
                limit: quota.limit,
                used: 0,
                resetsAt: quota.nextReset(after: now, in: zone),
                unlimited: quota.unlimited,
                lifts: quota.lifts,
                period: quota.period
            )
            let head = line.units.base?.balance.head ?? 0
            var turned = Line(fresh)
            let nothing = BalanceInquiry(keys: [], idle: [])
            turned.units.fetched(Self.balance(fresh, head: head, at: now), for: nothing, at: now)
            turned.carry(line)
            lines[name] = turned
            hasNewDay = true
        }
    }

    // MARK: - Lists

    /// Records a fetched list.
    ///
    /// - Parameters:
    ///   - quotas: All quotas.
    ///   - head: The feed's number at that time; `nil` if the server did not send it.
    ///   - now: The current time.
    mutating func fetched(_ quotas: [Quota], head: Int64?, at now: Timestamp) {
        for quota in quotas.prefix(BalanceLimits.quotas) {
            update(quota, head: head, at: now, isCurrent: true)
        }
        names = quotas.prefix(BalanceLimits.quotas).map(\.name)
        lines.removeAll { name, line in !names.contains(name) && line.units.calls.isEmpty }
        (receivedAt, hasNewDay) = (now, false)
    }

    /// Records a new state of one quota; returns whether the list contains it.
    mutating func received(_ quota: Quota, head: Int64, at now: Timestamp) -> Bool {
        guard names.contains(quota.name) else { return false }
        update(quota, head: head, at: now, isCurrent: false)
        return true
    }

    private mutating func update(
        _ quota: Quota,
        head: Int64?,
        at now: Timestamp,
        isCurrent: Bool
    ) {
        var line = currentLine(of: quota, at: now)
        let head = head ?? line.units.base?.balance.head ?? 0
        if head >= line.units.base?.balance.head ?? .min {
            line.update(quota, at: now, isCurrent: isCurrent)
        }
        let nothing = BalanceInquiry(keys: [], idle: [])
        line.units.fetched(Self.balance(quota, head: head, at: now), for: nothing, at: now)
        lines[quota.name] = line
    }

    /// Returns the line of a quota; a new line if the known one is from an earlier day.
    private func currentLine(of quota: Quota, at now: Timestamp) -> Line {
        let line = lines[quota.name] ?? Line()
        guard let old = line.quota, old.resetsAt <= now, old.resetsAt < quota.resetsAt else {
            return line
        }
        var next = Line()
        next.carry(line)
        return next
    }

    private static func balance(_ quota: Quota, head: Int64, at now: Timestamp) -> Balance {
        Balance(
            unit: quota.name,
            available: ceiling - quota.used,
            held: 0,
            head: head,
            asOf: now
        )
    }

    // MARK: - Calls

    /// Returns the tokens that a call with the given price costs because its quota seems to be used
    /// up.
    ///
    /// Returns `nil` while the quota is unknown: a unit is then expected to be left.
    func tokensInstead(of price: Price.QuotaPrice?) -> Int64? {
        guard let price, let tokens = price.otherwise,
            lines[price.name]?.visible?.allows(price.units) == false
        else { return nil }
        return tokens
    }

    /// Records a call that uses a quota; see ``BalanceState``.
    mutating func began(
        _ key: String,
        _ price: Price.QuotaPrice,
        isWaiting: Bool,
        isWithheld: Bool = false,
        at now: Timestamp
    ) {
        guard lines[price.name] != nil || lines.count < BalanceLimits.quotas else { return }
        _ = lines[price.name, default: Line()].units.began(
            key,
            function: "",
            expectedCost: price.units,
            isWaiting: isWaiting,
            isWithheld: isWithheld,
            at: now
        )
    }

    /// Records the answer to a call.
    ///
    /// - Parameters:
    ///   - key: The key of the call.
    ///   - quota: The quota after the call; `nil` if the call used none.
    ///   - head: The feed's number at that time.
    ///   - now: The current time.
    mutating func answered(_ key: String, _ quota: Quota?, head: Int64, at now: Timestamp) {
        guard let quota else { return each(key) { $0.refused(key) } }
        guard lines[quota.name] != nil else { return }
        var line = currentLine(of: quota, at: now)
        if head >= line.units.base?.balance.head ?? .min {
            line.update(quota, at: now, isCurrent: false)
        }
        let answer = CallCost(
            charged: line.units.call(key)?.predicted ?? 0,
            available: Self.ceiling - quota.used,
            held: 0,
            head: head,
            cached: true  // Costs are learned only in the balance's unit.
        )
        line.units.answered(key, function: "", answer, at: now)
        lines[quota.name] = line
    }

    /// Applies an event of a call to each quota that it uses.
    mutating func each(_ key: String, _ event: (inout BalanceState) -> Void) {
        for place in lines.values.indices where lines.values[place].units.call(key) != nil {
            event(&lines.values[place].units)
        }
    }

    /// The keys of calls that were not sent yet.
    var waiting: Set<String> {
        var keys: Set<String> = []
        for line in lines.values {
            for call in line.units.calls where call.phase == .waiting { keys.insert(call.key) }
        }
        return keys
    }

    /// Begins a new epoch: the next list is newer than the known one, regardless of its number.
    mutating func beginEpoch() {
        for place in lines.values.indices { lines.values[place].units.beginEpoch() }
    }

    /// Marks calls that the balance has settled: the next list contains their ends.
    mutating func follow(_ balance: BalanceState) {
        for place in lines.values.indices {
            for call in lines.values[place].units.calls where call.isAskedAfter {
                let known = balance.call(call.key)
                guard let head = known == nil ? balance.base?.balance.head : known?.head else {
                    continue
                }
                lines.values[place].units.settled(call.key, head: head)
            }
        }
    }
}

extension Quota {
    /// Returns the end of the period that contains the moment.
    fileprivate func nextReset(after now: Timestamp, in zone: TimeZone) -> Timestamp {
        let midnight = CalendarDay.nextMidnight(after: now, in: zone)
        guard let period, period != .day else { return midnight }
        let today = CalendarDay(containing: now, in: zone)
        return max(midnight, period.next(after: today).start(in: zone))
    }
}

/// The quotas in their stored form.
struct QuotaArchive: Codable, Sendable {
    struct Line: Codable, Sendable {
        let quota: Quota
        let units: BalanceArchive
        /// The time at which its day ends, by the device's clock; `nil`: at the quota's `resetsAt`.
        var endsAt: Timestamp?
    }

    let quotas: [Line]
    let receivedAt: Timestamp
}
