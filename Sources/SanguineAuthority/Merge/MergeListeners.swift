import SanguineModel
import Synchronization

/// The listeners for merges of guests.
///
/// Mutable state: the list, guarded by its mutex.
final class MergeListeners: Sendable {
    /// Receives the guest and the account.
    typealias Listener = @Sendable (_ guest: Identifier, _ account: Identifier) -> Void

    private let listeners = Mutex<[Listener]>([])

    func add(_ listener: @escaping Listener) { listeners.withLock { $0.append(listener) } }

    /// Notifies the listeners of a merge that is stored; a repetition may notify them again.
    func notify(_ guest: Identifier, _ account: Identifier) {
        for listener in listeners.withLock({ $0 }) { listener(guest, account) }
    }
}
