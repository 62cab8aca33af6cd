import DequeModule
import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import Synchronization

/// The one thread that changes the database, and the bounded queue before it.
///
/// While a transaction is written to the disk, the next commands gather; the thread then takes
/// all of them, up to the limit, into the next transaction. So the busier it is, the more
/// commands share one write, and a single command waits for no timer.
///
/// Invariants:
/// 1. Work is done in the order in which it was taken in, on one thread.
/// 2. Every piece of work that was taken in is answered exactly once, also while closing.
/// 3. The connection and its statements are touched by the thread alone.
/// 4. The lock file is released after the connection is closed, not before.
/// 5. Of the commands that were taken in and not answered there are at most `queuedCommands`, and
///    of one account `queuedCommandsPerAccount`. Everything else in the queue is the server's own:
///    a sweep at a time.
/// 6. Once damage is found no work is done any more: all of it fails with the damage.
///
/// Mutable state: one `State`, guarded by its mutex; `places` guards its own. `wake` is signalled
/// once for each time that `isAsleep` becomes false. The counters are atomic.
final class GroupWriter: Sendable {
    private struct State {
        var queue = Deque<QueuedWork>()
        /// Whether the thread waits for `wake`.
        var isAsleep = false
        /// Whether new work is refused, and the rest of the queue is the last.
        var isClosing = false
        /// Whether the thread may close the connection once the queue is empty.
        var mayEnd = false
        var isDrained = false
        var hasEnded = false
        var waitForDrain: [CheckedContinuation<Void, Never>] = []
        var waitForEnd: [CheckedContinuation<Void, Never>] = []
    }

    /// What the thread does next.
    private enum Turn {
        case commands([any QueuedCommand])
        case errand(@Sendable (Result<WriteConnection, StorageError>) -> Void)
        case drained([CheckedContinuation<Void, Never>])
        case sleep
        case end
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let options: SQLiteStorageOptions
    private let cache: CommittedCache
    private let damage: FoundDamage
    private let places: SharedPool
    private let commitCount = Atomic(0)
    private let commandCount = Atomic(0)

    init(
        options: SQLiteStorageOptions,
        cache: CommittedCache,
        damage: FoundDamage = FoundDamage()
    ) {
        self.options = options
        self.cache = cache
        self.damage = damage
        places = SharedPool(
            limit: options.queuedCommands,
            accountShare: options.queuedCommandsPerAccount
        )
    }

    /// How many transactions of commands were committed.
    var commits: Int { commitCount.load(ordering: .relaxed) }

    /// How many commands were in them.
    var commands: Int { commandCount.load(ordering: .relaxed) }

    /// How much waits.
    var queued: Int { state.withLock(\.queue.count) }

    /// Starts the thread, which owns the connection and the lock from now on.
    ///
    /// - Parameters:
    ///   - database: The connection.
    ///   - lock: The lock, released at the end.
    ///   - closed: Called after the connection was closed cleanly, still under the lock.
    /// - Throws: What SQLite says if the database does not have the tables that the statements
    /// need.
    func start(
        _ database: DatabaseQueue,
        lock: LockFile,
        closed: @escaping @Sendable () -> Void
    ) throws(SQLFailure) {
        // Compiled once here, so that opening fails and not the first command.
        do {
            try database.inDatabase { _ = try WriteConnection($0) }
        } catch let error as SQLFailure {
            throw error
        } catch {
            throw SQLFailure(code: 0, message: "\(error)")
        }
        let thread = Thread { [self] in
            database.inDatabase { run($0) }
            // A failure to close leaves files that the next opening recovers from.
            if (try? database.close()) != nil { closed() }
            lock.release()
            let waiting = state.withLock { state in
                state.hasEnded = true
                return state.waitForEnd
            }
            for caller in waiting { caller.resume() }
        }
        thread.name = "sanguine.sqlite.writer"
        thread.stackSize = 4 << 20
        thread.start()
    }

    // MARK: - Queue

    /// Performs the command, and returns when it is committed or refused.
    ///
    /// Cancelling the calling task does not abort it.
    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        let place: SharedPool.Place
        do throws(SharedPool.Refusal) {
            place = try places.take(account: command.account)
        } catch {
            throw .overloaded(retryAfterSeconds: options.retryAfterSeconds)
        }
        defer { place.leave() }
        let answer = await withCheckedContinuation { caller in
            enqueue(.command(WaitingCommand(command: command, caller: caller)))
        }
        return try noted(answer)
    }

    /// Returns the answer, and notes a failure that is damage.
    private func noted<Value>(
        _ answer: Result<Value, StorageError>
    ) throws(StorageError) -> Value {
        if case .failure(let error) = answer { damage.note(error) }
        return try answer.get()
    }

