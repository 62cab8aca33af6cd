// The mutex of builds that run under the thread sanitizer.

import Glibc  // tidy: allow import: compiled into targets of sanitizer builds only.

/// A mutex with the interface of `Synchronization.Mutex`, on `pthread_mutex_t`.
///
/// On Linux `Synchronization.Mutex` is a futex that the thread sanitizer does not know: it reports
/// every access that such a mutex guards as a race. It does know `pthread_mutex_t`. The manifest
/// compiles a copy of this file into each target of a build that runs under the sanitizer, where
/// the copy hides the standard library's type. No other build contains it.
struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    // Sendable: the value is read and written between lock and unlock only.
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let value: UnsafeMutablePointer<Value>

    /// Creates an unlocked mutex that guards a value.
    init(_ initial: consuming sending Value) {
        lock = .allocate(capacity: 1)
        pthread_mutex_init(lock, nil)
        value = .allocate(capacity: 1)
        value.initialize(to: initial)
    }

    deinit {
        value.deinitialize(count: 1)
        value.deallocate()
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    /// Waits for the lock and runs a closure that holds it.
    borrowing func withLock<Result: ~Copyable, E: Error>(
        _ body: (inout sending Value) throws(E) -> sending Result
    ) throws(E) -> sending Result {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        nonisolated(unsafe) let pointer = value
        return try body(&pointer.pointee)
    }

    /// Runs a closure that holds the lock; returns `nil` at once if another thread holds it.
    borrowing func withLockIfAvailable<Result: ~Copyable, E: Error>(
        _ body: (inout sending Value) throws(E) -> sending Result
    ) throws(E) -> sending Result? {
        guard pthread_mutex_trylock(lock) == 0 else { return nil }
        defer { pthread_mutex_unlock(lock) }
        nonisolated(unsafe) let pointer = value
        return try body(&pointer.pointee)
    }
}
