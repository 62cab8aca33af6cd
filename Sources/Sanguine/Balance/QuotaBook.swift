import Foundation
import OrderedCollections
import SanguineModel

/// What the client knows of the user's daily quotas.
///
/// A quota is a balance of units that is new each day: what was said of one is said of it, and the
/// same code decides. So a call shows what it takes at once, and the number does not dance.
///
/// A new day begins afresh: what calls of the day before still take is taken of that one.
struct QuotaBook: Sendable {
    /// One quota.
    private struct Line: Sendable {
        /// The server's last word on it, or what the rule of days makes of that.
        private(set) var quota: Quota?
        /// When its day ends, by the device's clock.
        private(set) var endsAt: Timestamp?
        /// What is left, counted from ``QuotaBook/ceiling``, with the calls that take of it.
        var units = BalanceState()

        init() {}

        init(_ quota: Quota) { (self.quota, endsAt) = (quota, quota.resetsAt) }

        init(restoring line: QuotaArchive.Line, units: BalanceState) {
            (quota, self.units) = (line.quota, units)
            endsAt = line.endsAt ?? line.quota.resetsAt
        }

        /// Takes over the server's word.
        ///
        /// A list is of the present. If the day that it names has ended long ago by the device's
        /// clock, that clock is ahead: what the server says of that day counts all the same, up to
        /// the same time of the next day.
        mutating func take(_ quota: Quota, at now: Timestamp, isOfPresent: Bool) {
            let isShownBeyond = isBeyondItsDay && self.quota?.resetsAt == quota.resetsAt
            self.quota = quota
            guard !isShownBeyond else { return }
            let late = now - quota.resetsAt
            let isAhead = isOfPresent && late > BalanceLimits.lateAnswer
            let days = isAhead ? Int(late.components.seconds / 86_400) + 1 : 0
            endsAt = quota.resetsAt + .hours(24 * days)
        }

        /// Whether the day that the server named is over by the device's clock, and shown still.
        var isBeyondItsDay: Bool { quota.map { $0.resetsAt != endsAt } ?? false }

        /// Base ⊕ pending; as long as it is not known which calls the first base contains, that
        /// alone.
        var visible: Quota? {
            guard let quota, let left = units.visible ?? units.candidate?.balance else {
                return nil
            }
            return Quota(
                name: quota.name,
                limit: quota.limit,
                used: max(0, QuotaBook.ceiling - left.available),
                resetsAt: quota.resetsAt,
                unlimited: quota.unlimited
            )
        }
    }

    private var lines: OrderedDictionary<String, Line> = [:]
    /// The names of the last list, in its order.
    private var names: [String] = []
    /// When the list was fetched.
    private(set) var receivedAt: Timestamp?
    /// Whether a day has begun since the list was fetched: what is shown follows from the rule.
    private var hasTurned = false

    /// What is left of a quota of which nothing is used: more than any limit, so that a quota that
    /// nobody enforces can be used beyond its limit.
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

    /// What is stored of it.
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

    /// Base ⊕ pending of each quota, or `nil` if the list was never received.
    var visible: [Quota]? {
        receivedAt.map { _ in names.compactMap { lines[$0]?.visible } }
    }

    /// Whether calls have ended that only a newer list contains.
    var wantsFetch: Bool {
        receivedAt != nil && lines.values.contains { $0.quota != nil && $0.units.awaitsBase }
    }

    // MARK: - Days

    /// When the next of the quotas begins a new day; `nil` if none is known.
    var turnsAt: Timestamp? { names.compactMap { lines[$0]?.endsAt }.min() }

    /// Whether a newer list may say something else although nothing has happened here.
    var isOutdated: Bool { hasTurned || names.contains { lines[$0]?.isBeyondItsDay == true } }

    /// Begins the day of each quota whose last one is over: nothing of it is used.
    ///
    /// Nobody has to be asked for that, so it holds without a network, too. The server's word
    /// follows with the next list.
    ///
    /// - Parameters:
    ///   - now: The time of day.
    ///   - zone: Where the user's days begin and end.
    mutating func turn(at now: Timestamp, in zone: TimeZone) {
        for (name, line) in lines {
            guard let quota = line.quota, let end = line.endsAt, end <= now else { continue }
            let fresh = Quota(
                name: name,
                limit: quota.limit,
                used: 0,
                resetsAt: CalendarDay.nextMidnight(after: now, in: zone),
                unlimited: quota.unlimited
            )
            let head = line.units.base?.balance.head ?? 0
            var turned = Line(fresh)
            let nothing = BalanceInquiry(keys: [], idle: [])
            turned.units.fetched(Self.balance(fresh, head: head, at: now), for: nothing, at: now)
            lines[name] = turned
            hasTurned = true
        }
    }