    /// Takes work in, or answers it at once that no more is taken.
    func enqueue(_ work: QueuedWork) {
        let (isTaken, mustWake) = state.withLock { state -> (Bool, Bool) in
            guard !state.isClosing else { return (false, false) }
            state.queue.append(work)
            defer { state.isAsleep = false }
            return (true, state.isAsleep)
        }
        if mustWake { wake.signal() }
        if !isTaken { work.fail(.closed) }
    }

    /// Performs the body on the writer's thread, between transactions of commands.
    ///
    /// The body opens its own transaction. Cancelling the calling task does not abort it.
    func run<Value: Sendable>(
        _ body: @escaping @Sendable (WriteConnection) throws(SQLFailure) -> Value
    ) async throws(StorageError) -> Value {
        let result = await withCheckedContinuation {
            (caller: CheckedContinuation<Result<Value, StorageError>, Never>) in
            enqueue(
                .errand { connection in
                    do throws(StorageError) {
                        let connection = try connection.get()
                        do throws(SQLFailure) {
                            caller.resume(returning: .success(try body(connection)))
                        } catch {
                            connection.rollBack()
                            throw error.asStorageError
                        }
                    } catch {
                        caller.resume(returning: .failure(error))
                    }
                }
            )
        }
        return try noted(result)
    }

    /// Refuses new work, and returns when all of the old is done.
    func drain() async {
        await withCheckedContinuation { caller in
            let (isDrained, mustWake) = state.withLock { state -> (Bool, Bool) in
                state.isClosing = true
                if !state.isDrained { state.waitForDrain.append(caller) }
                defer { state.isAsleep = false }
                return (state.isDrained, state.isAsleep)
            }
            if mustWake { wake.signal() }
            if isDrained { caller.resume() }
        }
    }

    /// Closes the connection after the queue is drained, and returns when the lock is released.
    func end() async {
        await withCheckedContinuation { caller in
            let hasEnded = state.withLock { state -> Bool in
                if !state.hasEnded { state.waitForEnd.append(caller) }
                return state.hasEnded
            }
            if hasEnded { caller.resume() } else { endSoon() }
        }
    }

    /// As ``end()``, for those who cannot wait.
    func endSoon() {
        let mustWake = state.withLock { state -> Bool in
            state.isClosing = true
            state.mayEnd = true
            defer { state.isAsleep = false }
            return state.isAsleep
        }
        if mustWake { wake.signal() }
    }

    // MARK: - Thread

    private func run(_ database: Database) {
        let connection: Result<WriteConnection, StorageError>
        do throws(SQLFailure) {
            connection = .success(try WriteConnection(database))
        } catch {
            connection = .failure(error.asStorageError)
        }
        while true {
            switch nextTurn() {
            case .commands(let commands): perform(commands, on: unlessDamaged(connection))
            case .errand(let errand): errand(unlessDamaged(connection))
            case .drained(let waiting): for caller in waiting { caller.resume() }
            case .sleep: wake.wait()
            case .end: return
            }
        }
    }

    /// The connection, unless something was found to be damaged: the one decision that keeps writes
    /// from damaged data.
    private func unlessDamaged(
        _ connection: Result<WriteConnection, StorageError>
    ) -> Result<WriteConnection, StorageError> {
        damage.reason.map { .failure(.damaged($0)) } ?? connection
    }

    private func perform(
        _ commands: [any QueuedCommand],
        on connection: Result<WriteConnection, StorageError>
    ) {
        switch connection {
        case .failure(let error):
            for command in commands { command.fail(error) }
        case .success(let connection):
            let group = GroupCommit(connection: connection, cache: cache) { [self] count in
                commitCount.add(1, ordering: .relaxed)
                commandCount.add(count, ordering: .relaxed)
            }
            group.perform(commands[...])
        }
    }

    private func nextTurn() -> Turn {
        state.withLock { state in
            switch state.queue.popFirst() {
            case nil:
                return Self.idleTurn(&state)
            case .errand(let errand):
                return .errand(errand)
            case .command(let first):
                var commands = [first]
                while commands.count < options.batchedCommands,
                    case .command(let next)? = state.queue.first
                {
                    commands.append(next)
                    state.queue.removeFirst()
                }
                return .commands(commands)
            }
        }
    }

    private static func idleTurn(_ state: inout State) -> Turn {
        if state.isClosing, !state.isDrained {
            state.isDrained = true
            defer { state.waitForDrain = [] }
            return .drained(state.waitForDrain)
        }
        if state.mayEnd { return .end }
        state.isAsleep = true
        return .sleep
    }
}
