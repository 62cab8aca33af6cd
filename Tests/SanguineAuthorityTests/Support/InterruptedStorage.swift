import SanguineModel
import Synchronization
import TestSupport

@testable import SanguineAuthority

/// A storage that performs another request between a look-up and the command that depends on it.
final class InterruptedStorage: StorageDecorator {
    private typealias Interruption = (key: Key, body: @Sendable () async -> Void)

    let inner = MemoryStorage()
    private let next = Mutex<Interruption?>(nil)
    private let interruptions = Mutex(0)

    /// Whether the other request was performed, once.
    var wasInterrupted: Bool { interruptions.withLock { $0 } == 1 }

    /// Performs the other request after the next look-up of a row.
    func interruptNextLook(at key: Key, _ body: @escaping @Sendable () async -> Void) {
        next.withLock { $0 = (key, body) }
    }

    func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        let loaded = try await inner.load(keys)
        let body = next.withLock { next -> (@Sendable () async -> Void)? in
            guard let interruption = next, keys.contains(interruption.key) else { return nil }
            next = nil
            return interruption.body
        }
        if let body {
            interruptions.withLock { $0 += 1 }
            await body()
        }
        return loaded
    }
}
