import SanguineAuthority
import Synchronization

/// The damage that was found since the data was opened.
///
/// Damaged data is not written: a wrong balance must not be spent, and a write to a broken tree
/// increases the damage. The writer checks before each piece of work, and the file store before
/// each change, so no other code needs to. Damage remains until the data is opened again, because a
/// successful write elsewhere does not show that the damaged page is intact.
///
/// Mutable state: the first reason, guarded by its mutex.
final class FoundDamage: Sendable {
    private let first = Mutex<String?>(nil)

    /// The first damage, in words for the log, or `nil` if there is none.
    var reason: String? { first.withLock { $0 } }

    /// Records damage, unless some is recorded already.
    func record(_ reason: String) {
        first.withLock { $0 = $0 ?? reason }
    }

    /// Records an error if it is damage.
    func record(_ error: StorageError) {
        if case .damaged(let reason) = error { record(reason) }
    }

    /// Throws if something is damaged.
    ///
    /// - Throws: ``StorageError/damaged(_:)``.
    func check() throws(StorageError) {
        if let reason { throw .damaged(reason) }
    }
}
