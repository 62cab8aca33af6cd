import SanguineAuthority
import SanguineModel

extension ResultRow: StoredRow {
    static let table = "results"
    static let keyColumns = ["key"]
    static let valueColumns = ["account", "function", "output", "made_at", "expires_at"]

    func bind(to statement: SQLStatement) {
        statement.bind(key)
        statement.bind(account?.bytes ?? [])
        statement.bind(function)
        statement.bind(output)
        statement.bind(madeAt)
        statement.bind(expiresAt)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            key: statement.bytes(0),
            account: statement.bytes(1).isEmpty ? nil : try statement.identifier(1),
            function: statement.text(2),
            output: statement.bytes(3),
            madeAt: statement.moment(4),
            expiresAt: statement.moment(5)
        )
    }
}

extension PartsRow: StoredRow {
    static let table = "parts"
    static let keyColumns = ["run", "first"]
    static let valueColumns = ["texts", "at"]

    func bind(to statement: SQLStatement) {
        statement.bind(run)
        statement.bind(first)
        statement.bind(texts)
        statement.bind(at)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            run: try statement.identifier(0),
            first: statement.integer(1),
            texts: statement.bytes(2),
            at: statement.moment(3)
        )
    }
}
