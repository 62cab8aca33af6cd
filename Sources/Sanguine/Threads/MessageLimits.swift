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
    /// Beyond that, the oldest are shown only when the feed brings them.
    public static let pending = 1_000
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
    /// Fewer results may be found if more places belong to other areas or to deleted threads.
    public static let searchedPlaces = 2_000
    /// The number of characters of a word that count: 48.
    static let wordCharacters = 48
    /// The number of different words of a message that are found.
    static let indexedWords = 4_096
    /// The number of records that are compared with the index in one step.
    static let indexStep = 200
    /// The number of changed records that wait to be indexed; beyond that, all are compared.
    static let waitingForIndex = 10_000
}
