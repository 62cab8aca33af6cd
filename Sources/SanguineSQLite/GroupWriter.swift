import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import Synchronization

/// The only thread that changes the database, and its bounded queue.
///
/// While a transaction is written to the disk, further commands are queued; the thread then takes
/// the waiting ones, up to the limit, into the next transaction. So under higher load more commands
/// share a write, and a single command waits for no timer. ``WriteQueue`` has the order.
///
/// Invariants:
/// 1. Work is done on one thread, and the commands of an account in the order of their arrival.
/// 2. Each accepted piece of work is answered exactly once, also while closing.
/// 3. Only the thread uses the connection and its statements.
/// 4. The lock file is released after the connection is closed, not before.
/// 5. At most `queuedCommands` accepted commands are unanswered, and at most
///    `queuedCommandsPerAccount` of one account. All other work in the queue is the server's own,
///    one sweep at a time.
/// 6. After damage is found, all work fails with the damage.
///
/// Mutable state: one `State`, guarded by its mutex; `permits` guards its own. `wake` is signalled
/// once for each time that `isAsleep` becomes false. The counters are atomic.
final class GroupWriter: Sendable {
    private struct State {
        var queue = WriteQueue()
        /// Whether the thread is waiting for `wake`.
        var isAsleep = false
        /// Whether new work is refused, so that the queue only shrinks.
        var isClosing = false
        /// Whether the thread may close the connection once the queue is empty.
        var mayEnd = false
        var isDrained = false
        var hasEnded = false
        var waitForDrain: [CheckedContinuation<Void, Never>] = []
        var waitForEnd: [CheckedContinuation<Void, Never>] = []
    }

    /// The next step of the thread.
    private enum Turn {
        case commands([any QueuedCommand])
        case exclusive(@Sendable (Result<WriteConnection, StorageError>) -> Void)
        case drained([CheckedContinuation<Void, Never>])
        case sleep
        case end
    }

    private let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let options: SQLiteStorageOptions
    private let cache: CommittedCache
    private let damage: FoundDamage
    private let permits: SharedPool
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
        permits = SharedPool(
            limit: options.queuedCommands,
            accountShare: options.queuedCommandsPerAccount
        )
    }

    /// The number of committed transactions of commands.
    var commits: Int { commitCount.load(ordering: .relaxed) }

    /// The number of commands in them.
    var commands: Int { commandCount.load(ordering: .relaxed) }

    /// The number of waiting pieces of work.
    var queued: Int { state.withLock(\.queue.count) }

    /// Starts the thread, which owns the connection and the lock afterwards.
    ///
    /// - Parameters:
    ///   - database: The connection.
    ///   - lock: The lock, released at the end.
    ///   - closed: Called after the connection was closed cleanly, still under the lock.
    /// - Throws: SQLite's error if the database lacks the tables that the statements need.
    func start(
        _ database: DatabaseQueue,
        lock: LockFile,
        closed: @escaping @Sendable () -> Void
    ) throws(SQLFailure) {
        // Compile the statements once here, so that opening fails instead of the first command.
        do {
            try database.inDatabase { _ = try WriteConnection($0) }
        } catch let error as SQLFailure {
            throw error
        } catch {
            throw SQLFailure(code: 0, message: "\(error)")
        }
        let thread = Thread(named: "sqlite.writer") { [self] in
            database.inDatabase { run($0) }
            // Files left by a failed close are recovered when the database is opened again.
            if (try? database.close()) != nil { closed() }
            lock.release()
            let waiting = state.withLock { state in
                state.hasEnded = true
                return state.waitForEnd
            }
            for caller in waiting { caller.resume() }
        }
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
        let permit: SharedPool.Permit
        do throws(SharedPool.Refusal) {
            permit = try permits.acquire(account: command.account)
        } catch {
            throw .overloaded(retryAfterSeconds: options.retryAfterSeconds)
        }
        defer { permit.release() }
        let answer = await withCheckedContinuation { caller in
            enqueue(.command(WaitingCommand(command: command, caller: caller)))
        }
        return try recordingDamage(answer)
    }

    /// Returns the answer, and records a failure that is damage.
    private func recordingDamage<Value>(
        _ answer: Result<Value, StorageError>
    ) throws(StorageError) -> Value {
        if case .failure(let error) = answer { damage.record(error) }
        return try answer.get()
    }

    /// Enqueues work, or fails it at once if the queue is closed.
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
                .exclusive { connection in
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
        return try recordingDamage(result)
    }

    /// Refuses new work, and returns when all accepted work is done.
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

    /// Closes the connection as ``end()`` does, without waiting.
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
            case .exclusive(let body): body(unlessDamaged(connection))
            case .drained(let waiting): for caller in waiting { caller.resume() }
            case .sleep: wake.wait()
            case .end: return
            }
        }
    }

    /// Returns the connection, unless damage was found.
    ///
    /// This one check prevents writes to damaged data.
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
            switch state.queue.next(atMost: options.batchedCommands) {
            case nil: Self.idleTurn(&state)
            case .exclusive(let body): .exclusive(body)
            case .commands(let commands): .commands(commands)
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
