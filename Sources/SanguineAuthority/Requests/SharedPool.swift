package import SanguineModel
import Synchronization

/// A limited resource, such as slots or bytes, that no account or address can use up.
///
/// Requests are admitted while the resource is available, up to a share: one account, or one
/// address with many accounts, cannot lock out all others.
///
/// Invariants:
/// 1. At most ``limit`` is taken, and at most a share by each account and address.
/// 2. Each permit is returned once: when it is released, or when it is deallocated.
///
/// Mutable state: `taken`, guarded by its mutex. Bounded by the limit.
package final class SharedPool: Sendable {
    /// The reason why a permit was refused.
    package enum Refusal: Error, Hashable, Sendable {
        /// The whole resource is taken.
        case full
        /// The account has taken its share.
        case account
        /// The address has taken its share.
        case address
    }

    /// A taken part of the resource.
    package final class Permit: Sendable {
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

        deinit { release() }

        /// Takes more of the resource.
        ///
        /// - Throws: ``Refusal``; the previous amount stays taken.
        package func grow(by more: Int) throws(Refusal) {
            try pool.add(more, account, address)
            amount.add(more, ordering: .relaxed)
        }

        /// Returns the whole amount; a second call does nothing.
        package func release() {
            let rest = amount.exchange(0, ordering: .relaxed)
            if rest > 0 { pool.remove(rest, account, address) }
        }
    }

    private struct Taken {
        var count = 0
        var accounts: [Identifier: Int] = [:]
        var addresses: [String: Int] = [:]
    }

    /// The total amount.
    package let limit: Int
    /// The amount that one account may take.
    package let accountShare: Int
    /// The amount that one address may take.
    package let addressShare: Int

    private let taken = Mutex(Taken())

    /// Creates a pool of which nothing is taken.
    ///
    /// - Parameters:
    ///   - limit: The total amount; 0 refuses all requests.
    ///   - accountShare: The amount that one account may take. Default: all.
    ///   - addressShare: The amount that one address may take. Default: half, rounded up.
    package init(limit: Int, accountShare: Int? = nil, addressShare: Int? = nil) {
        self.limit = limit
        self.accountShare = accountShare ?? limit
        self.addressShare = addressShare ?? (limit - limit / 2)
    }

    /// Whether more than half of the total, or of the share of an account or address, is taken.
    package func isCrowded(account: Identifier?, address: String?) -> Bool {
        taken.withLock { taken in
            if taken.count > limit / 2 { return true }
            if let account, taken.accounts[account, default: 0] > accountShare / 2 { return true }
            if let address, taken.addresses[address, default: 0] > addressShare / 2 { return true }
            return false
        }
    }

    /// The amount that is taken.
    package var count: Int { taken.withLock { $0.count } }

    /// Takes a part of the resource.
    ///
    /// - Parameters:
    ///   - amount: The amount. Default: 1.
    ///   - account: The account, if it is known.
    ///   - address: The address of the request, if it has one.
    /// - Returns: The permit, which is returned when it is released or deallocated.
    /// - Throws: ``Refusal``; the account's is checked first, because the account can act on it.
    package func acquire(
        _ amount: Int = 1,
        account: Identifier? = nil,
        address: String? = nil
    ) throws(Refusal) -> Permit {
        try add(amount, account, address)
        return Permit(self, amount, account, address)
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