    // MARK: - Lists

    /// A list was fetched.
    ///
    /// - Parameters:
    ///   - quotas: All quotas.
    ///   - head: The number in the feed at which they were so; `nil` if the server did not say.
    ///   - now: The time of day.
    mutating func fetched(_ quotas: [Quota], head: Int64?, at now: Timestamp) {
        for quota in quotas.prefix(BalanceLimits.quotas) {
            take(quota, head: head, at: now, isOfPresent: true)
        }
        names = quotas.prefix(BalanceLimits.quotas).map(\.name)
        lines.removeAll { name, line in !names.contains(name) && line.units.calls.isEmpty }
        (receivedAt, hasTurned) = (now, false)
    }

    /// One quota has become known anew; returns whether the list has it.
    mutating func received(_ quota: Quota, head: Int64, at now: Timestamp) -> Bool {
        guard names.contains(quota.name) else { return false }
        take(quota, head: head, at: now, isOfPresent: false)
        return true
    }

    private mutating func take(
        _ quota: Quota,
        head: Int64?,
        at now: Timestamp,
        isOfPresent: Bool
    ) {
        var line = turned(to: quota, at: now)
        let head = head ?? line.units.base?.balance.head ?? 0
        if head >= line.units.base?.balance.head ?? .min {
            line.take(quota, at: now, isOfPresent: isOfPresent)
        }
        let nothing = BalanceInquiry(keys: [], idle: [])
        line.units.fetched(Self.balance(quota, head: head, at: now), for: nothing, at: now)
        lines[quota.name] = line
    }

    /// The line of a quota, afresh if that is another day's.
    private func turned(to quota: Quota, at now: Timestamp) -> Line {
        let line = lines[quota.name] ?? Line()
        guard let old = line.quota, old.resetsAt <= now, old.resetsAt < quota.resetsAt else {
            return line
        }
        return Line()
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

    /// What a call of that price pays in tokens because too little of its quota seems to be left.
    ///
    /// Nothing as long as the quota is not known: then a unit is expected to be there.
    func tokensInstead(of price: Price.QuotaPrice?) -> Int64? {
        guard let price, let tokens = price.otherwise,
            lines[price.name]?.visible?.allows(price.units) == false
        else { return nil }
        return tokens
    }

    /// A call begins that takes of a quota; see ``BalanceState``.
    mutating func began(
        _ key: String,
        _ price: Price.QuotaPrice,
        isWaiting: Bool,
        at now: Timestamp
    ) {
        guard lines[price.name] != nil || lines.count < BalanceLimits.quotas else { return }
        _ = lines[price.name, default: Line()].units.began(
            key,
            function: "",
            expectedCost: price.units,
            isWaiting: isWaiting,
            at: now
        )
    }

    /// A call was answered.
    ///
    /// - Parameters:
    ///   - key: The call's.
    ///   - quota: The quota after the call; `nil` if it has taken of none.
    ///   - head: The number in the feed at which that is so.
    ///   - now: The time of day.
    mutating func answered(_ key: String, _ quota: Quota?, head: Int64, at now: Timestamp) {
        guard let quota else { return each(key) { $0.refused(key) } }
        guard lines[quota.name] != nil else { return }
        var line = turned(to: quota, at: now)
        if head >= line.units.base?.balance.head ?? .min {
            line.take(quota, at: now, isOfPresent: false)
        }
        let answer = CallAnswer(
            charged: line.units.call(key)?.predicted ?? 0,
            available: Self.ceiling - quota.used,
            held: 0,
            head: head,
            cached: true  // Costs are learned in the balance's unit alone.
        )
        line.units.answered(key, function: "", answer, at: now)
        lines[quota.name] = line
    }

    /// Plays an event of a call where it takes of something.
    mutating func each(_ key: String, _ event: (inout BalanceState) -> Void) {
        for place in lines.values.indices where lines.values[place].units.call(key) != nil {
            event(&lines.values[place].units)
        }
    }

    /// Numbers begin again: the next list is newer than what is known, whatever its number.
    mutating func beginEpoch() {
        for place in lines.values.indices { lines.values[place].units.beginEpoch() }
    }

    /// Takes over what the balance knows of calls by now: how they ended is in the next list.
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

/// The quotas as they are stored.
struct QuotaArchive: Codable, Sendable {
    struct Line: Codable, Sendable {
        let quota: Quota
        let units: BalanceArchive
        /// When its day ends, by the device's clock; `nil`: when the quota says.
        var endsAt: Timestamp?
    }

    let quotas: [Line]
    let receivedAt: Timestamp
}
