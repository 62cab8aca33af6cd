import SanguineAuthority
import SanguineModel

extension DocumentRow: StoredRow {
    static let table = "documents"
    static let keyColumns = ["kind", "id"]
    static let valueColumns = ["account", "expires_at", "body"]

    /// Selects the documents of a kind after an id.
    static let listSQL = """
        SELECT \(columns) FROM documents WHERE kind = ? AND id > ? ORDER BY id LIMIT ?
        """

    /// Selects the documents of a kind and an account after an id.
    ///
    /// It names the index: SQLite would prefer the primary key, which leads through the documents
    /// of all accounts.
    static let listOfAccountSQL = """
        SELECT \(columns) FROM documents INDEXED BY documents_by_account
        WHERE kind = ? AND id > ? AND account IS NOT NULL AND account = ? ORDER BY id LIMIT ?
        """

    func bind(to statement: SQLStatement) {
        statement.bind(kind.rawValue)
        statement.bind(id)
        statement.bind(account)
        statement.bind(expiresAt)
        statement.bind(body)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        guard let kind = DocumentKind(rawValue: statement.text(0)) else {
            throw .unreadable("A document's kind")
        }
        self.init(
            kind: kind,
            id: statement.text(1),
            account: try statement.optionalIdentifier(2),
            expiresAt: statement.optionalMoment(3),
            body: statement.bytes(4)
        )
    }
}
