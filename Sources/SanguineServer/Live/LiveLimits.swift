import SanguineModel

/// What bounds live connections beside what an operator can set.
public enum LiveLimits {
    /// Events that an account's connections share, and that one read asks for: 256.
    public static let sharedEvents = 256
    /// Bytes of shared events, of each account: 256 KiB.
    ///
    /// A reader that is behind them reads for itself.
    public static let sharedBytes = 1 << 18
    /// Bytes of one write, each of which has the whole time-out: 64 KiB.
    public static let writeBytes = 1 << 16
    /// After how long a client connects again that has lost the connection: 2 seconds.
    public static let retry = Duration.seconds(2)
    /// The same at most where the server stops: 10 seconds.
    ///
    /// Each client is given another time, so that they do not come back at once.
    public static let retryAfterShutdown = Duration.seconds(10)
    /// How long a write may still take once the server stops: 1 second.
    public static let writeAtShutdown = Duration.seconds(1)
    /// After how long those who are refused may come back: 30 seconds.
    public static let retryAfterRefusal = Duration.seconds(30)
    /// How long a ticket is valid: 60 seconds.
    public static let ticketLife = Duration.seconds(60)
    /// Tickets at a time: 10,000.
    ///
    /// Past it those who ask are refused until some have expired.
    public static let tickets = 10_000
    /// Tickets of an account at a time: 32.
    ///
    /// One more ends the oldest.
    public static let ticketsPerAccount = 32
}
