import Synchronization

/// Keeps the device's identity for as long as the client lives: for tests, and for clients that
/// leave no trace.
final class MemoryIdentityVault: IdentityVault {
    // The only mutable state, guarded by the mutex.
    private let kept = Mutex<DeviceIdentity?>(nil)

    /// Creates a vault that makes an identity when it is first asked.
    init() {}

    func identity() -> DeviceIdentity {
        kept.withLock { kept in
            let identity = kept ?? .random()
            kept = identity
            return identity
        }
    }

    func erase() { kept.withLock { $0 = nil } }
}
