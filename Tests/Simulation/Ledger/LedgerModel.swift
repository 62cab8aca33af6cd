import SanguineModel

/// A model of one account's balance that is as simple as possible: one number for each token.
///
/// The number is the millisecond at which the token expires, or the largest integer for never. The
/// order of spending is then the order of the numbers.
struct LedgerModel {
    /// A hold with its tokens.
    struct Hold {
        var tokens: [Int64]
        var expiresAt: Int64
        var day: Int64?
    }

    /// The refusals of spends and holds.
    enum Refusal: Hashable {
        case limit
        case insufficient
    }

    /// A transaction of the App Store.
    struct Purchase {
        var credited: Int64
        var refunded: Int64 = 0
    }

    /// The available tokens, sorted; empty while there is a debt.
    private(set) var tokens: [Int64] = []
    /// The number of tokens that refunds have taken back after they were spent.
    private(set) var debt: Int64 = 0
    /// The transactions by their ids.
    private(set) var purchases: [String: Purchase] = [:]
    /// The open holds.
    private(set) var holds: [Identifier: Hold] = [:]
    /// The account's own limit; `nil` for none.
    var limit: Int64?
    private var usedByDay: [Int64: Int64] = [:]

    var available: Int64 { Int64(tokens.count) - debt }

    var held: Int { holds.values.reduce(0) { $0 + $1.tokens.count } }

    /// The available tokens that expire, as amounts by their moments.
    var expiring: [ExpiringAmount] {
        var amounts: [ExpiringAmount] = []
        for moment in tokens where moment != .max {
            let at = Timestamp(millisecondsSince1970: moment)
            if amounts.last?.at == at {
                amounts[amounts.endIndex - 1].amount += 1
            } else {
                amounts.append(ExpiringAmount(amount: 1, at: at))
            }
        }
        return amounts
    }

    mutating func expire(at now: Int64) { tokens.removeAll { $0 <= now } }

    mutating func grant(_ amount: Int64, expiresAt: Int64 = .max) {
        add(Array(repeating: expiresAt, count: Int(amount)))
    }

    /// Adds tokens, of which the first to expire cover the debt.
    private mutating func add(_ more: [Int64]) {
        tokens = (tokens + more).sorted()
        let covered = min(Int(debt), tokens.count)
        tokens.removeFirst(covered)
        debt -= Int64(covered)
    }

    /// Removes the tokens that expire first; more than there are become a debt.
    private mutating func remove(_ amount: Int64) {
        let removed = min(Int(amount), tokens.count)
        tokens.removeFirst(removed)
        debt += amount - Int64(removed)
    }

    mutating func buy(_ amount: Int64, as id: String) {
        purchases[id] = Purchase(credited: amount)
        grant(amount)
    }

    /// Sets the refunded part of a transaction in milliunits of a percent.
    mutating func refund(_ part: Int64, of id: String) {
        guard var purchase = purchases[id] else { return }
        let refunded = purchase.credited * part / 100_000
        let more = refunded - purchase.refunded
        purchase.refunded = refunded
        purchases[id] = purchase
        if more > 0 { remove(more) } else { grant(-more) }
    }

    /// Adds everything of a merged guest.
    mutating func merge(_ guest: LedgerModel) {
        add(guest.tokens)
        remove(guest.debt)
        holds.merge(guest.holds) { own, _ in own }
        purchases.merge(guest.purchases) { own, _ in own }
        usedByDay.merge(guest.usedByDay, uniquingKeysWith: +)
    }

    mutating func spend(_ amount: Int64, at now: Int64) -> Refusal? {
        if let refusal = refusal(of: amount, at: now) { return refusal }
        count(amount, at: now)
        tokens.removeFirst(Int(amount))
        return nil
    }

    /// Returns the refusal of a spend or hold, in the server's order.
    func refusal(of amount: Int64, at now: Int64) -> Refusal? {
        if let limit, usedByDay[Self.day(now), default: 0] + amount > limit { return .limit }
        return tokens.count < amount ? .insufficient : nil
    }

    mutating func hold(_ amount: Int64, as id: Identifier, until end: Int64, at now: Int64) {
        count(amount, at: now)
        let taken = Array(tokens.prefix(Int(amount)))
        tokens.removeFirst(Int(amount))
        holds[id] = Hold(tokens: taken, expiresAt: end, day: limit == nil ? nil : Self.day(now))
    }

    /// Charges a part of a hold and releases the rest; an expired hold is released as a whole.
    mutating func settle(_ id: Identifier, charging amount: Int64, at now: Int64) {
        guard let hold = holds.removeValue(forKey: id) else { return }
        add(hold.tokens)
        remove(amount)
        expire(at: now)
        if let day = hold.day, usedByDay[day] != nil {
            usedByDay[day, default: 0] -= Int64(hold.tokens.count) - amount
        }
    }

    private mutating func count(_ amount: Int64, at now: Int64) {
        guard limit != nil else { return }
        usedByDay[Self.day(now), default: 0] += amount
    }

    private static func day(_ now: Int64) -> Int64 { now / 86_400_000 }
}
