/// The limits of the live feed.
public enum FeedLimits {
    /// The size of one event, in bytes: 1 MiB.
    public static let eventBytes = 1 << 20
    /// The time for which a connection may be silent: 50 seconds, two and a half of the server's
    /// ping intervals.
    public static let silence = Duration.seconds(50)
    /// The delay before a new connection, unless the server names one: 2 seconds.
    public static let retry = Duration.seconds(2)
    /// The longest delay between attempts, before the random part is added: 1 minute.
    public static let longestRetry = Duration.seconds(60)
    /// The largest random addition to a delay, as a fraction of it: half.
    public static let jitter = 0.5
    /// The time a connection must last in order not to count as a failure: 10 seconds.
    public static let lasting = Duration.seconds(10)
    /// The number of consecutive failures after which the feed is also polled: 3.
    public static let failuresBeforePolling = 3
    /// The time for which a shown list may wait for its first connection without being refreshed
    /// when it opens: 5 seconds.
    ///
    /// The server announces the changes of the ten seconds before a connection.
    public static let listGap = Duration.seconds(5)
    /// The number of changes that are delivered at once: 256.
    ///
    /// An operation's changes are never split, so there may be a few more.
    public static let batchedChanges = 256
    /// The number of changes that may wait for the end of an operation: 1,000.
    public static let waitingChanges = 1_000
}
