/// A random number generator that reproduces its numbers exactly for the same seed.
///
/// Pass the seed as a test's argument, so that a failure shows it:
///
/// ```swift
/// @Test(arguments: 1...20)
/// func `every note arrives in spite of failures`(seed: UInt64) {
///     var random = SplitMix64(seed: seed)
///     …
/// }
/// ```
///
/// The algorithm is Sebastiano Vigna's. It is fast and well distributed, but not cryptographically
/// secure.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Creates a generator.
    ///
    /// Equal seeds give equal numbers.
    public init(seed: UInt64) { state = seed }

    /// Returns 64 random bits.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return bits ^ (bits >> 31)
    }
}
