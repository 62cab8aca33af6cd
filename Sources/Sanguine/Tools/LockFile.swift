import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A file whose lock excludes other processes (`flock`).
struct LockFile {
    private let descriptor: Int32
    private let onClose: @Sendable () -> Void

    /// Opens or creates the file; `nil` if that fails.
    ///
    /// - Parameters:
    ///   - path: The path of the file.
    ///   - onClose: Called when the lock was released. Default: does nothing.
    init?(_ path: String, onClose: @escaping @Sendable () -> Void = {}) {
        self.onClose = onClose
        descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
    }

    /// Waits for the lock for a bounded time, because the process that holds it may be suspended.
    ///
    /// - Parameter limit: The longest wait.
    /// - Returns: Whether it was acquired.
    func lock(within limit: Duration) -> Bool {
        for _ in 0..<max(1, Int(limit / Self.pause)) {
            if tryLock() { return true }
            usleep(Self.pauseMicroseconds)
        }
        return tryLock()
    }

    private static let pauseMicroseconds: UInt32 = 5_000
    private static let pause = Duration.microseconds(Int64(pauseMicroseconds))

    /// Acquires the lock unless it is held.
    func tryLock() -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }

    /// Releases the lock, if it was acquired, and closes the file.
    func close() {
        closeDescriptor(descriptor)
        onClose()
    }
}

// Outside of the type, because its own `close` would hide the system's.
private func closeDescriptor(_ descriptor: Int32) { close(descriptor) }
