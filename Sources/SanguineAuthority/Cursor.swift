public import SanguineModel

/// A place in a list, as opaque text that is bound to the account and the list.
public struct Cursor: Hashable, Sendable {
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
        let parts = try Self.parts(text)
        guard parts.list == list, parts.account == account else { throw .cursorInvalid }
        number = parts.number
        self.text = text
    }

    /// Throws `malformed_request` unless the text has the form of a cursor, of whatever list and
    /// account.
    public static func checkForm(_ text: String) throws(Problem) { _ = try parts(text) }

    private static func parts(
        _ text: String
    ) throws(Problem) -> (list: Substring, account: Identifier, number: Int64) {
        guard text.utf8.count <= 256, let bytes = Base64URL.decode(text),
            case let parts = String(decoding: bytes, as: UTF8.self).split(separator: ":"),
            parts.count == 3, let account = Identifier(String(parts[1])),
            let number = Int64(parts[2])
        else { throw .cursorInvalid }
        return (parts[0], account, number)
    }
}

extension Problem {
    fileprivate static var cursorInvalid: Problem {
        Problem(
            .malformedRequest,
            "Use the 'nextCursor' of this list's last page, or leave 'cursor' out to start over."
        )
    }
}
