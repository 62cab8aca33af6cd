import SanguineModel

/// What an ``OutboxEngine`` does with operations of one kind: how one is shown, sent and settled.
///
/// What says that it is called under the outbox's lock runs no code of the app but record
/// mutations, which are pure, and the decoding of operations, and calls nothing that takes that
/// lock.
protocol OutboxDriver: AnyObject, Sendable {
    /// Whether there is somebody who can be asked.
    var canSend: Bool { get }

    /// Makes ready what operations of the kind change, before the first is taken in.
    ///
    /// Under the outbox's lock.
    func open(_ contents: inout OutboxContents) throws

    /// Takes an operation in that is on disk.
    ///
    /// Under the outbox's lock.
    ///
    /// - Returns: What shows it, to be called under no lock.
    func admit(_ row: OutboxFile.Row, to contents: inout OutboxContents) -> Shown

    /// Takes operations out that are off the disk already, or about to be.
    ///
    /// Under the outbox's lock.
    ///
    /// - Returns: What hides them, all in one step, to be called under no lock.
    func discard(_ sequences: [Int64], from contents: inout OutboxContents) -> Shown

    /// The operation itself; `nil` if the app does not know it.
    ///
    /// Under the outbox's lock.
    func operation(of row: OutboxFile.Row) -> (any Mutation)?

    /// Refuses what would only be refused again.
    ///
    /// Under the outbox's lock.
    func checkRetry(_ row: OutboxFile.Row) throws(SanguineError)

    /// The operations as they are to be sent: others may have become known of what they name.
    func prepare(_ rows: [OutboxFile.Row]) -> [OutboxFile.Row]

    /// Sends operations, and takes in what became of them.
    ///
    /// - Throws: ``SanguineError`` if nothing is known to have become of any.
    func send(_ departure: OutboxDeparture) async throws(SanguineError)

    /// What a sending's error means.
    func verdict(on error: SanguineError, of departure: OutboxDeparture) -> OutboxVerdict

    /// The backend has refused operations for good.
    func refused(_ departure: OutboxDeparture, _ problem: Problem)

    /// Operations were not sent after all: what is read meanwhile has them not in it.
    func notSent(_ sequences: [Int64])

    /// The app or the network has come back.
    func isBack()
}

/// What shows what has become of an operation, or hides it; called under no lock.
typealias Shown = @Sendable () -> Void

/// A user's operations and the records that they change: what the outbox's lock guards.
struct OutboxContents {
    var state: SyncState
    /// Operations as they lie on disk, by sequence number.
    var rows: [Int64: OutboxFile.Row] = [:]
    /// The records' file, once somebody uses records.
    var records: RecordsFile?
    /// What the server has of the records.
    var base = RecordsFile.Base.empty
    /// Counts changes of what is visible of records.
    var revision: UInt64 = 0
    /// Whether a damaged file is about to be made anew.
    var isRepairing = false
}

/// Operations on their way.
struct OutboxDeparture: Sendable {
    let flight: OutboxState.Flight
    /// What must be durable before they leave.
    let steps: [OutboxState.Step]
    var rows: [OutboxFile.Row]
}

/// What a sending's error means.
enum OutboxVerdict {
    case refused(Problem)
    case failed(OutboxState.Failure, wasSent: Bool)
    /// Something other than the backend has answered: it is tried again, but not for ever. See
    /// ``RecordLimits/foreignAnswers``.
    case notAnswered(OutboxState.Failure, orElse: Problem)
}
