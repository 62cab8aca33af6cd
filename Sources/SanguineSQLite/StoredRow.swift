import SanguineAuthority
import SanguineModel

/// A row that is stored in a table, with its conversion to and from columns.
protocol StoredRow {
    /// The table's name.
    static var table: String { get }
    /// The columns that identify the row, in the order of the table's primary key.
    static var keyColumns: [String] { get }
    /// The other columns.
    static var valueColumns: [String] { get }

    /// Binds key columns, then value columns.
    func bind(to statement: SQLStatement) throws(SQLFailure)
    /// Reads key columns, then value columns.
    init(from statement: SQLStatement) throws(SQLFailure)
}

extension StoredRow {
    /// All columns, in the order in which `SELECT` returns them.
    static var columns: String { (keyColumns + valueColumns).joined(separator: ", ") }

    private static var keyCondition: String {
        keyColumns.map { "\($0) = ?" }.joined(separator: " AND ")
    }

    static var selectSQL: String { "SELECT \(columns) FROM \(table) WHERE \(keyCondition)" }

    static var deleteSQL: String { "DELETE FROM \(table) WHERE \(keyCondition)" }

    static var putSQL: String {
        let places = (keyColumns + valueColumns).map { _ in "?" }.joined(separator: ", ")
        let updates = valueColumns.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        return """
            INSERT INTO \(table) (\(columns)) VALUES (\(places)) \
            ON CONFLICT (\(keyColumns.joined(separator: ", "))) DO UPDATE SET \(updates)
            """
    }
}

extension BalanceRow: StoredRow {
    static let table = "balances"
    static let keyColumns = ["account"]
    static let valueColumns = [
        "head", "available", "held", "seq", "changed_at", "grants", "grants_expire_at",
        "spending_limit", "spending_day", "spending_used", "spending_resets_at",
    ]

    func bind(to statement: SQLStatement) {
        statement.bind(account)
        statement.bind(head)
        statement.bind(available)
        statement.bind(held)
        statement.bind(seq)
        statement.bind(changedAt)
        statement.bind(grants)
        statement.bind(grants.next)
        statement.bind(spending.perDay)
        statement.bind(spending.period?.day.description)
        statement.bind(spending.period?.used)
        statement.bind(spending.period?.resetsAt)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        var spending = Spending(perDay: statement.optionalInteger(8))
        if let text = statement.optionalText(9) {
            guard let day = CalendarDay(text) else { throw .unreadable("The day of a balance") }
            spending.period = Spending.Period(
                day: day,
                used: statement.integer(10),
                resetsAt: statement.moment(11)
            )
        }
        self.init(
            account: try statement.identifier(0),
            head: statement.integer(1),
            available: statement.integer(2),
            held: statement.integer(3),
            seq: statement.integer(4),
            changedAt: statement.moment(5),
            grants: try statement.grants(6),
            spending: spending
        )
    }
}

extension DeviceRow: StoredRow {
    static let table = "devices"
    static let keyColumns = ["id"]
    static let valueColumns = ["secret_hash", "account", "created_at", "era"]

    func bind(to statement: SQLStatement) {
        statement.bind(id)
        statement.bind(secretHash)
        statement.bind(account)
        statement.bind(createdAt)
        statement.bind(era)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            id: statement.text(0),
            secretHash: statement.bytes(1),
            account: try statement.identifier(2),
            createdAt: statement.moment(3),
            era: statement.integer(4)
        )
    }
}

extension SessionRow: StoredRow {
    static let table = "sessions"
    static let keyColumns = ["id"]
    static let valueColumns = [
        "account", "generation", "rotated_at", "expires_at", "ended_at", "device_name", "device",
        "era",
    ]

    func bind(to statement: SQLStatement) {
        statement.bind(id)
        statement.bind(account)
        statement.bind(generation)
        statement.bind(rotatedAt)
        statement.bind(expiresAt)
        statement.bind(endedAt)
        statement.bind(deviceName)
        statement.bind(device)
        statement.bind(era)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            id: try statement.identifier(0),
            account: try statement.identifier(1),
            generation: statement.integer(2),
            rotatedAt: statement.moment(3),
            expiresAt: statement.moment(4),
            endedAt: statement.optionalMoment(5),
            deviceName: statement.optionalText(6),
            device: statement.optionalText(7),
            era: statement.integer(8)
        )
    }
}

extension QuotaRow: StoredRow {
    static let table = "quotas"
    static let keyColumns = ["account", "name"]
    static let valueColumns = ["day", "used", "resets_at", "seq", "held"]

    func bind(to statement: SQLStatement) {
        statement.bind(account)
        statement.bind(name)
        statement.bind(day.description)
        statement.bind(used)
        statement.bind(resetsAt)
        statement.bind(seq)
        statement.bind(held)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        guard let day = CalendarDay(statement.text(2)) else { throw .unreadable("A quota's day") }
        self.init(
            account: try statement.identifier(0),
            name: statement.text(1),
            day: day,
            used: statement.integer(3),
            resetsAt: statement.moment(4),
            seq: statement.integer(5),
            held: statement.integer(6)
        )
    }
}

extension SQLStatement {
    /// Binds the grants of a balance or a hold; `NULL` for none.
    func bind(_ grants: ExpiringGrants) {
        bind(grants.next == nil ? nil : grants.text)
    }

    /// Returns the labels of a charge or a hold; none for a text of another form.
    func labels(_ column: Int32) -> ChargeLabels {
        optionalText(column).flatMap { ChargeLabels(text: $0) } ?? ChargeLabels()
    }

    /// Returns the grants of a balance or a hold.
    func grants(_ column: Int32) throws(SQLFailure) -> ExpiringGrants {
        guard let text = optionalText(column) else { return ExpiringGrants() }
        guard let grants = ExpiringGrants(text: text) else {
            throw .unreadable("The expiring grants of a balance or a hold")
        }
        return grants
    }
}
