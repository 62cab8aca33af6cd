import Synchronization

/// Whether an event has happened.
///
/// Mutable state: the flag, protected by a mutex.
final class GameFlag: Sendable {
    private let state: Mutex<Bool>

    init(isSet: Bool = false) { state = Mutex(isSet) }

    var isSet: Bool { state.withLock { $0 } }

    func set() { state.withLock { $0 = true } }
}
