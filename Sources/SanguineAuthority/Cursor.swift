import SanguineModel

/// A place in a list, as opaque text that is bound to the account and the list.
struct Cursor: Hashable {
    let number: Int64
    let text: String

    init(_ number: Int64, list: String, account: Identifier) {
        self.number = number
        text = Base64URL.encode("\(list):\(account):\(number)".utf8)
    }

    /// Reads a cursor.
    ///
    /// - Throws: `malformed_request` if it is none, or of another list or account.
    init(_ text: String, list: String, account: Identifier) throws(Problem) {
        guard text.utf8.count <= 256, let bytes = Base64URL.decode(text),
            case let parts = String(decoding: bytes, as: UTF8.self).split(separator: ":"),
            parts.count == 3, parts[0] == list, parts[1] == account.description,
            let number = Int64(parts[2])
        else {
            throw Problem(
                .malformedRequest,
                """
                Use the 'nextCursor' of this list's last page, or leave 'cursor' out to start over.
                """
            )
        }
        self.number = number
        self.text = text
    }
}
