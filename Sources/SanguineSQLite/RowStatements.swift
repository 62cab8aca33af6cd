import SanguineAuthority
import SanguineModel

/// Reads single rows.
///
/// Each connection has one.
final class RowReader {
    private let account: SQLStatement
    private let balance: SQLStatement
    private let device: SQLStatement
    private let session: SQLStatement
    private let quota: SQLStatement
    private let hold: SQLStatement
    private let operation: SQLStatement
    private let record: SQLStatement
    private let feed: SQLStatement
    private let result: SQLStatement
    private let parts: SQLStatement
    private let blob: SQLStatement
    private let indexes: SQLStatement
    private let document: SQLStatement
    private let lastAudit: SQLStatement

    init(on connection: OpaquePointer) throws(SQLFailure) {
        account = try SQLStatement(AccountRow.selectSQL, on: connection)
        balance = try SQLStatement(BalanceRow.selectSQL, on: connection)
        device = try SQLStatement(DeviceRow.selectSQL, on: connection)
        session = try SQLStatement(SessionRow.selectSQL, on: connection)
        quota = try SQLStatement(QuotaRow.selectSQL, on: connection)
        hold = try SQLStatement(HoldRow.selectSQL, on: connection)
        operation = try SQLStatement(OperationRow.selectSQL, on: connection)
        record = try SQLStatement(RecordRow.selectSQL, on: connection)
        feed = try SQLStatement(FeedRow.selectSQL, on: connection)
        result = try SQLStatement(ResultRow.selectSQL, on: connection)
        parts = try SQLStatement(PartsRow.selectSQL, on: connection)
        blob = try SQLStatement(BlobRow.selectSQL, on: connection)
        indexes = try SQLStatement(IndexesRow.selectSQL, on: connection)
        document = try SQLStatement(DocumentRow.selectSQL, on: connection)
        lastAudit = try SQLStatement(AuditRow.lastSQL, on: connection)
    }

    /// Returns the row with the key, as the connection sees it now.
    func row(_ key: Key) throws(SQLFailure) -> Row? {
        switch key {
        case .account(let id):
            account.bind(id)
            return try account.first(AccountRow.init(from:)).map(Row.account)
        case .balance(let id):
            balance.bind(id)
            return try balance.first(BalanceRow.init(from:)).map(Row.balance)
        case .device(let id):
            device.bind(id)
            return try device.first(DeviceRow.init(from:)).map(Row.device)
        case .session(let id):
            session.bind(id)
            return try session.first(SessionRow.init(from:)).map(Row.session)
        case .quota(let id, let name):
            quota.bind(id)
            quota.bind(name)
            return try quota.first(QuotaRow.init(from:)).map(Row.quota)
        case .hold(let id):
            hold.bind(id)
            return try hold.first(HoldRow.init(from:)).map(Row.hold)
        case .operation(let id, let key):
            operation.bind(id)
            operation.bind(key)
            return try operation.first(OperationRow.init(from:)).map(Row.operation)
        case .record(let name):
            record.bind(name)
            return try record.first(RecordRow.init(from:)).map(Row.record)
        case .feed(let id):
            feed.bind(id)
            return try feed.first(FeedRow.init(from:)).map(Row.feed)
        case .result(let key):
            result.bind(key)
            return try result.first(ResultRow.init(from:)).map(Row.result)
        case .parts(let run, let first):
            parts.bind(run)
            parts.bind(first)
            return try parts.first(PartsRow.init(from:)).map(Row.parts)
        case .blob(let account, let id):
            blob.bind(id.bytes)
            blob.bind(account)
            return try blob.first(BlobRow.init(from:)).map(Row.blob)
        case .indexes:
            indexes.bind(IndexesRow.number)
            return try indexes.first(IndexesRow.init(from:)).map(Row.indexes)
        case .document(let kind, let id):
            document.bind(kind.rawValue)
            document.bind(id)
            return try document.first(DocumentRow.init(from:)).map(Row.document)
        case .lastAudit:
            return try lastAudit.first(AuditRow.init(from:)).map(Row.audit)
        }
    }
}

/// Stores changes.
///
/// Only the writing connection has one.
final class RowWriter {
    /// The statements that write and delete rows of one kind.
    private struct Table {
        let put: SQLStatement
        let delete: SQLStatement

        init(_ kind: (some StoredRow).Type, on connection: OpaquePointer) throws(SQLFailure) {
            put = try SQLStatement(kind.putSQL, on: connection)
            delete = try SQLStatement(kind.deleteSQL, on: connection)
        }

        func store(_ row: some StoredRow) throws(SQLFailure) {
            do {
                try row.bind(to: put)
            } catch {
                put.reset()
                throw error
            }
            try put.run()
        }
    }

    private let accounts: Table
    private let balances: Table
    private let devices: Table
    private let sessions: Table
    private let quotas: Table
    private let holds: Table
    private let operations: Table
    private let records: Table
    private let feeds: Table
    private let results: Table
    private let parts: Table
    private let blobs: Table
    private let indexes: Table
    private let documents: Table
    private let audit: SQLStatement
    private let pruneResults: SQLStatement
    private let append: SQLStatement
    private let index: SQLStatement
    private let unindex: SQLStatement
    private let rehoming: RehomingStatements

