/// The limits of what the client measures.
///
/// One place, with units.
public enum MetricsLimits {
    /// Names of each kind that are counted by themselves: 256.
    ///
    /// What has a further name is counted together, as `other`.
    public static let names = 256
    /// Characters of a name: 100.
    ///
    /// A longer one is cut.
    public static let nameCharacters = 100
    /// Characters of an outcome's code: 64.
    ///
    /// A longer one, or one of other characters than codes have, is told as `other`.
    public static let codeCharacters = 64
    /// What takes longer stands out in the summary, and in the log: 1 second.
    public static let slow: Duration = .seconds(1)
    /// The longest duration that percentiles know: 10 minutes.
    ///
    /// A longer one counts as that long; the longest itself is kept as it is.
    public static let longestDuration: Duration = .seconds(600)
    /// Buckets of durations for each doubling, from 256 microseconds on: 128, a power of two.
    ///
    /// So percentiles are right to a hundredth, and a name's durations take 12 KiB.
    public static let bucketsPerDoubling = 128
    /// Events that wait for a slow observer: 1,024.
    ///
    /// Further ones are counted, and told as ``ClientEvent/overlooked(events:)``.
    public static let waitingEvents = 1_024
}
