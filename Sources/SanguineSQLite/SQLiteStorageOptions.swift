/// The limits of the SQLite driver.
///
/// The defaults are intended for one server with its own disk.
public struct SQLiteStorageOptions: Hashable, Sendable {
    /// The number of commands that may wait for the writer or run; further commands are refused.
    ///
    /// Default: 10,000.
    public var queuedCommands = 10_000
    /// The number of those commands that may belong to one account; further commands are refused.
    ///
    /// Default: 1,250.
    public var queuedCommandsPerAccount = 1_250
    /// The maximum number of commands in one transaction.
    ///
    /// Default: 512.
    public var batchedCommands = 512
    /// The number of reads that may wait for a connection; further reads are refused.
    ///
    /// Default: 10,000.
    public var queuedReads = 10_000
    /// The number of reading connections, each with a thread while it reads.
    ///
    /// Default: 2.
    public var readers = 2
    /// The number of accounts whose profile and balance are cached.
    ///
    /// Default: 100,000.
    public var cachedAccounts = 100_000
    /// The number of 4 KiB pages in the log before the writer copies them into the database.
    ///
    /// Default: 4,000.
    public var checkpointPages = 4_000
    /// The longest time that opening waits while the data is examined; the rest is examined in the
    /// background.
    ///
    /// Default: 10 seconds.
    public var openingCheck: Duration = .seconds(10)
    /// Whether the data may be changed although files are missing or altered.
    ///
    /// Default: no.
    public var acceptsLostFiles: Bool
    /// Whether the bytes of files are in another store, such as a bucket, instead of the folder.
    ///
    /// The folder remembers it, so that checks and backups do not expect them. Opening fails if
    /// files are in the other place. Default: no.
    public var storesFilesElsewhere: Bool
    /// The time that a connection waits for a lock of SQLite.
    ///
    /// Default: 5 seconds.
    public var busyTimeout: Duration = .seconds(5)
    /// The number of whole seconds after which a refused caller may retry.
    ///
    /// Default: 1.
    public var retryAfterSeconds = 1

    /// Creates the default options.
    public init() { (acceptsLostFiles, storesFilesElsewhere) = (false, false) }
}
