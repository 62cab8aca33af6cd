import SanguineModel

/// The client's limits and defaults.
///
/// One place, with units.
public enum ClientLimits {
    /// One request, from sending to the last byte of the answer: 30 seconds.
    public static let requestTimeout: Duration = .seconds(30)
    /// A whole read with all its attempts and the waits between them: 60 seconds.
    public static let readTimeout: Duration = .seconds(60)
    /// A fetch of the balance with all its attempts and the waits between them: 8 seconds.
    public static let balanceTimeout: Duration = .seconds(8)
    /// Connections to one server at a time: 32.
    ///
    /// A call of a language model may take a minute, and a read of the balance must not wait behind
    /// a handful of them.
    public static let connectionsPerHost = 32
    /// Reads under way to one host, unless the configuration says otherwise: 6.
    public static let readsPerHost = 6
    /// Reads under way to one host that a configuration may allow: 16.
    ///
    /// Half of the connections: calls always find one.
    public static let mostReadsPerHost = 16
    /// Of the reads under way to one host, those that are prefetches: 2.
    public static let prefetchesPerHost = 2
    /// Reads that wait for one host: 1,000.
    ///
    /// Past it the youngest of the lowest priority is refused.
    public static let waitingReadsPerHost = 1_000
    /// How often a line of reads is passed over by those of higher priority: 8 times.
    public static let readPatience = 8
    /// How long requests count for the budget of retries: a minute.
    public static let retryWindow: Duration = .seconds(60)
    /// Retries to one host in that time, however few its requests: 20.
    public static let retryReserve = 20
    /// Requests that allow one retry more: 10.
    public static let requestsPerRetry = 10
    /// Hosts whose retries are counted: 64.
    ///
    /// Past it the one asked least recently is forgotten.
    public static let retryHosts = 64
    /// How long `Retry-After` keeps retries and prefetches from a host: 10 minutes.
    public static let longestPause: Duration = .seconds(600)
    /// Ids in one request of a batch, unless its declaration says otherwise: 100.
    public static let batchSize = 100
    /// Ids in one request of a batch: 1,000.
    public static let largestBatch = 1_000
    /// How long the first look-up of a batch waits for others: 2 milliseconds.
    public static let batchWindow: Duration = .milliseconds(2)
    /// How long a declaration may let it wait: 1 second.
    public static let longestBatchWindow: Duration = .seconds(1)
    /// Bytes of an answer: 8 MiB.
    public static let responseBytes = 8 << 20
    /// Bytes of an answer that is a file, of a type that is neither JSON nor text: 25 MiB.
    ///
    /// As much as may be uploaded (`WireLimits.blobBytes`). It is in memory.
    public static let fileBytes = WireLimits.blobBytes
    /// Bytes of a ``RequestBody`` that are in memory while it is sent: 16 MiB.
    ///
    /// Files are not, see ``uploadBytes``.
    public static let requestBodyBytes = 16 << 20
    /// Bytes of a ``RequestBody`` with files, which are read while it is sent: 2 GiB.
    ///
    /// A form with files needs as much room on the disk meanwhile.
    public static let uploadBytes: Int64 = 2 << 30
    /// How long one request with a ``RequestBody`` may take, as long as bytes are sent: 6 hours.
    ///
    /// Without any for ``requestTimeout`` it ends.
    public static let uploadTimeout: Duration = .hours(6)
    /// How long a process waits for the lock of the files that another process of the app holds:
    /// 2 seconds.
    ///
    /// The other process may be suspended. What waits then fails with ``SanguineError/store(_:)``.
    public static let fileLockWait: Duration = .seconds(2)
    /// How long a write or a read waits for a database that another process of the app has locked:
    /// half a second.
    ///
    /// Reads on the main thread may wait behind the write. What waits then fails with
    /// ``SanguineError/store(_:)``; nothing is lost.
    public static let databaseLockWait: Duration = .milliseconds(500)
    /// Redirects of one request that are followed: 5.
    public static let redirects = 5
    /// How long the renewal of an app's own token may take: a minute.
    ///
    /// See ``SanguineClient/Configuration/refresh``.
    public static let refreshTimeout: Duration = .seconds(60)
    /// Bytes of the body that an error keeps: 4 KiB.
    ///
    /// What comes behind is left out: each refused operation keeps one in memory. See
    /// ``SanguineError/response``.
    public static let errorBodyBytes = 4 << 10
    /// Models that are kept for views which follow them and hold none: 64.
    ///
    /// Past it the one kept longest is let go.
    public static let unheldModels = 64
    /// How long after a change such a view may take to ask for its model again: 10 seconds.
    public static let unheldModelGrace: Duration = .seconds(10)
    /// How long after its arrival a value may be shown, unless its policy says otherwise: 30 days.
    public static let keep: Duration = .hours(30 * 24)
    /// Bytes of values in memory: 32 MB.
    public static let memoryBytes = 32_000_000
    /// Bytes that an entry of the cache costs beside its value.
    public static let entryOverheadBytes = 256
    /// Invalidations by prefix, tag or dependency that are remembered at a time: 256.
    ///
    /// Past it they are applied to every entry in memory, which costs a walk over all of them.
    public static let invalidationMarks = 256
    /// Bytes of values on disk: 64 MB.
    ///
    /// The oldest go first.
    public static let diskBytes: Int64 = 64_000_000
    /// Bytes of one value on disk: 4 MiB.
    ///
    /// A larger one stays in memory.
    public static let diskEntryBytes = 4 << 20
    /// Values that wait to be measured and written to disk: 1,024.
    ///
    /// Past it writers wait for the disk.
    public static let unwrittenEntries = 1_024
    /// How often in a row a store that fails is tried again by itself: 10 times.
    ///
    /// After that with the next write, event or close.
    public static let storeRetries = 10
    /// The longest wait between two of those tries, after 1, 2, 4 … seconds: a minute.
    public static let longestStoreRetry: Duration = .seconds(60)
    /// How long what a user leaves waiting at a sign-out is kept for their return, unless
    /// ``SanguineClient/signOut(keeping:)`` says otherwise: 90 days.
    public static let waitingOperationsKept: Duration = .hours(90 * 24)
    /// How much of it counts between two readings of the device's clock, at launches, sign-ins and
    /// sign-outs: 7 days.
    ///
    /// The clock may be wrong: a launch with one that is years ahead must not end the time.
    public static let countedGap: Duration = .hours(7 * 24)
    /// Bytes of a user's id in ``SanguineClient/signIn(as:)``: 256.
    public static let userIDBytes = 256
}
