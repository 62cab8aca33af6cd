import SanguineAuthority
import Synchronization

/// The damage that was found since the data was opened.
///
/// Damaged data takes no write: a balance that is wrong must not be spent from, and a write to a
/// tree that is broken breaks more. The writer asks before each piece of work, and the files before
/// each change, so nothing else has to know. Damage lasts until the data is opened again, because a
/// write that succeeds elsewhere proves nothing of the damaged page.
///
/// Mutable state: the first reason, guarded by its mutex.
final class FoundDamage: Sendable {
    private let first = Mutex<String?>(nil)

    /// The first damage that was found, in words for the log; `nil` if there is none.
    var reason: String? { first.withLock { $0 } }

    /// Notes damage, unless some was found before.
    func note(_ reason: String) {
        first.withLock { $0 = $0 ?? reason }
    }

    /// Notes a failure that is damage.
    func note(_ error: StorageError) {
        if case .damaged(let reason) = error { note(reason) }
    }

    /// Refuses to go on if something is damaged.
    ///
    /// - Throws: ``StorageError/damaged(_:)``.
    func check() throws(StorageError) {
        if let reason { throw .damaged(reason) }
    }
}
