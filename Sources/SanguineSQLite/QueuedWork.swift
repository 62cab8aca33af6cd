import SanguineAuthority
import SanguineModel

/// What waits for the writer.
enum QueuedWork: Sendable {
    /// A command, which shares a transaction with its neighbours.
    case command(any QueuedCommand)
    /// Anything else, which has the connection to itself and opens its own transaction.
    case errand(@Sendable (Result<WriteConnection, StorageError>) -> Void)

    /// Answers without having done anything.
    func fail(_ error: StorageError) {
        switch self {
        case .command(let command): command.fail(error)
        case .errand(let errand): errand(.failure(error))
        }
    }
}

/// A command with the caller who waits for it, whatever its outcome's type.
protocol QueuedCommand: Sendable {
    /// What to load.
    var keys: [Key] { get }
    /// Which sessions to look for.
    var surplus: SurplusSessions? { get }
    /// Asks the command. May be called again if the transaction could not be stored.
    func decide(_ loaded: Loaded, _ records: any RecordReader) -> Verdict
    /// Answers that the storage failed.
    func fail(_ error: StorageError)
}

/// What a command decided, and how to say so once it is durable.
struct Verdict {
    let changes: [Change]
    let answer: () -> Void
}

/// The one implementation of ``QueuedCommand``.
struct WaitingCommand<Outcome: Sendable>: QueuedCommand {
    typealias Answer = Result<Result<Outcome, Problem>, StorageError>

    let command: Command<Outcome>
    let caller: CheckedContinuation<Answer, Never>

    var keys: [Key] { command.keys }
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
