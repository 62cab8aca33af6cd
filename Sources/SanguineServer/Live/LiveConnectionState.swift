/// Decides the next step of a live connection.
///
/// It has no buffer: it only stores the position of its reader. It performs no work itself; it gets
/// wakes, writes and the time as input, and returns the next step.
///
/// Invariants:
///
/// 1. The position is that of the last page that was written completely; only a reset lowers it.
/// 2. A wake that arrives while the connection reads or writes is not lost.
/// 3. After the end there is no other step.
struct LiveConnectionState: Sendable {
    /// The next step.
    enum Step: Equatable {
        /// Read the feed after the position and write the result.
        case read
        /// Write a comment, so that both sides detect a lost connection.
        case ping
        /// Write that lists of the collections have changed.
        case lists([String])
        case end(Ending)
    }

    /// The reason why a connection ends.
    enum Ending: Equatable {
        /// The client closed it.
        case closed
        /// A write took too long.
        case slow
        /// Its access token expired, or its session ended.
        case unauthenticated
        /// The account no longer exists.
        case accountGone
        case shutdown
    }

    /// The position of the reader.
    private(set) var position: FeedPosition
    private var hasNews = true
    /// The collections whose lists the reader shows.
    private let lists: Set<String>
    /// The number of the last check of the time in which they were compared.
    private var listsSeen: Int
    /// Those of them whose change is not announced yet.
    private var changedLists: Set<String> = []
    private var isResting = false
    private var lastWrite: Duration
    private var writingSince: Duration?
    private var pingDue = false
    private var ending: Ending?

    init(
        position: FeedPosition,
        lists: Set<String> = [],
        listsSeen: Int = 0,
        now: Duration
    ) {
        self.position = position
        self.lists = lists
        self.listsSeen = listsSeen
        lastWrite = now
    }

    /// Removes and returns the next step; `nil` if there is nothing to do yet.
    mutating func nextStep() -> Step? {
        if let ending { return .end(ending) }
        if hasNews, !isResting {
            hasNews = false
            return .read
        }
        if !changedLists.isEmpty {
            defer { changedLists = [] }
            return .lists(changedLists.sorted())
        }
        guard pingDue else { return nil }
        pingDue = false
        // A commit with an unknown outcome wakes no connection.
        hasNews = true
        return .ping
    }

    /// Records that the account has new changes.
    mutating func wake() { hasNews = true }

    /// Records that lists of a collection have changed.
    mutating func listChanged(_ name: String) {
        if lists.contains(name) { changedLists.insert(name) }
    }

    /// Records the changes of lists since the last comparison.
    ///
    /// - Parameters:
    ///   - changed: The collections, with the number of the check before which each has changed.
    ///   - check: The number of this check.
    mutating func compareLists(_ changed: [String: Int], at check: Int) {
        for name in lists where changed[name].map({ $0 >= listsSeen }) ?? false {
            changedLists.insert(name)
        }
        listsSeen = check
    }

    /// Records the start of a write.
    mutating func beginWrite(at now: Duration) { writingSince = now }

    /// Records the end of a write.
    mutating func endWrite(at now: Duration) {
        writingSince = nil
        lastWrite = now
        pingDue = false
    }

    /// Records that a page was written.
    ///
    /// - Parameters:
    ///   - page: The page.
    ///   - head: The newest committed number that the account was notified of.
    mutating func wrote(_ page: LivePage, head: Int64) {
        let isMoved = page.next.number != position.number
        position = page.next
        // A page from an earlier read may end before the change that woke this connection.
        if page.hasMore || (isMoved && page.next.number < head) { hasNews = true }
    }

    /// Records that the feed could not be read; it is read again after the next check of the time.
    mutating func readFailed() {
        hasNews = true
        isResting = true
    }

    /// Updates the timeouts.
    ///
    /// - Returns: Whether a write takes too long, so that the connection must be closed.
    mutating func timePassed(
        to now: Duration,
        pingInterval: Duration,
        writeTimeout: Duration
    ) -> Bool {
        isResting = false
        if let writingSince {
            guard now - writingSince >= writeTimeout else { return false }
            end(.slow)
            return true
        }
        if now - lastWrite >= pingInterval { pingDue = true }
        return false
    }

    /// Ends the connection after its current step.
    mutating func end(_ reason: Ending) { ending = ending ?? reason }
}
