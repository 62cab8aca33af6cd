/// What bounds the live feed.
public enum FeedLimits {
    /// Bytes of one event: 1 MiB.
    public static let eventBytes = 1 << 20
    /// How long a connection may be silent: 50 seconds, two and a half of the server's pings.
    public static let silence = Duration.seconds(50)
    /// After how long a connection is made again that has ended, unless the server says otherwise:
    /// 2 seconds.
    public static let retry = Duration.seconds(2)
    /// The longest wait between attempts, before chance is added: 1 minute.
    public static let longestRetry = Duration.seconds(60)
    /// By what part of itself a wait may be longer by chance: half.
    public static let jitter = 0.5
    /// How long a connection must have lasted not to count as a failure: 10 seconds.
    public static let lasting = Duration.seconds(10)
    /// Failures in a row after which the feed is polled as well: 3.
    public static let failuresBeforePolling = 3
    /// Changes that are taken in at once: 256.
    ///
    /// An operation's changes are never parted, so there may be a few more.
    public static let batchedChanges = 256
    /// Changes that may wait for the end of an operation: 1,000.
    public static let waitingChanges = 1_000
}
