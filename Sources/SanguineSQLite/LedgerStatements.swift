import SanguineAuthority
import SanguineModel

/// Reads transfers, and the balances whose grants expire.
///
/// Each reading connection has one. Not sendable.
final class LedgerStatements {
    private let transfers: SQLStatement
    private let allTransfers: SQLStatement
    private let expiringBalances: SQLStatement

    init(on connection: OpaquePointer) throws(SQLFailure) {
        transfers = try SQLStatement(
            """
            SELECT \(Transfer.columns), number FROM transfers
            WHERE account = ? AND number < ? ORDER BY number DESC LIMIT ?
            """,
            on: connection
        )
        allTransfers = try SQLStatement(
            """
            SELECT \(Transfer.columns), number FROM transfers
            WHERE number > ? ORDER BY number LIMIT ?
            """,
            on: connection
        )
        expiringBalances = try SQLStatement(
            """
            SELECT account FROM balances
            WHERE grants_expire_at IS NOT NULL AND grants_expire_at <= ?
            ORDER BY grants_expire_at, account LIMIT ?
            """,
            on: connection
        )
    }

    func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) throws(SQLFailure) -> [NumberedTransfer] {
        transfers.bind(account)
        transfers.bind(number ?? .max)
        transfers.bind(limit: limit)
        return try transfers.all(NumberedTransfer.init(from:))
    }

    func transfers(after number: Int64, limit: Int) throws(SQLFailure) -> [NumberedTransfer] {
        allTransfers.bind(number)
        allTransfers.bind(limit: limit)
        return try allTransfers.all(NumberedTransfer.init(from:))
    }

    func accounts(
        withGrantsExpiringBy moment: Timestamp,
        limit: Int
    ) throws(SQLFailure) -> [Identifier] {
        expiringBalances.bind(moment)
        expiringBalances.bind(limit: limit)
        return try expiringBalances.all { statement throws(SQLFailure) in
            try statement.identifier(0)
        }
    }
}

extension NumberedTransfer {
    /// Reads the columns of a transfer, then its number.
    fileprivate init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(number: statement.integer(11), transfer: try Transfer(from: statement))
    }
}
