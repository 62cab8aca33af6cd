import Synchronization

/// The numbers that a screen showed, one after the other.
final class Seen: Sendable {
    // Guarded by the mutex: a watcher writes while the story reads.
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

    /// Whether the number fell while calls began, and after that only rose.
    ///
    /// It rises as holds turn out to be larger than charges. Anything else is a dance.
    var hasNoDance: Bool {
        let steps = zip(all.dropFirst(), all).map { $0 - $1 }
        return !steps.drop { $0 < 0 }.contains { $0 < 0 }
    }
}
