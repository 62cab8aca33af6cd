/// The limits of threads on a device.
///
/// Those that the server shares are in `ThreadLimits`.
public enum MessageLimits {
    /// The number of messages in a page of a thread: 50.
    public static let page = 50
    /// The maximum number of messages that a ``ThreadModel`` holds: 500.
    ///
    /// Beyond that, those at the other end are released, and loaded again on demand.
    public static let window = 500
    /// The number of questions of this device that may wait for the feed: 1,000.
    ///
    /// Beyond that, the oldest that were sent are shown only when the feed brings them.
    public static let pending = 1_000
    /// The size of these questions with their answers, in bytes: 2 MiB.
    ///
    /// Beyond that, the oldest that were sent are shown only when the feed brings them. A question
    /// is refused if there is no room, because the others wait for a network.
    public static let pendingBytes = 2 << 20
    /// The number of answers of other devices that a ``ThreadModel`` reads at once while they are
    /// made: 4.
    public static let followedAnswers = 4
    /// The default number of results of a search: 50.
    public static let searchResults = 50
    /// The maximum number of results of a search: 200.
    public static let mostSearchResults = 200
    /// The number of words of a search that count: 8.
    public static let searchWords = 8
    /// The number of places in the index that a search examines: 2,000.
    ///
    /// Fewer results may be found if more places belong to other areas or to deleted threads;
    /// ``ThreadSearch/isComplete`` is `false` then.
    public static let searchedPlaces = 2_000
    /// The number of characters of a word that count: 48.
    static let wordCharacters = 48
    /// The number of different words of a message that are found.
    static let indexedWords = 4_096
    /// The size that a pending question counts as, without its texts, in bytes.
    static let exchangeBytes = 512
    /// The number of records that pending questions read at once; more are read in steps, in the
    /// background.
    static let reconcileStep = 100
    /// The number of records that are compared with the index in one step.
    static let indexStep = 200
    /// The size of the records that are read at once to be indexed, in bytes of JSON: 1 MiB.
    ///
    /// At least one record is read.
    static let indexStepBytes = 1 << 20
    /// The number of changed records that wait to be indexed; beyond that, all are compared.
    static let waitingForIndex = 10_000
}
