/// The limits of the embedded driver.
///
/// The defaults are for one server with a disk of its own.
public struct SQLiteStorageOptions: Hashable, Sendable {
    /// Commands that may wait for the writer, or be with it; more are refused.
    ///
    /// Default: 10,000.
    public var queuedCommands = 10_000
    /// How many of them may be one account's; more are refused.
    ///
    /// Default: 1,250.
    public var queuedCommandsPerAccount = 1_250
    /// Commands that one transaction takes at most.
    ///
    /// Default: 512.
    public var batchedCommands = 512
    /// Reads that may wait for a connection; more are refused.
    ///
    /// Default: 10,000.
    public var queuedReads = 10_000
    /// Connections that read, each with a thread while it does.
    ///
    /// Default: 2.
    public var readers = 2
    /// Accounts whose profile and balance are kept in memory.
    ///
    /// Default: 100,000.
    public var cachedAccounts = 100_000
    /// Pages of 4 KiB in the log before the writer copies them into the database.
    ///
    /// Default: 4,000.
    public var checkpointPages = 4_000
    /// How long the opening waits while the data is examined; the rest is examined in the
    /// background.
    ///
    /// Default: 10 seconds.
    public var openingCheck: Duration = .seconds(10)
    /// Whether the data takes writes although files are missing or altered.
    ///
    /// Default: no.
    public var acceptsLostFiles: Bool
    /// How long a connection waits for a lock of SQLite's.
    ///
    /// Default: 5 seconds.
    public var busyTimeout: Duration = .seconds(5)
    /// Whole seconds after which someone refused may come back.
    ///
    /// Default: 1.
    public var retryAfterSeconds = 1

    /// Creates the defaults.
    public init() { acceptsLostFiles = false }
}
