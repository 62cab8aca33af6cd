import SanguineModel

/// Limits of live connections that an operator cannot change.
public enum LiveLimits {
    /// The number of events that an account's connections share, and the limit of one read: 256.
    public static let sharedEvents = 256
    /// The size in bytes of the shared events of each account: 256 KiB.
    ///
    /// A reader that is further behind reads separately.
    public static let sharedBytes = 1 << 18
    /// The size in bytes of one write, which has the whole timeout: 64 KiB.
    public static let writeBytes = 1 << 16
    /// The delay before a client reconnects after it lost the connection: 2 seconds.
    public static let retry = Duration.seconds(2)
    /// The maximum delay before a client reconnects after a shutdown: 10 seconds.
    ///
    /// Each client gets a different delay, so that they do not all reconnect at once.
    public static let retryAfterShutdown = Duration.seconds(10)
    /// The time limit of a write during shutdown: 1 second.
    public static let writeAtShutdown = Duration.seconds(1)
    /// The delay before a refused client may retry: 30 seconds.
    public static let retryAfterRefusal = Duration.seconds(30)
    /// The lifetime of a ticket: 60 seconds.
    public static let ticketLife = Duration.seconds(60)
    /// The number of tickets: 10,000.
    ///
    /// While this many exist, requests for tickets are refused until some expire.
    public static let tickets = 10_000
    /// The number of tickets of an account: 32.
    ///
    /// Another ticket invalidates the oldest one.
    public static let ticketsPerAccount = 32
    /// The number of accounts that a change of the switches wakes at once, and then each second,
    /// unless ``switchesTime`` requires more: 200.
    public static let accountsWokenAtOnce = 200
    /// The longest time between two notes of a live connection that lists which everyone may read
    /// have changed: 10 seconds.
    ///
    /// It is a second for each ``accountsWokenAtOnce`` connections, so that the requests that
    /// follow a change are spread.
    public static let listNotes = Duration.seconds(10)
    /// The number of accounts for which changed lists of records that name them as readers are
    /// remembered, for the connections that they open within ``listNotes``: 10,000.
    ///
    /// Beyond it all are forgotten; a reader whose connection is opened later sees the change with
    /// its next refresh.
    public static let rememberedReaders = 10_000
    /// The time in which a change of the switches wakes all live connections: 10 seconds.
    public static let switchesTime = Duration.seconds(10)
}
