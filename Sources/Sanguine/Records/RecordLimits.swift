/// The limits and defaults of records, outbox and feed.
///
/// One place, with units.
public enum RecordLimits {
    /// Operations of both kinds that one user may have in the outbox, the refused among them:
    /// 10,000.
    public static let operations = 10_000
    /// Bytes of an operation's arguments, as JSON: 128 KiB.
    public static let operationBytes = 1 << 17
    /// Bytes of the operations in one push: 768 KiB.
    ///
    /// A quarter of the wire's limit is left for what is around them.
    public static let pushBytes = 3 << 18
    /// Pushes that are under way at the same time, each of other lanes: 4.
    public static let pushFlights = 4
    /// Changes that one pull asks for: 1,000.
    public static let pullChanges = 1_000
    /// How often the feed is pulled in the foreground, unless the configuration says otherwise: a
    /// minute.
    public static let pollInterval: Duration = .seconds(60)
    /// How long the live feed has to bring what a push has done, before it is pulled: 2 seconds.
    public static let echoWait: Duration = .seconds(2)
    /// The longest wait before a push or pull is tried again, before chance is added: a minute.
    public static let longestWait: Duration = .seconds(60)
    /// How long an operation waits for a server that knows its mutation, from the first refusal as
    /// `mutator_unknown`: 7 days.
    ///
    /// Then it is in the tray.
    public static let deploymentWait: Duration = .seconds(7 * 24 * 3_600)
    /// The longest wait before such an operation is sent again, before chance is added: 15 minutes.
    public static let longestDeploymentPause: Duration = .seconds(15 * 60)
    /// How often the files are looked at for what another process wrote, while records are
    /// observed: every second.
    public static let companionInterval: Duration = .seconds(1)
    /// Pulls in a row that may bring nothing that can be used: 3.
    public static let vainPulls = 3
    /// Mutations that are sent at the same time, each of another lane: 4.
    public static let mutationFlights = 4
    /// One sending of a mutation, with all its requests: a minute.
    ///
    /// While it sends a ``RequestBody``: how long nothing may be sent, see
    /// ``ClientLimits/uploadTimeout``.
    public static let mutationTimeout: Duration = .seconds(60)
    /// Answers to a mutation that are not its backend's, such as a proxy's page, before it is in
    /// the tray: 200.
    ///
    /// At the longest wait between two of them these are some three hours in the foreground.
    public static let foreignAnswers = 200
    /// Fetches in a row of a value that does not show yet that it contains a done mutation: 8.
    ///
    /// Then the next fetch of the value, whoever asks for it, is waited for.
    public static let settlingFetches = 8
    /// Temporary ids whose real ones are remembered after the mutations that named them: 1,000.
    ///
    /// Past it the oldest is forgotten.
    public static let replacedIds = 1_000
    /// Ranges of a long feed that are restored at the same time: 4.
    public static let restoreRanges = 4
    /// How long a feed must be for each of them: 2,000 numbers.
    public static let restoreRangeNumbers: Int64 = 2_000
    /// Records in memory that were read from the disk: 10,000.
    public static let cachedRecords = 10_000
    /// Bytes of their JSON: 16 MB.
    public static let cachedRecordBytes = 16_000_000
    /// How often a reading of several records begins again because they changed meanwhile: 3 times.
    ///
    /// Then it reads a copy.
    public static let readingTries = 3
}
