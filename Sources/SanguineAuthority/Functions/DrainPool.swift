import SanguineModel
import Synchronization

/// The permits for runs that continue without readers.
///
/// Limited in total and per account like all runs, and per function as the function declares.
///
/// Mutable state: `functions`, guarded by its mutex; bounded by the number of permits.
final class DrainPool: Sendable {
    /// A permit, which is returned once.
    final class Permit: Sendable {
        private let pool: DrainPool
        private let function: String
        private let shared: SharedPool.Permit
        private let isLeft = Atomic(false)

        fileprivate init(_ pool: DrainPool, _ function: String, _ shared: SharedPool.Permit) {
            self.pool = pool
            self.function = function
            self.shared = shared
        }

        deinit { release() }

        /// Returns the permit; a second call does nothing.
        func release() {
            guard !isLeft.exchange(true, ordering: .relaxed) else { return }
            pool.release(function)
            shared.release()
        }
    }

    private let all: SharedPool
    private let functions = Mutex<[String: Int]>([:])

    /// Creates a pool with all its permits.
    init(limit: Int, accountShare: Int) {
        all = SharedPool(limit: limit, accountShare: accountShare)
    }

    /// Acquires a permit.
    ///
    /// - Parameters:
    ///   - function: The function that runs.
    ///   - limit: The number of such runs that the function allows.
    ///   - account: The account of the leading call.
    /// - Returns: The permit; `nil` if there is none left for the function, for the account, or in
    ///   total.
    func acquire(_ function: String, limit: Int, account: Identifier) -> Permit? {
        let isFree = functions.withLock { functions in
            guard functions[function, default: 0] < limit else { return false }
            functions[function, default: 0] += 1
            return true
        }
        guard isFree else { return nil }
        guard let shared = try? all.acquire(account: account) else {
            release(function)
            return nil
        }
        return Permit(self, function, shared)
    }

    private func release(_ function: String) {
        functions.withLock { functions in
            let rest = (functions[function] ?? 1) - 1
            functions[function] = rest > 0 ? rest : nil
        }
    }
}
