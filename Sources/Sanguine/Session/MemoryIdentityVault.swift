import Synchronization

/// Keeps the device's identity for the client's lifetime: for tests, and for clients without
/// persistent data.
final class MemoryIdentityVault: IdentityVault {
    // The only mutable state, guarded by the mutex.
    private let kept = Mutex<DeviceIdentity?>(nil)

    /// Creates a vault that creates an identity when it is first used.
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
