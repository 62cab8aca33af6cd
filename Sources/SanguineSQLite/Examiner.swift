import Foundation
import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel
import Synchronization

/// Reads all of a data folder, and says what is damaged.
///
/// It works on a connection of its own, which only reads, and in constant memory. The pages and the
/// ledger are each read on one snapshot, so the log of a server that writes grows meanwhile.
///
/// Mutable state: `part` and `running`, guarded by their mutex; `isStopped`, atomic.
final class Examiner: Sendable {
    /// What is read, in this order.
    enum Part: String, Sendable {
        case pages = "pages and indexes"
        case ledger = "balances"
        case feeds
        case files
    }

    private struct State {
        var part = Part.pages
        var running: DatabaseQueue?
    }

    private let folder: DataFolder
    private let options: SQLiteStorageOptions
    private let schema: Schema
    private let parts: Set<Part>
    private let isClosed: @Sendable () -> Bool
    private let state = Mutex(State())
    private let isStopped = Atomic(false)

    /// Creates an examiner that has read nothing.
    ///
    /// - Parameters:
    ///   - folder: What it reads.
    ///   - options: How it connects.
    ///   - schema: The schema that the database must have.
    ///   - parts: What is read. Default: all that may be damaged.
    ///   - isClosed: Whether it must end, as after ``stop()``; asked now and then. Default: no.
    init(
        of folder: DataFolder,
        options: SQLiteStorageOptions,
        schema: Schema,
        parts: Set<Part> = [.pages, .ledger, .files],
        unless isClosed: @escaping @Sendable () -> Bool = { false }
    ) {
        self.parts = parts
        self.isClosed = isClosed
        self.folder = folder
        self.options = options
        self.schema = schema
    }

    /// What is being read.
    var part: Part { state.withLock(\.part) }

    /// Lets ``run()`` end soon.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        state.withLock { $0.running?.interrupt() }
    }

    /// Examines the folder on a thread of its own; ends early if the calling task is cancelled.
    func examine() async throws(StorageError) -> DataExamination {
        try await OwnThread.run { [self] () throws(StorageError) in
            try run()
        } onCancel: { [self] in
            stop()
        }
    }

    /// Recomputes every balance, for a caller that asks for nothing else.
    ///
    /// - Throws: As ``examine()``, and ``StorageError/damaged(_:)``.
    func ledger() async throws(StorageError) -> LedgerReport {
        let report = try await examine()
        if let finding = report.pages.first { throw .damaged(finding) }
        return report.ledger
    }

    /// Examines the folder.
    ///
    /// - Throws: ``StorageError/closed`` if it was stopped, and what keeps it from reading, damage
    ///   excepted.
    func run() throws(StorageError) -> DataExamination {
        let database: DatabaseQueue
        do throws(SQLiteStorageError) {
            database = try Connections.reader(in: folder, options: options, schema: schema)
        } catch {
            throw .failed(error.description)
        }
        state.withLock { $0.running = database }
        defer {
            state.withLock { $0.running = nil }
            // A connection that reads has nothing to lose.
            try? database.close()
        }
        let result = database.unsafeRead { database in
            interruptWhenStopped(database)
            return Result { () throws(SQLFailure) in try examine(database) }
        }
        switch result {
        case .success(let report): return report
        case .failure where mustStop: throw .closed
        case .failure(let failure): throw failure.asStorageError
        }
    }

    /// Interrupts each statement that begins after ``stop()``.
    ///
    /// SQLite interrupts statements that run. One that was about to begin goes on, and the check of
    /// the pages is one statement that may take minutes.
    private func interruptWhenStopped(_ database: Database) {
        guard let handle = database.sqliteConnection else { return }
        database.trace { [self] _ in
            if mustStop { sqlite3_interrupt(handle) }
        }
    }

    private func examine(_ database: Database) throws(SQLFailure) -> DataExamination {
        guard let handle = database.sqliteConnection else {
            throw SQLFailure(code: SQLITE_MISUSE, message: "the connection is closed")
        }
        var report = DataExamination()
        try examine(.pages, &report) { report throws(SQLFailure) in
            report.pages = try Integrity.findings(handle, in: folder)
        }
        try examine(.ledger, &report) { report throws(SQLFailure) in
            var verifier = try LedgerVerifier(database)
            report.ledger = try verifier.verify { mustStop } ?? report.ledger
        }
        try examine(.feeds, &report) { report throws(SQLFailure) in
            var check = try FeedCheck(on: handle)
            report.feeds = try check.run { mustStop }
        }
        try examine(.files, &report) { report throws(SQLFailure) in
            guard schema.hasBlobs else { return }
            report.files = try FileCheck(of: folder, on: handle).run { mustStop }
        }
        try checkStopped()
        return report
    }

    /// Reads a part if it was asked for; what the part fails with is a finding if it is damage.
    private func examine(
        _ part: Part,
        _ report: inout DataExamination,
        _ body: (inout DataExamination) throws(SQLFailure) -> Void
    ) throws(SQLFailure) {
        guard parts.contains(part) else { return }
        try checkStopped()
        state.withLock { $0.part = part }
        do {
            try body(&report)
        } catch {
            guard case .damaged(let reason) = error.asStorageError else { throw error }
            report.pages.append(reason)
        }
    }

    private var mustStop: Bool { isStopped.load(ordering: .acquiring) || isClosed() }

    private func checkStopped() throws(SQLFailure) {
        guard !mustStop else {
            throw SQLFailure(code: SQLITE_INTERRUPT, message: "stopped")
        }
    }
}