    init(on connection: OpaquePointer) throws(SQLFailure) {
        accounts = try Table(AccountRow.self, on: connection)
        balances = try Table(BalanceRow.self, on: connection)
        devices = try Table(DeviceRow.self, on: connection)
        sessions = try Table(SessionRow.self, on: connection)
        quotas = try Table(QuotaRow.self, on: connection)
        holds = try Table(HoldRow.self, on: connection)
        operations = try Table(OperationRow.self, on: connection)
        records = try Table(RecordRow.self, on: connection)
        feeds = try Table(FeedRow.self, on: connection)
        results = try Table(ResultRow.self, on: connection)
        parts = try Table(PartsRow.self, on: connection)
        blobs = try Table(BlobRow.self, on: connection)
        indexes = try Table(IndexesRow.self, on: connection)
        documents = try Table(DocumentRow.self, on: connection)
        audit = try SQLStatement(AuditRow.appendSQL, on: connection)
        pruneResults = try SQLStatement(
            """
            DELETE FROM results WHERE number IN (
                SELECT number FROM results WHERE account = ?
                ORDER BY made_at DESC, number DESC LIMIT -1 OFFSET ?
            )
            """,
            on: connection
        )
        index = try SQLStatement(
            """
            INSERT OR IGNORE INTO record_index (collection, scope, field, value, id)
            VALUES (?, ?, ?, ?, ?)
            """,
            on: connection
        )
        unindex = try SQLStatement(
            """
            DELETE FROM record_index
            WHERE collection = ? AND scope = ? AND field = ? AND value = ? AND id = ?
            """,
            on: connection
        )
        rehoming = try RehomingStatements(on: connection)
        append = try SQLStatement(
            "INSERT INTO transfers (\(Transfer.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            on: connection
        )
    }

    /// Stores a change in the open transaction.
    func store(_ change: Change) throws(SQLFailure) {
        switch change {
        case .put(let row): try put(row)
        case .delete(let key): try delete(key)
        case .append(let transfer):
            transfer.bind(to: append)
            try append.run()
        case .index(let entry):
            index.bind(entry)
            try index.run()
        case .unindex(let entry):
            unindex.bind(entry)
            try unindex.run()
        case .pruneResults(let account, let kept):
            pruneResults.bind(account?.bytes ?? [])
            pruneResults.bind(limit: kept)
            try pruneResults.run()
        case .rehome(let move): try rehoming.perform(move)
        }
    }

    private func put(_ row: Row) throws(SQLFailure) {
        switch row {
        case .account(let row): try accounts.store(row)
        case .balance(let row): try balances.store(row)
        case .device(let row): try devices.store(row)
        case .session(let row): try sessions.store(row)
        case .quota(let row): try quotas.store(row)
        case .hold(let row): try holds.store(row)
        case .operation(let row): try operations.store(row)
        case .record(let row): try records.store(row)
        case .feed(let row): try feeds.store(row)
        case .result(let row): try results.store(row)
        case .parts(let row): try parts.store(row)
        case .blob(let row): try blobs.store(row)
        case .indexes(let row): try indexes.store(row)
        case .document(let row): try documents.store(row)
        case .audit(let row):
            row.bind(to: audit)
            try audit.run()
        }
    }

    private func delete(_ key: Key) throws(SQLFailure) {
        switch key {
        case .account(let id): try delete(id, with: accounts.delete)
        case .balance(let id): try delete(id, with: balances.delete)
        case .device(let id):
            devices.delete.bind(id)
            try devices.delete.run()
        case .session(let id): try delete(id, with: sessions.delete)
        case .quota(let id, let name): try delete(id, name, with: quotas.delete)
        case .hold(let id): try delete(id, with: holds.delete)
        case .operation(let id, let key): try delete(id, key, with: operations.delete)
        case .record(let name):
            records.delete.bind(name)
            try records.delete.run()
        case .feed(let id): try delete(id, with: feeds.delete)
        case .result(let key):
            results.delete.bind(key)
            try results.delete.run()
        case .parts(let run, let first):
            parts.delete.bind(run)
            parts.delete.bind(first)
            try parts.delete.run()
        case .blob(let account, let id):
            blobs.delete.bind(id.bytes)
            blobs.delete.bind(account)
            try blobs.delete.run()
        case .indexes:
            indexes.delete.bind(IndexesRow.number)
            try indexes.delete.run()
        case .document(let kind, let id):
            documents.delete.bind(kind.rawValue)
            documents.delete.bind(id)
            try documents.delete.run()
        case .lastAudit: break  // The log is append-only.
        }
    }

    private func delete(_ id: Identifier, with statement: SQLStatement) throws(SQLFailure) {
        statement.bind(id)
        try statement.run()
    }

    private func delete(
        _ id: Identifier,
        _ name: String,
        with statement: SQLStatement
    ) throws(SQLFailure) {
        statement.bind(id)
        statement.bind(name)
        try statement.run()
    }
}
