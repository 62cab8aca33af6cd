import Foundation
import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel
import Synchronization

/// Reads a whole data folder, and reports damage.
///
/// It uses a separate read-only connection and constant memory. The pages and the ledger are each
/// read on one snapshot, so the log of a running server grows until the check ends.
///
/// Mutable state: `part` and `running`, guarded by their mutex; `isStopped`, atomic.
final class Examiner: Sendable {
    /// The parts, in the order in which they are read.
    enum Part: String, Sendable {
        case pages = "pages and indexes"
        case ledger = "balances"
        case feeds
        case audit = "the audit log"
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
    private let progress: @Sendable (LedgerProgress) -> Void
    private let isClosed: @Sendable () -> Bool
    private let state = Mutex(State())
    private let isStopped = Atomic(false)

    /// Creates an examiner.
    ///
    /// - Parameters:
    ///   - folder: The folder to read.
    ///   - options: The options of the connection.
    ///   - schema: The schema that the database must have.
    ///   - parts: The parts to read. Default: all that may be damaged.
    ///   - progress: Called while the ledger is read, every ``LedgerProgress/step`` accounts.
    ///   - isClosed: Whether to stop, as after ``stop()``; called at intervals. Default: never.
    init(
        of folder: DataFolder,
        options: SQLiteStorageOptions,
        schema: Schema,
        parts: Set<Part> = [.pages, .ledger, .files],
        progress: @escaping @Sendable (LedgerProgress) -> Void = { _ in },
        unless isClosed: @escaping @Sendable () -> Bool = { false }
    ) {
        self.parts = parts
        self.progress = progress
        self.isClosed = isClosed
        self.folder = folder
        self.options = options
        self.schema = schema
    }

    /// The part that is being read.
    var part: Part { state.withLock(\.part) }

    /// Makes ``run()`` end soon, with an error.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        state.withLock { $0.running?.interrupt() }
    }

    /// Examines the folder on a separate thread.
    ///
    /// Cancelling the calling task stops the examination.
    func examine() async throws(StorageError) -> DataExamination {
        try await DedicatedThread.run { [self] () throws(StorageError) in
            try run()
        } onCancel: { [self] in
            stop()
        }
    }

    /// Recomputes every balance, and returns only the ledger's report.
    ///
    /// - Throws: As ``examine()``, and ``StorageError/damaged(_:)``.
    func ledger() async throws(StorageError) -> LedgerReport {
        let report = try await examine()
        if let finding = report.pages.first { throw .damaged(finding) }
        return report.ledger
    }

    /// Examines the folder.
    ///
    /// - Throws: ``StorageError/closed`` if it was stopped, or the error that prevented reading,
    ///   except for damage.
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
            // A read-only connection has nothing to lose.
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
    /// SQLite interrupts only running statements. One that is about to begin would continue, and
    /// the check of the pages is a single statement that may take minutes.
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
            report.ledger = try verifier.verify(progress: progress) { mustStop } ?? report.ledger
        }
        try examine(.feeds, &report) { report throws(SQLFailure) in
            var check = try FeedCheck(on: handle)
            report.feeds = try check.run { mustStop }
        }
        try examine(.audit, &report) { report throws(SQLFailure) in
            guard schema.hasAudit else { return }
            report.audit = try AuditCheck(schema, on: handle).run { mustStop }
        }
        try examine(.files, &report) { report throws(SQLFailure) in
            report.files.areElsewhere = folder.hasFilesElsewhere
            guard schema.hasBlobs, !report.files.areElsewhere else { return }
            report.files = try FileCheck(of: folder, on: handle).run { mustStop }
        }
        try checkStopped()
        return report
    }

    /// Reads a part if it is requested.
    ///
    /// Damage that the part throws becomes a finding.
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

/// Checks that each entry of the audit log contains the hash of the one before it.
private struct AuditCheck {
    private let rows: SQLStatement

    init(_ schema: Schema, on handle: OpaquePointer) throws(SQLFailure) {
        let columns =
            schema.hasAuditDetail ? AuditRow.columns : "\(AuditRow.firstColumns), NULL"
        rows = try SQLStatement("SELECT \(columns) FROM audit ORDER BY number", on: handle)
    }

    func run(unless isStopped: () -> Bool) throws(SQLFailure) -> DataExamination.Audit {
        var chain = AuditChain()
        defer { rows.reset() }
        while !isStopped(), try rows.step() { chain.add(try AuditRow(from: rows)) }
        var report = DataExamination.Audit()
        (report.count, report.finding) = (chain.count, chain.finding)
        return report
    }
}

/// Compares every file in the database with its name, the hash of its content.
private struct FileCheck {
    /// The number of rows that are read at a time, so that no snapshot is held while files are
    /// read.
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
                    report.find("The row of a file cannot be decoded.")
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

    /// Returns the fault of a file, unless it was temporary: the owner may have deleted the file
    /// since its row was read, and stored it again.
    private func lastingFault(of id: BlobID, sizes: [Int64]) throws(SQLFailure) -> String? {
        guard try fault(of: id, sizes: sizes) != nil else { return nil }
        row.bind(id.bytes)
        guard try row.first({ _ in true }) != nil else { return nil }
        return try fault(of: id, sizes: sizes)
    }

    /// - Throws: The error that prevented reading the file. It implies nothing about the file.
    private func fault(of id: BlobID, sizes: [Int64]) throws(SQLFailure) -> String? {
        var hash = BlobHash()
        do {
            let size = try ChunkedReader.forEach(folder.blobPath(id)) { hash.add($0) }
            guard hash.id == id, sizes.allSatisfy({ $0 == size }) else { return "was altered." }
            return nil
        } catch let failure as ChunkedReader.Failure {
            if failure.code == ENOENT { return "is missing." }
            guard failure.isDamage else { throw failure.asSQLFailure }
            return "cannot be read: \(failure.reason)."
        } catch {
            return "cannot be read: \(error)."
        }
    }
}
