/// What one live connection does next.
///
/// It has no buffer: all it knows is how far its reader is. Pure: told of wakes, writes and the
/// time, it says what is to be done.
///
/// Invariants:
///
/// 1. The position is that of the last page that was written whole; it falls by a reset only.
/// 2. A wake that comes while the connection reads or writes is not lost.
/// 3. Once ended, there is no other step.
struct LiveConnectionState: Sendable {
    /// What comes next.
    enum Step: Equatable {
        /// Reads the feed after the position, and writes what is there.
        case read
        /// Writes a comment, so that both ends notice when the other is gone.
        case ping
        case end(Ending)
    }

    /// Why a connection ends.
    enum Ending: Equatable {
        /// The client has closed it.
        case closed
        /// A write did not go through in time.
        case slow
        /// Its access token has expired, or its session has ended.
        case unauthenticated
        /// The account is gone.
        case accountGone
        case shutdown
    }

    /// How far the reader is.
    private(set) var position: FeedPosition
    private var hasNews = true
    private var isResting = false
    private var lastWrite: Duration
    private var writingSince: Duration?
    private var pingDue = false
    private var ending: Ending?

    init(position: FeedPosition, now: Duration) {
        self.position = position
        lastWrite = now
    }

    /// Takes the next step; `nil` if there is nothing to do yet.
    mutating func takeStep() -> Step? {
        if let ending { return .end(ending) }
        if hasNews, !isResting {
            hasNews = false
            return .read
        }
        guard pingDue else { return nil }
        pingDue = false
        // A commit whose answer was lost wakes nobody.
        hasNews = true
        return .ping
    }

    /// The account has something new.
    mutating func wake() { hasNews = true }

    /// A write begins.
    mutating func beginWrite(at now: Duration) { writingSince = now }

    /// A write went through.
    mutating func endWrite(at now: Duration) {
        writingSince = nil
        lastWrite = now
        pingDue = false
    }

    /// A page was written.
    ///
    /// - Parameters:
    ///   - page: The page.
    ///   - head: The newest number of which the account was told.
    mutating func wrote(_ page: LivePage, head: Int64) {
        let isMoved = page.next.number != position.number
        position = page.next
        // A page that another's earlier read brought may end before what woke this connection.
        if page.hasMore || (isMoved && page.next.number < head) { hasNews = true }
    }

    /// The feed could not be read: another try is made after the next look at the time.
    mutating func readFailed() {
        hasNews = true
        isResting = true
    }

    /// Time has passed.
    ///
    /// - Returns: Whether a write takes too long, and the connection must be closed under it.
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

    /// The connection ends after what it is doing.
    mutating func end(_ reason: Ending) { ending = ending ?? reason }
}
