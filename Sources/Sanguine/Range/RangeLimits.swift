/// The limits of values that are indexed by days or numbers.
///
/// Every limit is declared here, with its unit.
public enum RangeLimits {
    /// The number of indices that one query keeps: 4,000.
    ///
    /// The least recently read ones are removed first.
    public static let indices = 4_000
    /// The number of indices that one read may request: 4,000.
    public static let readSpan = 4_000
    /// The number of indices of one request: 366.
    ///
    /// Longer ranges are fetched in several requests.
    public static let requestSpan = 366
    /// The number of known indices between two gaps that are fetched again to save a request: 7.
    public static let bridge = 7
    /// The number of recent reads that are remembered: 32.
    public static let recentReads = 32
    /// The number of queries whose state is kept, besides those in use: 256.
    public static let keepers = 256
}
