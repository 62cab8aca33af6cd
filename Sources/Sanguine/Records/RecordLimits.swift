/// The limits and defaults of records, outbox and feed.
///
/// Every limit is declared here, with its unit.
public enum RecordLimits {
    /// The number of operations of both kinds that one user may have in the outbox, including
    /// refused ones: 10,000.
    public static let operations = 10_000
    /// The maximum size in bytes of an operation's arguments, as JSON: 128 KiB.
    public static let operationBytes = 1 << 17
    /// The maximum size in bytes of the operations in one push: 768 KiB.
    ///
    /// A quarter of the wire's limit is left for the rest of the request.
    public static let pushBytes = 3 << 18
    /// The number of concurrent pushes, each of different lanes: 4.
    public static let concurrentPushes = 4
    /// The number of changes that one pull requests: 1,000.
    public static let pullChanges = 1_000
    /// The interval at which the feed is pulled in the foreground, unless configured otherwise: a
    /// minute.
    public static let pollInterval: Duration = .seconds(60)
    /// The time in which the live feed has to deliver a push's changes before a pull fetches them:
    /// 2 seconds.
    public static let echoWait: Duration = .seconds(2)
    /// The longest wait before a push or pull is retried, before jitter is added: a minute.
    public static let longestWait: Duration = .seconds(60)
    /// The time for which an operation waits for a server that knows its mutation, counted from the
    /// first refusal as `mutator_unknown`: 7 days.
    ///
    /// After that, it moves to the tray.
    public static let deploymentWait: Duration = .seconds(7 * 24 * 3_600)
    /// The longest wait before such an operation is sent again, before jitter is added: 15 minutes.
    public static let longestDeploymentPause: Duration = .seconds(15 * 60)
    /// The interval at which the files are checked for another process's writes while records are
    /// observed: a second.
    public static let companionInterval: Duration = .seconds(1)
    /// The number of consecutive pulls that may bring nothing usable: 3.
    public static let vainPulls = 3
    /// The number of mutations that are sent concurrently, each in a different lane: 4.
    public static let concurrentMutations = 4
    /// The number of files of the outbox that are uploaded concurrently: 2.
    public static let concurrentUploads = 2
    /// The time limit for sending a mutation once, with all its requests: a minute.
    ///
    /// While it sends a ``RequestBody``, this limits the time without progress; see
    /// ``ClientLimits/uploadTimeout``.
    public static let mutationTimeout: Duration = .seconds(60)
    /// The number of responses to a mutation from something other than its backend, such as a
    /// proxy's page, after which it moves to the tray: 200.
    ///
    /// With the longest wait between them, that takes about three hours in the foreground.
    public static let foreignAnswers = 200
    /// The number of consecutive fetches of a value that does not yet contain an applied
    /// mutation: 8.
    ///
    /// After that, the value's next fetch for any other reason is awaited.
    public static let settlingFetches = 8
    /// The number of temporary ids whose real ones are remembered after the mutations that named
    /// them, and the number of uploaded files whose ids are: 1,000 each.
    ///
    /// Beyond that, the oldest is forgotten.
    public static let replacedIds = 1_000
    /// The number of ranges of a long feed that are restored concurrently: 4.
    public static let restoreRanges = 4
    /// The length of the first of these ranges: 1,000 numbers.
    ///
    /// Later ranges are longer where numbers are missing, so that each fills about a page.
    public static let restoreRangeNumbers: Int64 = 1_000
    /// The number of these ranges after which the changes since the restore began are fetched: 32.
    public static let restoreRoundRanges = 32
    /// The size in bytes of restored records after which SQLite's log is copied to the file: 4 MB.
    public static let logBytes = 4_000_000
    /// The number of pages that a ``RecordPager`` holds: 5.
    public static let pagerPages = 5
    /// The number of records from the disk that are cached in memory: 10,000.
    public static let cachedRecords = 10_000
    /// The maximum size in bytes of their JSON: 16 MB.
    public static let cachedRecordBytes = 16_000_000
    /// The number of times that reading several records is tried while they change: 3.
    ///
    /// After that, a copy is read.
    public static let readingTries = 3
}
