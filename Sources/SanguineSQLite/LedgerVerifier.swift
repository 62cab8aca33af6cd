import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel

/// Recomputes every balance on one snapshot.
///
/// Balances, transfers and open holds are read as three streams in the order of accounts and
/// merged, using constant memory.
struct LedgerVerifier {
    private let balances: SQLStatement
    private let transfers: SQLStatement
    private let holds: SQLStatement
    private let begin: SQLStatement
    private let end: SQLStatement

    private var merges = MergeAudit()
    private var nextBalance: BalanceRow?
    private var nextTransfer: Transfer?
    private var nextHold: (account: Identifier, amount: Int64)?

    init(_ database: Database) throws(SQLFailure) {
        guard let handle = database.sqliteConnection else {
            throw SQLFailure(code: SQLITE_MISUSE, message: "the connection is closed")
        }
        balances = try SQLStatement(
            """
            SELECT \(try Self.columns(BalanceRow.columns, of: "balances", handle)) FROM balances
            ORDER BY account
            """,
            on: handle
        )
        transfers = try SQLStatement(
            """
            SELECT \(try Self.columns(Transfer.columns, of: "transfers", handle))
            FROM transfers INDEXED BY transfers_by_account
            ORDER BY account, number
            """,
            on: handle
        )
        holds = try SQLStatement(
            "SELECT account, amount FROM holds WHERE state = 0 ORDER BY account",
            on: handle
        )
        begin = try SQLStatement("BEGIN", on: handle)
        end = try SQLStatement("COMMIT", on: handle)
    }

    /// Returns the columns, with `NULL` for those that a database of an earlier version lacks.
    private static func columns(
        _ columns: String,
        of table: String,
        _ handle: OpaquePointer
    ) throws(SQLFailure) -> String {
        let known = try SQLStatement("SELECT name FROM pragma_table_info('\(table)')", on: handle)
            .all { $0.text(0) }
        return columns.split(separator: ", ")
            .map { known.contains(String($0)) ? String($0) : "NULL" }
            .joined(separator: ", ")
    }

    /// Returns the report, or `nil` if stopped; that is checked before each account.
    mutating func verify(
        progress: (LedgerProgress) -> Void = { _ in },
        unless shouldStop: () -> Bool = { false }
    ) throws(SQLFailure) -> LedgerReport? {
        try begin.run()
        defer {
            for statement in [balances, transfers, holds] { statement.reset() }
            // Nothing was written, so only the transaction must be ended.
            try? end.run()
        }
        var report = LedgerReport(accounts: 0, transfers: 0, differences: [])
        try advanceBalance()
        try advanceTransfer()
        try advanceHold()
        while let account = nextAccount {
            if shouldStop() { return nil }
            try verify(account, into: &report)
            if report.accounts.isMultiple(of: LedgerProgress.step) {
                progress(
                    LedgerProgress(
                        accounts: report.accounts,
                        transfers: report.transfers,
                        differences: report.differences.count
                    )
                )
            }
        }
        report.add(merges.difference)
        return report
    }

    private var nextAccount: Identifier? {
        [nextBalance?.account, nextTransfer?.account, nextHold?.account].compactMap(\.self).min()
    }

    private mutating func verify(
        _ account: Identifier,
        into report: inout LedgerReport
    ) throws(SQLFailure) {
        var audit = LedgerAudit(account: account)
        while let transfer = nextTransfer, transfer.account == account {
            audit.add(transfer)
            merges.add(transfer)
            report.transfers += 1
            try advanceTransfer()
        }
        var openHolds: Int64 = 0
        while let hold = nextHold, hold.account == account {
            // Report a damaged amount instead of crashing on it.
            openHolds &+= hold.amount
            try advanceHold()
        }
        var balance: BalanceRow?
        if nextBalance?.account == account {
            balance = nextBalance
            try advanceBalance()
        }
        report.accounts += 1
        report.add(audit.finish(balance: balance, openHolds: openHolds))
    }

    private mutating func advanceBalance() throws(SQLFailure) {
        nextBalance = try balances.step() ? try BalanceRow(from: balances) : nil
    }

    private mutating func advanceTransfer() throws(SQLFailure) {
        nextTransfer = try transfers.step() ? try Transfer(from: transfers) : nil
    }

    private mutating func advanceHold() throws(SQLFailure) {
        nextHold = try holds.step() ? (try holds.identifier(0), holds.integer(1)) : nil
    }
}
