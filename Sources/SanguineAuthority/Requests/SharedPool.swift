package import SanguineModel
import Synchronization

/// Something that is taken for a time, such as slots or bytes, of which neither an account nor an
/// address gets all.
///
/// Whoever comes while there is room is let in, up to a share: one account, or one address with
/// many accounts, cannot lock out everybody else.
///
/// Invariants:
/// 1. There is never more than ``limit`` taken, nor more than its share by an account or an
///    address.
/// 2. What was taken is given back once: when it is left, or when nobody holds it any more.
///
/// Mutable state: `taken`, by its mutex. Bounded by the limit.
package final class SharedPool: Sendable {
    /// Why there is no place.
    package enum Refusal: Error, Hashable, Sendable {
        /// All are taken.
        case full
        /// The account has its share.
        case account
        /// The address has its share.
        case address
    }

    /// What somebody has taken.
    package final class Place: Sendable {
        private let pool: SharedPool
        private let account: Identifier?
        private let address: String?
        private let amount: Atomic<Int>

        fileprivate init(
            _ pool: SharedPool,
            _ amount: Int,
            _ account: Identifier?,
            _ address: String?
        ) {
            self.pool = pool
            self.account = account
            self.address = address
            self.amount = Atomic(amount)
        }

        deinit { leave() }

        /// Takes more of the pool.
        ///
        /// - Throws: ``Refusal``; what was taken before stays taken.
        package func grow(by more: Int) throws(Refusal) {
            try pool.add(more, account, address)
            amount.add(more, ordering: .relaxed)
        }

        /// Gives all of it back; a second time does nothing.
        package func leave() {
            let rest = amount.exchange(0, ordering: .relaxed)
            if rest > 0 { pool.remove(rest, account, address) }
        }
    }

    private struct Taken {
        var count = 0
        var accounts: [Identifier: Int] = [:]
        var addresses: [String: Int] = [:]
    }

    /// How much there is.
    package let limit: Int
    /// How much of it an account may have.
    package let accountShare: Int
    /// How much of it an address may have.
    package let addressShare: Int

    private let taken = Mutex(Taken())

    /// Creates a pool of which nothing is taken.
    ///
    /// - Parameters:
    ///   - limit: How much there is; 0 refuses everybody.
    ///   - accountShare: What an account may have. Default: all.
    ///   - addressShare: What an address may have. Default: a half, rounded up.
    package init(limit: Int, accountShare: Int? = nil, addressShare: Int? = nil) {
        self.limit = limit
        self.accountShare = accountShare ?? limit
        self.addressShare = addressShare ?? (limit - limit / 2)
    }

    /// Whether an account, an address, or all together have half of what they may.
    package func isCrowded(account: Identifier?, address: String?) -> Bool {
        taken.withLock { taken in
            if taken.count > limit / 2 { return true }
            if let account, taken.accounts[account, default: 0] > accountShare / 2 { return true }
            if let address, taken.addresses[address, default: 0] > addressShare / 2 { return true }
            return false
        }
    }

    /// How much is taken.
    package var count: Int { taken.withLock { $0.count } }

    /// Takes some.
    ///
    /// - Parameters:
    ///   - amount: How much. Default: 1.
    ///   - account: Who takes it, if that is known.
    ///   - address: Where the request came from, if it came from anywhere.
    /// - Returns: The place, which is given back when it is left or forgotten.
    /// - Throws: ``Refusal``: that of the account first, which can do something about it.
    package func take(
        _ amount: Int = 1,
        account: Identifier? = nil,
        address: String? = nil
    ) throws(Refusal) -> Place {
        try add(amount, account, address)
        return Place(self, amount, account, address)
    }

    private func add(
        _ amount: Int,
        _ account: Identifier?,
        _ address: String?
    ) throws(Refusal) {
        let refusal = taken.withLock { taken -> Refusal? in
            if let account, taken.accounts[account, default: 0] + amount > accountShare {
                return .account
            }
            if taken.count + amount > limit { return .full }
            if let address, taken.addresses[address, default: 0] + amount > addressShare {
                return .address
            }
            taken.count += amount
            if let account { taken.accounts[account, default: 0] += amount }
            if let address { taken.addresses[address, default: 0] += amount }
            return nil
        }
        if let refusal { throw refusal }
    }

    private func remove(_ amount: Int, _ account: Identifier?, _ address: String?) {
        taken.withLock { taken in
            taken.count -= amount
            if let account { Self.subtract(amount, of: account, from: &taken.accounts) }
            if let address { Self.subtract(amount, of: address, from: &taken.addresses) }
        }
    }

    private static func subtract<Key: Hashable>(
        _ amount: Int,
        of key: Key,
        from counts: inout [Key: Int]
    ) {
        let rest = (counts[key] ?? amount) - amount
        counts[key] = rest > 0 ? rest : nil
    }
}
