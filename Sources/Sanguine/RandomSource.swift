import Synchronization

/// A shared source of random numbers: the system's, or a seeded one that repeats a run.
///
/// Copies share their state. It may be used from any thread.
public struct RandomSource: RandomNumberGenerator, Sendable {
    // `generator` is the only mutable state, guarded by its lock.
    private final class Box: Sendable {
        let generator: Mutex<any RandomNumberGenerator & Sendable>

        init(_ generator: any RandomNumberGenerator & Sendable) {
            self.generator = Mutex(generator)
        }
    }

    private let box: Box

    /// Wraps a generator.
    public init(_ generator: any RandomNumberGenerator & Sendable) { box = Box(generator) }

    /// The system's random numbers.
    public static let system = RandomSource(SystemRandomNumberGenerator())

    /// Returns 64 random bits.
    public mutating func next() -> UInt64 { box.generator.withLock { $0.next() } }
}
