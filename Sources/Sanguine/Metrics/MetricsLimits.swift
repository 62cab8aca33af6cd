/// The limits of the client's metrics.
public enum MetricsLimits {
    /// The number of names of each kind that are counted separately: 256.
    ///
    /// All further names are counted together as `other`.
    public static let names = 256
    /// The maximum number of characters of a name: 100.
    ///
    /// A longer name is truncated.
    public static let nameCharacters = 100
    /// The maximum number of characters of an outcome's code: 64.
    ///
    /// A longer code, or one with characters that codes do not have, is reported as `other`.
    public static let codeCharacters = 64
    /// The duration beyond which an operation is marked in the summary and logged: 1 second.
    public static let slow: Duration = .seconds(1)
    /// The longest duration in percentiles: 10 minutes.
    ///
    /// In percentiles, a longer duration counts as this long. The maximum is stored exactly.
    public static let longestDuration: Duration = .seconds(600)
    /// The number of histogram buckets for each doubling, starting at 256 microseconds: 128, a
    /// power of two.
    ///
    /// With it, percentiles are accurate to one percent, and the durations of a name take 12 KiB.
    public static let bucketsPerDoubling = 128
    /// The number of events that wait for a slow observer: 1,024.
    ///
    /// Further events are counted and reported as ``ClientEvent/overlooked(events:)``.
    public static let waitingEvents = 1_024
    /// The maximum size in bytes of ``SanguineClient/debugReport()``: 16 KiB.
    public static let reportBytes = 16 << 10
    /// The number of lines of each list in the report: 20.
    ///
    /// The number of the others is shown.
    public static let reportRows = 20
    /// The number of characters of a line of the report: 160.
    public static let reportColumns = 160
}
