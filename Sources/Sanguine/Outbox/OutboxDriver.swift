import SanguineModel

/// Shows, sends and settles the operations of one kind for an ``OutboxEngine``.
///
/// Methods that are called under the outbox's lock run no app code except record mutations, which
/// are pure, and the decoding of operations. They call nothing that takes that lock.
protocol OutboxDriver: AnyObject, Sendable {
    /// Whether there is a backend to send to.
    var canSend: Bool { get }

    /// Prepares the state that operations of the kind change, before the first one is added.
    ///
    /// Called under the outbox's lock.
    func open(_ contents: inout OutboxContents) throws

    /// Adds an operation that is on disk.
    ///
    /// Called under the outbox's lock.
    ///
    /// - Returns: A closure that shows the operation; call it without a lock.
    func admit(_ row: OutboxFile.Row, to contents: inout OutboxContents) -> Shown

    /// Removes operations that are no longer on disk, or are about to be removed from it.
    ///
    /// Called under the outbox's lock.
    ///
    /// - Returns: A closure that hides them all in one step; call it without a lock.
    func discard(_ sequences: [Int64], from contents: inout OutboxContents) -> Shown

    /// Returns the decoded operation; `nil` if the app does not know its type.
    ///
    /// Called under the outbox's lock.
    func operation(of row: OutboxFile.Row) -> (any Mutation)?

    /// Throws if a retry of the operation would only be refused again.
    ///
    /// Called under the outbox's lock.
    func checkRetry(_ row: OutboxFile.Row) throws(SanguineError)

    /// Returns the operations as they are to be sent, with the real ids that are known by now.
    func prepare(_ rows: [OutboxFile.Row]) -> [OutboxFile.Row]

    /// Sends operations and records their outcomes.
    ///
    /// - Throws: ``SanguineError`` if no outcome is known.
    func send(_ departure: OutboxSend) async throws(SanguineError)

    /// Returns what the error of a send means for its operations.
    func verdict(on error: SanguineError, of departure: OutboxSend) -> OutboxVerdict

    /// Settles operations that the backend has permanently refused.
    func refused(_ departure: OutboxSend, _ problem: Problem)

    /// Shows an operation whose arguments were replaced by other ones, which are on disk and in the
    /// contents.
    ///
    /// Called under the outbox's lock.
    ///
    /// - Returns: A closure that shows the change; call it without a lock.
    func rewritten(_ row: OutboxFile.Row, in contents: inout OutboxContents) -> Shown

    /// Moves queued operations to the tray that cannot be sent because a file was refused.
    ///
    /// Called without a lock.
    func refuse(_ sequences: [Int64], _ problem: Problem)

    /// Records that operations were not sent after all: values that were read in the meantime do
    /// not contain them.
    func notSent(_ sequences: [Int64])

    /// Called when the app returns to the foreground or the network returns.
    func becameActive()
}

/// A closure that shows or hides an operation; called without a lock.
typealias Shown = @Sendable () -> Void

/// A user's operations and the records that they change, guarded by the outbox's lock.
struct OutboxContents {
    var state: SyncState
    /// The operations as they are stored on disk, by sequence number.
    var rows: [Int64: OutboxFile.Row] = [:]
    /// The records' file, once records are used.
    var records: RecordsFile?
    /// The server's state of the records.
    var base = RecordsFile.Base.empty
    /// The number of changes to the visible records.
    var revision: UInt64 = 0
    /// Whether a damaged file is about to be created again.
    var isRepairing = false
    /// The server's ids of local files.
    var storedFiles = ReplacedIds()
    /// The names of the mutations that are shown only after their answer.
    var withheld: Set<String> = []
}

/// Operations that are being sent.
struct OutboxSend: Sendable {
    let send: OutboxState.Send
    /// The steps that must be durable before the operations are sent.
    let steps: [OutboxState.Step]
    var rows: [OutboxFile.Row]
}

/// The meaning of an error for the operations that were sent.
enum OutboxVerdict {
    case refused(Problem)
    case failed(OutboxState.Failure, wasSent: Bool)
    /// Something other than the backend has answered.
    ///
    /// The operations are sent again, until ``RecordLimits/foreignAnswers`` such responses.
    case notAnswered(OutboxState.Failure, orElse: Problem)
}
