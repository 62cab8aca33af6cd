import Synchronization

/// The numbers that a screen showed, in order.
final class Seen: Sendable {
    // Guarded by the mutex, because a watcher writes while the story reads.
    private let numbers = Mutex<[Int64]>([])

    /// Adds a number, and returns whether it differs from the last one.
    func add(_ number: Int64) -> Bool {
        numbers.withLock { numbers in
            guard numbers.last != number else { return false }
            numbers.append(number)
            return true
        }
    }

    var all: [Int64] { numbers.withLock { $0 } }

    /// Whether the number first decreased, as calls began, and then only increased.
    ///
    /// It increases because holds exceed charges. Any other sequence would confuse the user.
    var fellThenRose: Bool {
        let steps = zip(all.dropFirst(), all).map { $0 - $1 }
        return !steps.drop { $0 < 0 }.contains { $0 < 0 }
    }
}
