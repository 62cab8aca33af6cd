import SanguineAuthority
import SanguineModel

/// Work that waits for the writer.
enum QueuedWork: Sendable {
    /// A command, which may share a transaction with others.
    case command(any QueuedCommand)
    /// Other work, which has the connection for itself and opens its own transaction.
    case exclusive(@Sendable (Result<WriteConnection, StorageError>) -> Void)

    /// Answers with an error, without doing the work.
    func fail(_ error: StorageError) {
        switch self {
        case .command(let command): command.fail(error)
        case .exclusive(let body): body(.failure(error))
        }
    }
}

/// A command and its waiting caller, without the type of the outcome.
protocol QueuedCommand: Sendable {
    /// The account of the command, if its keys name one.
    var account: Identifier? { get }
    /// The rows to load.
    var keys: [Key] { get }
    /// Whether the command reads or stores many rows besides those of its keys.
    var isLong: Bool { get }
    /// The surplus sessions to load.
    var surplus: SurplusSessions? { get }
    /// Runs the command's decision. It is called again if the transaction could not be stored.
    func decide(_ loaded: Loaded, _ records: any RecordReader) -> Verdict
    /// Answers that the storage failed.
    func fail(_ error: StorageError)
}

/// A command's decision, and its answer once the changes are durable.
struct Verdict {
    let changes: [Change]
    let answer: () -> Void
}

/// The only implementation of ``QueuedCommand``.
struct WaitingCommand<Outcome: Sendable>: QueuedCommand {
    typealias Answer = Result<Result<Outcome, Problem>, StorageError>

    let command: Command<Outcome>
    let caller: CheckedContinuation<Answer, Never>

    var account: Identifier? { command.account }
    var keys: [Key] { command.keys }
    var isLong: Bool { command.isLong }
    var surplus: SurplusSessions? { command.surplus }

    func decide(_ loaded: Loaded, _ records: any RecordReader) -> Verdict {
        do throws(Problem) {
            let decision = try command.decide(loaded, records)
            return Verdict(changes: decision.changes) {
                caller.resume(returning: .success(.success(decision.outcome)))
            }
        } catch {
            return Verdict(changes: []) {
                caller.resume(returning: .success(.failure(error)))
            }
        }
    }

    func fail(_ error: StorageError) {
        caller.resume(returning: .failure(error))
    }
}
