import SanguineModel
import Synchronization

/// The places of runs that go on although nobody reads them.
///
/// Bounded in all and by account as the server's runs are, and by function as it declares.
///
/// Mutable state: `functions`, by its mutex; bounded by the places that are taken.
final class DrainPool: Sendable {
    /// What a run has taken; it is given back once.
    final class Place: Sendable {
        private let pool: DrainPool
        private let function: String
        private let shared: SharedPool.Place
        private let isLeft = Atomic(false)

        fileprivate init(_ pool: DrainPool, _ function: String, _ shared: SharedPool.Place) {
            self.pool = pool
            self.function = function
            self.shared = shared
        }

        deinit { leave() }

        /// Gives it back; a second time does nothing.
        func leave() {
            guard !isLeft.exchange(true, ordering: .relaxed) else { return }
            pool.leave(function)
            shared.leave()
        }
    }

    private let all: SharedPool
    private let functions = Mutex<[String: Int]>([:])

    /// Creates a pool of which nothing is taken.
    init(limit: Int, accountShare: Int) {
        all = SharedPool(limit: limit, accountShare: accountShare)
    }

    /// Takes a place.
    ///
    /// - Parameters:
    ///   - function: The function that runs.
    ///   - limit: How many runs of it may go on so.
    ///   - account: Whose call leads the run.
    /// - Returns: `nil` if there is none for the function, for the account, or at all.
    func take(_ function: String, limit: Int, account: Identifier) -> Place? {
        let isFree = functions.withLock { functions in
            guard functions[function, default: 0] < limit else { return false }
            functions[function, default: 0] += 1
            return true
        }
        guard isFree else { return nil }
        guard let shared = try? all.take(account: account) else {
            leave(function)
            return nil
        }
        return Place(self, function, shared)
    }

    private func leave(_ function: String) {
        functions.withLock { functions in
            let rest = (functions[function] ?? 1) - 1
            functions[function] = rest > 0 ? rest : nil
        }
    }
}
