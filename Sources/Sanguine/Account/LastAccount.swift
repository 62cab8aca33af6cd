import Synchronization

/// The last account that an observer received, so that each element differs from the one before.
///
/// Mutable state: `state`, protected by its mutex.
final class LastAccount: Sendable {
    private let state = Mutex<AccountState?>(nil)

    /// Returns the account unless it equals the last one.
    func next(_ account: AccountState) -> AccountState? {
        state.withLock { last in
            guard last != account else { return nil }
            last = account
            return account
        }
    }
}
