import SanguineAuthority
import SanguineModel

/// Reads accounts, the rows of an account, and the audit log.
///
/// Each reading connection has one.
final class AdministrationStatements {
    private let accounts: SQLStatement
    private let accountsOfKind: SQLStatement
    private let endingPlans: SQLStatement
    private let audit: SQLStatement
    private let devices: SQLStatement
    private let sessions: SQLStatement
    private let quotas: SQLStatement
    private let openHolds: SQLStatement
    private let operations: SQLStatement
    private let results: SQLStatement
    private let blobs: SQLStatement
    private let documents: SQLStatement

    init(on handle: OpaquePointer) throws(SQLFailure) {
        accounts = try SQLStatement(
            """
            SELECT \(AccountRow.columns) FROM accounts
            WHERE state = 0 AND id > ? ORDER BY id LIMIT ?
            """,
            on: handle
        )
        accountsOfKind = try SQLStatement(
            """
            SELECT \(AccountRow.columns) FROM accounts
            WHERE state = 0 AND id > ? AND kind = ? ORDER BY id LIMIT ?
            """,
            on: handle
        )
        endingPlans = try SQLStatement(
            """
            SELECT \(AccountRow.columns) FROM accounts INDEXED BY accounts_by_plan_end
            WHERE plan_expires_at IS NOT NULL AND plan_expires_at <= ? AND state = 0
                AND plan <> 'free'
            ORDER BY plan_expires_at, id LIMIT ?
            """,
            on: handle
        )
        audit = try SQLStatement(
            """
            SELECT \(AuditRow.columns) FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?
            """,
            on: handle
        )
        func statement(
            _ kind: (some StoredRow).Type,
            by key: String,
            where condition: String = "true"
        ) throws(SQLFailure) -> SQLStatement {
            try SQLStatement(
                """
                SELECT \(kind.columns) FROM \(kind.table)
                WHERE account = ? AND \(condition) AND \(key) > ? ORDER BY \(key) LIMIT ?
                """,
                on: handle
            )
        }
        devices = try statement(DeviceRow.self, by: "id")
        sessions = try statement(SessionRow.self, by: "id", where: "ended_at IS NULL")
        quotas = try statement(QuotaRow.self, by: "name")
        openHolds = try statement(HoldRow.self, by: "id", where: "state = 0")
        operations = try statement(OperationRow.self, by: "key")
        results = try statement(ResultRow.self, by: "key")
        blobs = try statement(BlobRow.self, by: "id")
        documents = try SQLStatement(
            """
            SELECT \(DocumentRow.columns) FROM documents
            WHERE account IS NOT NULL AND account = ? AND (kind, id) > (?, ?)
            ORDER BY kind, id LIMIT ?
            """,
            on: handle
        )
    }

    func accounts(_ query: AccountsQuery) throws(SQLFailure) -> [AccountRow] {
        let statement = query.kind == nil ? accounts : accountsOfKind
        // An empty id comes before every other.
        statement.bind(query.after?.bytes ?? [])
        if let kind = query.kind { statement.bind(kind.rawValue) }
        statement.bind(limit: query.limit)
        return try statement.all(AccountRow.init(from:))
    }

    func accounts(
        withPlansEndingBy moment: Timestamp,
        limit: Int
    ) throws(SQLFailure) -> [AccountRow] {
        endingPlans.bind(moment)
        endingPlans.bind(limit: limit)
        return try endingPlans.all(AccountRow.init(from:))
    }

    func audit(before number: Int64?, limit: Int) throws(SQLFailure) -> [AuditRow] {
        audit.bind(number ?? .max)
        audit.bind(limit: limit)
        return try audit.all(AuditRow.init(from:))
    }

    func rows(_ query: AccountRowsQuery) throws(SQLFailure) -> [Row] {
        switch query.kind {
        case .devices: try rows(query, devices, DeviceRow.init(from:), Row.device)
        case .sessions: try rows(query, sessions, SessionRow.init(from:), Row.session)
        case .quotas: try rows(query, quotas, QuotaRow.init(from:), Row.quota)
        case .openHolds: try rows(query, openHolds, HoldRow.init(from:), Row.hold)
        case .operations: try rows(query, operations, OperationRow.init(from:), Row.operation)
        case .results: try rows(query, results, ResultRow.init(from:), Row.result)
        case .blobs: try rows(query, blobs, BlobRow.init(from:), Row.blob)
        case .documents: try rows(query, documents, DocumentRow.init(from:), Row.document)
        }
    }

    private func rows<Found>(
        _ query: AccountRowsQuery,
        _ statement: SQLStatement,
        _ read: (SQLStatement) throws(SQLFailure) -> Found,
        _ row: (Found) -> Row
    ) throws(SQLFailure) -> [Row] {
        statement.bind(query.account)
        switch query.after {
        case .device(let id): statement.bind(id)
        case .quota(_, let name): statement.bind(name)
        case .operation(_, let key): statement.bind(key)
        case .document(let kind, let id):
            statement.bind(kind.rawValue)
            statement.bind(id)
        case let key? where !query.kind.hasTextKeys: statement.bind(key.positionInAccount)
        default:
            // An empty value comes before every other; bytes come after every text.
            switch query.kind {
            case .documents:
                statement.bind("")
                statement.bind("")
            default:
                if query.kind.hasTextKeys { statement.bind("") } else { statement.bind([UInt8]()) }
            }
        }
        statement.bind(limit: query.limit)
        return try statement.all(read).map(row)
    }
}

extension AccountRowsQuery.Kind {
    /// Whether the keys of the rows are stored as text.
    fileprivate var hasTextKeys: Bool {
        switch self {
        case .devices, .quotas, .operations, .documents: true
        case .sessions, .openHolds, .results, .blobs: false
        }
    }
}

extension AuditRow {
    static let columns = "\(firstColumns), detail"

    /// The columns of the first versions.
    static let firstColumns = "number, previous, at, actor, role, action, account, reason, outcome"

    static let lastSQL = "SELECT \(columns) FROM audit ORDER BY number DESC LIMIT 1"

    static let appendSQL = "INSERT INTO audit (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

    func bind(to statement: SQLStatement) {
        statement.bind(number)
        statement.bind(previous)
        statement.bind(at)
        statement.bind(actor)
        statement.bind(role)
        statement.bind(action)
        statement.bind(account)
        statement.bind(reason)
        statement.bind(outcome)
        statement.bind(detail)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            number: statement.integer(0),
            previous: statement.bytes(1),
            at: statement.moment(2),
            actor: statement.text(3),
            role: statement.text(4),
            action: statement.text(5),
            account: try statement.optionalIdentifier(6),
            reason: statement.text(7),
            outcome: statement.text(8),
            detail: statement.optionalText(9)
        )
    }
}
