import SanguineModel

/// The client's limits and defaults.
///
/// Every limit is declared here, with its unit.
public enum ClientLimits {
    /// The timeout of one request, from sending to the last byte of the response: 30 seconds.
    public static let requestTimeout: Duration = .seconds(30)
    /// The timeout of a whole read, including all attempts and the waits between them: 60 seconds.
    public static let readTimeout: Duration = .seconds(60)
    /// The timeout of fetching the balance, including all attempts and the waits between them: 8
    /// seconds.
    public static let balanceTimeout: Duration = .seconds(8)
    /// The number of concurrent connections to one server: 32.
    ///
    /// A call of a language model may take a minute, and a read of the balance must not wait behind
    /// a handful of such calls.
    public static let connectionsPerHost = 32
    /// The number of concurrent reads of one host, unless configured otherwise: 6.
    public static let readsPerHost = 6
    /// The maximum number of concurrent reads of one host that can be configured: 16.
    ///
    /// That is half of the connections, so that calls always find one.
    public static let mostReadsPerHost = 16
    /// The number of prefetches among the concurrent reads of one host: 2.
    public static let prefetchesPerHost = 2
    /// The number of reads that wait for one host: 1,000.
    ///
    /// Beyond that, the newest of the lowest priority is refused.
    public static let waitingReadsPerHost = 1_000
    /// The number of times that reads of higher priority may overtake a line of reads: 8.
    public static let readPatience = 8
    /// The time for which requests count in the retry budget: a minute.
    public static let retryWindow: Duration = .seconds(60)
    /// The number of retries to one host in that time, however few its requests: 20.
    public static let retryReserve = 20
    /// The number of requests that allow one more retry: 10.
    public static let requestsPerRetry = 10
    /// The number of hosts whose retries are counted: 64.
    ///
    /// Beyond that, the least recently used one is forgotten.
    public static let retryHosts = 64
    /// The longest time for which `Retry-After` delays retries and prefetches of a host: 10
    /// minutes.
    public static let longestPause: Duration = .seconds(600)
    /// The number of ids in one request of a batch, unless declared otherwise: 100.
    public static let batchSize = 100
    /// The maximum number of ids in one request of a batch: 1,000.
    public static let largestBatch = 1_000
    /// The time for which the first lookup of a batch waits for others: 2 milliseconds.
    public static let batchWindow: Duration = .milliseconds(2)
    /// The longest such wait that can be declared: 1 second.
    public static let longestBatchWindow: Duration = .seconds(1)
    /// The maximum size of a response in bytes: 8 MiB.
    public static let responseBytes = 8 << 20
    /// The maximum size in bytes of a response that is a file, whose type is neither JSON nor text:
    /// 25 MiB.
    ///
    /// This is the size that may be uploaded (`WireLimits.blobBytes`). The file is held in memory.
    public static let fileBytes = WireLimits.blobBytes
    /// The maximum size in bytes of a ``RequestBody`` that is in memory while it is sent: 16 MiB.
    ///
    /// Files are not held in memory, see ``uploadBytes``.
    public static let requestBodyBytes = 16 << 20
    /// The maximum size in bytes of a ``RequestBody`` with files, which are read while it is sent:
    /// 2 GiB.
    ///
    /// A form with files temporarily takes as much space on disk.
    public static let uploadBytes: Int64 = 2 << 30
    /// The size in bytes above which an uploaded file is sent in parts, so that an upload can be
    /// resumed: 4 MiB.
    public static let resumableUploadBytes: Int64 = 4 << 20
    /// The size in bytes of such a part, which is held in memory: 2 MiB.
    public static let uploadPartBytes = 2 << 20
    /// The number of files of one user that can wait in the outbox for their upload: 200.
    public static let stagedFiles = 200
    /// The size in bytes of all these files together: 512 MiB.
    ///
    /// They are copied to the app's folder, so the app may remove its own.
    public static let stagedBytes: Int64 = 512 << 20
    /// The size in bytes of all these files together in a client that stores nothing on disk, see
    /// ``SanguineClient/Configuration/isInMemory``: 64 MiB.
    public static let stagedBytesInMemory: Int64 = 64 << 20
    /// The timeout of one request with a ``RequestBody`` while bytes are being sent: 6 hours.
    ///
    /// It ends earlier if no byte is sent for ``requestTimeout``.
    public static let uploadTimeout: Duration = .hours(6)
    /// The time for which a process waits for the lock of the files while another process of the
    /// app holds it: 2 seconds.
    ///
    /// The other process may be suspended. A call that waits longer fails with
    /// ``SanguineError/store(_:)``.
    public static let fileLockWait: Duration = .seconds(2)
    /// The time for which a write or a read waits for a database that another process of the app
    /// has locked: half a second.
    ///
    /// Reads on the main thread may wait behind the write. A call that waits longer fails with
    /// ``SanguineError/store(_:)``; no data is lost.
    public static let databaseLockWait: Duration = .milliseconds(500)
    /// The number of redirects that one request follows: 5.
    public static let redirects = 5
    /// The timeout of renewing an app's own token: a minute.
    ///
    /// See ``SanguineClient/Configuration/refresh``.
    public static let refreshTimeout: Duration = .seconds(60)
    /// The number of bytes of a response body that an error keeps: 4 KiB.
    ///
    /// The rest is dropped, because each refused operation keeps one in memory. See
    /// ``SanguineError/response``.
    public static let errorBodyBytes = 4 << 10
    /// The number of models that are retained for views that do not retain them: 64.
    ///
    /// Beyond that, the model that was retained first is released.
    public static let unheldModels = 64
    /// The time after a change within which such a view must request its model again: 10 seconds.
    public static let unheldModelGrace: Duration = .seconds(10)
    /// The time after its arrival for which a value may be shown, unless its policy sets another:
    /// 30 days.
    public static let keep: Duration = .hours(30 * 24)
    /// The maximum size in bytes of the values in memory: 32 MB.
    public static let memoryBytes = 32_000_000
    /// The number of bytes that a cache entry counts in addition to its value.
    public static let entryOverheadBytes = 256
    /// The number of invalidations by prefix, tag or dependency that are remembered at a time: 256.
    ///
    /// Beyond that, they are applied to every entry in memory.
    public static let invalidationMarks = 256
    /// The maximum size in bytes of the values on disk: 64 MB.
    ///
    /// The oldest are removed first.
    public static let diskBytes: Int64 = 64_000_000
    /// The maximum size in bytes of one value on disk: 4 MiB.
    ///
    /// A larger value stays in memory.
    public static let diskEntryBytes = 4 << 20
    /// The number of values that wait to be encoded and written to disk: 1,024.
    ///
    /// Beyond that, writers wait for the disk.
    public static let unwrittenEntries = 1_024
    /// The number of consecutive automatic retries of a failing store: 10.
    ///
    /// After that, it is retried at the next write, event or close.
    public static let storeRetries = 10
    /// The longest wait between two of these retries, after 1, 2, 4 … seconds: a minute.
    public static let longestStoreRetry: Duration = .seconds(60)
    /// The time for which waiting operations are kept after a sign-out, unless
    /// ``SanguineClient/signOut(keeping:)`` sets another: 90 days.
    public static let waitingOperationsKept: Duration = .hours(90 * 24)
    /// The maximum part of that time that counts between two readings of the device's clock, at
    /// launches, sign-ins and sign-outs: 7 days.
    ///
    /// The clock may be wrong: a launch with a clock that is years ahead must not end the time.
    public static let countedGap: Duration = .hours(7 * 24)
    /// The maximum size in bytes of a user's id in ``SanguineClient/signIn(as:)``: 256.
    public static let userIDBytes = 256
}
