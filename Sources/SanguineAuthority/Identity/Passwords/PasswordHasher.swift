import SanguineModel
import Synchronization

/// Hashes and compares passwords on the threads for long work, a limited number at a time.
///
/// Mutable state: `count`, an atomic for tests and metrics, and the permits of `pool`.
final class PasswordHasher: Sendable {
    /// The number of passwords that are hashed or wait for it; one address may have half of them.
    static let limit = 64

    private let pool: SharedPool
    private let count = Atomic(0)

    init(limit: Int = PasswordHasher.limit) { pool = SharedPool(limit: limit) }

    /// The number of hash operations so far.
    var operations: Int { count.load(ordering: .relaxed) }

    /// Hashes a password.
    ///
    /// - Throws: `overloaded` if too many passwords wait.
    func hash(
        _ password: [UInt8],
        cost: PasswordCost,
        address: String?
    ) async throws(Problem) -> PasswordHash {
        try await perform(address) { try PasswordHash(of: password, cost: cost) }
    }

    /// Returns whether a password has a hash.
    ///
    /// - Throws: `overloaded` if too many passwords wait.
    func matches(
        _ password: [UInt8],
        _ hash: PasswordHash,
        address: String?
    ) async throws(Problem) -> Bool {
        try await perform(address) { try hash.matches(password) }
    }

    private func perform<Value: Sendable>(
        _ address: String?,
        _ work: @Sendable () throws -> Value
    ) async throws(Problem) -> Value {
        let permit: SharedPool.Permit
        do {
            permit = try pool.acquire(address: address)
        } catch {
            throw Problem(
                .overloaded,
                "Too many passwords are being checked. Send the request again after 'Retry-After'.",
                retryAfter: 2
            )
        }
        defer { permit.release() }
        return try await LongWork.shared.perform(for: .passwords) { () throws(Problem) in
            count.add(1, ordering: .relaxed)
            do {
                return try work()
            } catch {
                throw Problem(
                    .internalFault,
                    "Try again. If the error persists, check the server's memory."
                )
            }
        }
    }
}
