import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A file whose lock keeps other processes away (`flock`).
struct LockFile {
    private let descriptor: Int32

    /// Opens or creates the file; `nil` if it cannot be.
    init?(_ path: String) {
        descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
    }

    /// Waits until nobody else has the lock, and takes it.
    func lock() { while flock(descriptor, LOCK_EX) != 0, errno == EINTR {} }

    /// Takes the lock unless somebody has it.
    func tryLock() -> Bool { flock(descriptor, LOCK_EX | LOCK_NB) == 0 }

    /// Gives the lock back, if it was taken.
    func close() { closeDescriptor(descriptor) }
}

// Outside of the type, whose own `close` would hide the system's.
private func closeDescriptor(_ descriptor: Int32) { close(descriptor) }
