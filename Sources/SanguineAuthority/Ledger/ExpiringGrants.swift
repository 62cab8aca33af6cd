public import SanguineModel

/// The tokens that expire, in the order in which they expire.
///
/// They are a part of the tokens that an account may spend, or of one hold.
///
/// Invariants, checked after every change in debug builds:
///
/// 1. The moments are strictly ascending, and every amount is above zero.
/// 2. There are at most ``limit`` items.
public struct ExpiringGrants: Hashable, Sendable {
    /// The maximum number of items: 32.
    public static let limit = 32

    /// The amounts, the soonest to expire first.
    public private(set) var items: [ExpiringAmount] = []

    /// Creates an empty list.
    public init() {}

    /// The sum of the amounts.
    public var total: Int64 { items.reduce(0) { $0 + $1.amount } }

    /// The moment at which the first amount expires; `nil` if there is none.
    public var next: Timestamp? { items.first?.at }

    /// Returns whether an amount that expires at the moment fits without moving another one.
    func hasRoom(for moment: Timestamp) -> Bool {
        items.count < Self.limit || items.contains { $0.at == moment }
    }

    /// Adds an amount.
    ///
    /// Beyond ``limit``, the last two amounts become one that expires at the later moment, so that
    /// no tokens expire early.
    mutating func add(_ amount: Int64, at moment: Timestamp) {
        guard amount > 0 else { return }
        let index = items.firstIndex { $0.at >= moment } ?? items.endIndex
        if index < items.endIndex, items[index].at == moment {
            items[index].amount += amount
        } else {
            items.insert(ExpiringAmount(amount: amount, at: moment), at: index)
        }
        if items.count > Self.limit, let last = items.popLast() {
            items[items.endIndex - 1].amount += last.amount
            items[items.endIndex - 1].at = last.at
        }
        checkInvariants()
    }

    /// Adds the amounts of another list.
    mutating func add(_ other: ExpiringGrants) {
        for item in other.items { add(item.amount, at: item.at) }
    }

    /// Removes up to an amount of expiring tokens, the soonest to expire first, and returns them.
    @discardableResult
    mutating func spend(_ amount: Int64) -> ExpiringGrants {
        var taken = ExpiringGrants()
        var left = amount
        while left > 0, let first = items.first {
            let part = min(left, first.amount)
            taken.add(part, at: first.at)
            left -= part
            if part == first.amount {
                items.removeFirst()
            } else {
                items[0].amount -= part
            }
        }
        checkInvariants()
        return taken
    }

    /// Removes the amounts that expire at or before the moment, and returns their sum.
    mutating func removeDue(by now: Timestamp) -> Int64 {
        var sum: Int64 = 0
        while let first = items.first, first.at <= now {
            sum += first.amount
            items.removeFirst()
        }
        return sum
    }

    private func checkInvariants() {
        assert(items.count <= Self.limit)
        assert(items.allSatisfy { $0.amount > 0 })
        assert(zip(items, items.dropFirst()).allSatisfy { $0.at < $1.at })
    }
}

extension ExpiringGrants {
    /// The amounts as text: `<amount>@<milliseconds since 1970>`, separated by blanks.
    public var text: String {
        items.map { "\($0.amount)@\($0.at.millisecondsSince1970)" }.joined(separator: " ")
    }

    /// Decodes ``text``, or returns `nil` if it is malformed.
    public init?(text: String) {
        for part in text.split(separator: " ") {
            let numbers = part.split(separator: "@", omittingEmptySubsequences: false)
            guard numbers.count == 2, let amount = Int64(numbers[0]), amount > 0,
                let milliseconds = Int64(numbers[1]), items.count < Self.limit
            else { return nil }
            let moment = Timestamp(millisecondsSince1970: milliseconds)
            guard items.last.map({ $0.at < moment }) ?? true else { return nil }
            items.append(ExpiringAmount(amount: amount, at: moment))
        }
    }
}
