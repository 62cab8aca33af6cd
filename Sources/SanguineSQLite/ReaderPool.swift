import GRDB
import SanguineAuthority
import Synchronization

/// The read-only connections, each behind a serial queue.
///
/// GRDB's own asynchronous reads are cancelled with the calling task. These are not, because a read
/// is short, and its caller always receives the result.
///
/// Invariants:
/// 1. At most `queuedReads` reads wait or run.
/// 2. Reads that were accepted before ``close()`` are completed.
///
/// Mutable state: two atomic counters; each ``Reader`` guards its own.
final class ReaderPool: Sendable {
    private let readers: [Reader]
    private let options: SQLiteStorageOptions
    private let damage: FoundDamage
    private let turn = Atomic(0)
    private let waiting = Atomic(0)

    init(
        in folder: DataFolder,
        options: SQLiteStorageOptions,
        schema: Schema,
        damage: FoundDamage = FoundDamage()
    ) throws(SQLiteStorageError) {
        self.options = options
        self.damage = damage
        var readers: [Reader] = []
        for _ in 0..<max(1, options.readers) {
            readers.append(
                Reader(try Connections.reader(in: folder, options: options, schema: schema))
            )
        }
        self.readers = readers
    }

    /// Performs the body on one of the connections.
    func read<Value: Sendable>(
        _ body: @escaping @Sendable (ReadConnection) throws(SQLFailure) -> Value
    ) async throws(StorageError) -> Value {
        guard waiting.add(1, ordering: .relaxed).newValue <= options.queuedReads else {
            waiting.subtract(1, ordering: .relaxed)
            throw .overloaded(retryAfterSeconds: options.retryAfterSeconds)
        }
        defer { waiting.subtract(1, ordering: .relaxed) }
        let turn = turn.wrappingAdd(1, ordering: .relaxed).oldValue
        let reader = readers[Int(UInt(bitPattern: turn) % UInt(readers.count))]
        do throws(StorageError) {
            return try await reader.read(body)
        } catch {
            damage.record(error)
            throw error
        }
    }

    /// Closes the connections after the queued reads.
    ///
    /// Further calls do nothing.
    func close() async {
        for reader in readers { await reader.close() }
    }
}

/// A read-only connection.
///
/// Mutable state: `connection`, touched only on the queue of `database`.
// Sendable because the queue of `database` serialises every use of `connection`.
private final class Reader: @unchecked Sendable {
    private enum Connection {
        case unprepared
        case open(ReadConnection)
        case closed
    }

    private let database: DatabaseQueue
    private var connection = Connection.unprepared

    init(_ database: DatabaseQueue) { self.database = database }

    func read<Value: Sendable>(
        _ body: @escaping @Sendable (ReadConnection) throws(SQLFailure) -> Value
    ) async throws(StorageError) -> Value {
        let result = await withCheckedContinuation {
            (caller: CheckedContinuation<Result<Value, StorageError>, Never>) in
            database.asyncUnsafeRead { [self] database in
                do throws(StorageError) {
                    let connection = try prepared(database)
                    do throws(SQLFailure) {
                        caller.resume(returning: .success(try body(connection)))
                    } catch {
                        throw error.asStorageError
                    }
                } catch {
                    caller.resume(returning: .failure(error))
                }
            }
        }
        return try result.get()
    }

    func close() async {
        await withCheckedContinuation { (caller: CheckedContinuation<Void, Never>) in
            database.asyncUnsafeRead { [self] _ in
                connection = .closed
                caller.resume()
            }
        }
        // A read-only connection has nothing to lose.
        try? database.close()
    }

    private func prepared(
        _ database: Result<Database, any Error>
    ) throws(StorageError) -> ReadConnection {
        switch connection {
        case .closed: throw .closed
        case .open(let connection): return connection
        case .unprepared: break
        }
        guard case .success(let database) = database else { throw .closed }
        do throws(SQLFailure) {
            let prepared = try ReadConnection(database)
            connection = .open(prepared)
            return prepared
        } catch {
            throw error.asStorageError
        }
    }
}
