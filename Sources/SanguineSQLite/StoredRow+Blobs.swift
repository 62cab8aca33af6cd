import SanguineAuthority
import SanguineModel

extension BlobRow: StoredRow {
    static let table = "blobs"
    static let keyColumns = ["id", "account"]
    static let valueColumns = ["size", "type", "width", "height", "created_at"]

    func bind(to statement: SQLStatement) {
        statement.bind(id.bytes)
        statement.bind(account)
        statement.bind(size)
        statement.bind(type)
        statement.bind(width)
        statement.bind(height)
        statement.bind(createdAt)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        guard let id = BlobID(bytes: statement.bytes(0)) else { throw .unreadable("A file's id") }
        self.init(
            account: try statement.identifier(1),
            id: id,
            size: statement.integer(2),
            type: statement.text(3),
            width: statement.optionalInteger(4),
            height: statement.optionalInteger(5),
            createdAt: statement.moment(6)
        )
    }
}
