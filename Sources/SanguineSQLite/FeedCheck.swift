import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel

/// Compares the counters of each account's feed with the stored records and files.
///
/// A record is its own entry in its owner's feed, by its number: there is no separate table of
/// entries. So three things can be wrong: the counted records, deletions, bytes and threads; the
/// counters of an account may be missing; or a record's number may exceed the end of the feed,
/// where no device receives it.
///
/// All rows are read in the order of accounts, on one snapshot, in constant memory.
struct FeedCheck {
    /// Rows in the order of accounts, one for each account.
    private struct Rows {
        private let statement: SQLStatement
        private(set) var account: Identifier?
        private var numbers: [Int64] = []

        init(_ sql: String, on handle: OpaquePointer) throws(SQLFailure) {
            statement = try SQLStatement(sql, on: handle)
        }

        /// Advances to the next row, which has the given number of columns.
        mutating func advance(_ count: Int32) throws(SQLFailure) {
            account = try statement.step() ? try statement.identifier(0) : nil
            guard account != nil else { return }
            numbers = (1...count).map { statement.integer($0) }
        }

        /// Returns the numbers of an account and advances, or returns `nil` if it has no row.
        mutating func next(_ other: Identifier) throws(SQLFailure) -> [Int64]? {
            guard account == other else { return nil }
            let taken = numbers
            try advance(Int32(taken.count))
            return taken
        }

        func reset() { statement.reset() }
    }

    private var live: Rows
    private var deleted: Rows
    private var files: Rows
    /// The unfinished uploads, which reserve the space of their files.
    private var uploads: Rows
    private var feeds: Rows
    private var balances: Rows
    private let begin: SQLStatement
    private let end: SQLStatement

    init(on handle: OpaquePointer) throws(SQLFailure) {
        func records(_ index: String, _ condition: String) -> String {
            """
            SELECT owner, count(*), sum(length(value)), max(seq), sum(collection = '$threads')
            FROM records INDEXED BY \(index) WHERE deleted_at IS \(condition)
            GROUP BY owner ORDER BY owner
            """
        }
        live = try Rows(records("records_live_by_feed", "NULL"), on: handle)
        deleted = try Rows(records("records_deleted_by_feed", "NOT NULL"), on: handle)
        files = try Rows(
            "SELECT account, count(*), sum(size) FROM blobs GROUP BY account ORDER BY account",
            on: handle
        )
        uploads = try Rows(
            """
            SELECT account, count(*), sum(CAST(body AS TEXT) ->> '$.length')
            FROM documents INDEXED BY documents_by_account
            WHERE account IS NOT NULL AND kind = '\(DocumentKind.upload.rawValue)'
                AND json_valid(CAST(body AS TEXT))
                AND CAST(body AS TEXT) ->> '$.file' IS NULL
                AND CAST(body AS TEXT) ->> '$.length' IS NOT NULL
            GROUP BY account ORDER BY account
            """,
            on: handle
        )
        feeds = try Rows(
            """
            SELECT account, records, tombstones, bytes, horizon, threads FROM feeds
            ORDER BY account
            """,
            on: handle
        )
        balances = try Rows("SELECT account, head FROM balances ORDER BY account", on: handle)
        begin = try SQLStatement("BEGIN", on: handle)
        end = try SQLStatement("COMMIT", on: handle)
    }

    /// Returns the report, which is incomplete if stopped; that is checked before each account.
    mutating func run(unless isStopped: () -> Bool) throws(SQLFailure) -> DataExamination.Feeds {
        try begin.run()
        defer {
            for rows in [live, deleted, files, uploads, feeds, balances] { rows.reset() }
            // Nothing was written, so only the transaction must be ended.
            try? end.run()
        }
        var report = DataExamination.Feeds()
        try live.advance(4)
        try deleted.advance(4)
        try files.advance(2)
        try uploads.advance(2)
        try feeds.advance(5)
        try balances.advance(1)
        while let account = [live, deleted, files, uploads, feeds, balances]
            .compactMap(\.account).min()
        {
            if isStopped() { return report }
            try check(account, into: &report)
        }
        return report
    }

    private mutating func check(
        _ account: Identifier,
        into report: inout DataExamination.Feeds
    ) throws(SQLFailure) {
        let live = try live.next(account) ?? [0, 0, 0, 0]
        let deleted = try deleted.next(account) ?? [0, 0, 0, 0]
        let files = try files.next(account) ?? [0, 0]
        let uploads = try uploads.next(account) ?? [0, 0]
        let feed = try feeds.next(account)
        let head = try balances.next(account)?[0]
        report.accounts += 1
        report.records += Int(clamping: live[0])
        let rows = live[0] &+ deleted[0] &+ files[0]
        let content = live[1] &+ deleted[1] &+ files[1] &+ uploads[1]
        let bytes = content &+ (rows &+ uploads[0]) &* RecordRow.overheadBytes
        let stored = [live[0], deleted[0], bytes, live[3]]
        var counted: [Int64] = [0, 0, 0, 0]
        if let feed { counted = [feed[0], feed[1], feed[2], feed[4]] }
        let newest = max(live[2], deleted[2], feed?[3] ?? 0)
        if rows > 0, feed == nil {
            report.find("\(account) has \(rows) records and files, but no counters.")
        } else if stored != counted {
            report.find("\(account) counts \(Self.text(counted)), but has \(Self.text(stored)).")
        } else if rows > 0, head == nil {
            report.find("\(account) has \(rows) records and files, but no balance.")
        } else if newest > head ?? 0 {
            report.find("\(account) has a record of number \(newest), beyond its feed's end.")
        }
    }

    private static func text(_ numbers: [Int64]) -> String {
        """
        \(numbers[0]) records, \(numbers[1]) deletions, \(numbers[2]) bytes and \
        \(numbers[3]) threads
        """
    }
}