/// Compares every file that the database names with its name, which is the hash of its content.
private struct FileCheck {
    /// How many rows are read at a time, so that no snapshot is held while files are read.
    private static let pageRows = 256

    private let folder: DataFolder
    private let rows: SQLStatement
    private let row: SQLStatement

    init(of folder: DataFolder, on handle: OpaquePointer) throws(SQLFailure) {
        self.folder = folder
        rows = try SQLStatement(
            """
            SELECT id, min(size), max(size) FROM blobs WHERE id > ? GROUP BY id
            ORDER BY id LIMIT \(Self.pageRows)
            """,
            on: handle
        )
        row = try SQLStatement("SELECT 1 FROM blobs WHERE id = ? LIMIT 1", on: handle)
    }

    func run(unless isStopped: () -> Bool) throws(SQLFailure) -> DataExamination.Files {
        var report = DataExamination.Files()
        var last: [UInt8] = []
        while true {
            rows.bind(last)
            let page = try rows.all { ($0.bytes(0), $0.integer(1), $0.integer(2)) }
            for (bytes, smallest, largest) in page {
                if isStopped() { return report }
                report.count += 1
                report.bytes += largest
                guard let id = BlobID(bytes: bytes) else {
                    report.find("A row of a file does not read back.")
                    continue
                }
                guard let fault = try lastingFault(of: id, sizes: [smallest, largest]) else {
                    continue
                }
                report.find("The file \(folder.blobName(id)) \(fault)")
            }
            guard let next = page.last, page.count == Self.pageRows else { return report }
            last = next.0
        }
    }

    /// Returns what is wrong with a file, unless that was only so for a moment: its owner may have
    /// deleted it since its row was read, and stored it again.
    private func lastingFault(of id: BlobID, sizes: [Int64]) throws(SQLFailure) -> String? {
        guard try fault(of: id, sizes: sizes) != nil else { return nil }
        row.bind(id.bytes)
        guard try row.first({ _ in true }) != nil else { return nil }
        return try fault(of: id, sizes: sizes)
    }

    /// - Throws: What keeps it from reading the file, which says nothing of it.
    private func fault(of id: BlobID, sizes: [Int64]) throws(SQLFailure) -> String? {
        var hash = BlobHash()
        do {
            let size = try Piecewise.forEach(folder.blobPath(id)) { hash.add($0) }
            guard hash.id == id, sizes.allSatisfy({ $0 == size }) else { return "was altered." }
            return nil
        } catch let failure as Piecewise.Failure {
            if failure.code == ENOENT { return "is missing." }
            guard failure.isDamage else { throw failure.asSQLFailure }
            return "cannot be read: \(failure.reason)."
        } catch {
            return "cannot be read: \(error)."
        }
    }
}
