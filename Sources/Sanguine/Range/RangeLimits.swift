/// The limits of values that are indexed by days or numbers.
///
/// One place, with units.
public enum RangeLimits {
    /// Indices that one query keeps: 4,000.
    ///
    /// Those that were not read for longest go first.
    public static let indices = 4_000
    /// Indices that one reader may ask for at once: 4,000.
    public static let readSpan = 4_000
    /// Indices of one request: 366.
    ///
    /// More are asked for in several requests.
    public static let requestSpan = 366
    /// Known indices between two gaps that are asked for again to save a request: 7.
    public static let bridge = 7
    /// Ranges of which is remembered that they were read last: 32.
    public static let recentReads = 32
    /// Queries that are steered at a time, beside those in use: 256.
    public static let keepers = 256
}
