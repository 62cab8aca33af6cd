public import SanguineModel

/// A place in a list, as opaque text that is bound to the account and the list.
public struct Cursor: Hashable, Sendable {
    /// The place, as the list writes it, without a colon.
    let position: String
    let text: String

    init(_ number: Int64, list: String, account: Identifier) {
        self.init(at: String(number), list: list, account: account)
    }

    init(at position: String, list: String, account: Identifier) {
        self.position = position
        text = Base64URL.encode("\(list):\(account):\(position)".utf8)
    }

    /// Reads a cursor.
    ///
    /// - Throws: `malformed_request` if it is none, or of another list or account.
    init(_ text: String, list: String, account: Identifier) throws(Problem) {
        let parts = try Self.parts(text)
        guard parts.list == list, parts.account == account else { throw .cursorInvalid }
        position = String(parts.position)
        self.text = text
    }

    /// The place in a list that counts its items.
    var number: Int64 {
        get throws(Problem) {
            guard let number = Int64(position) else { throw .cursorInvalid }
            return number
        }
    }

    /// Throws `malformed_request` unless the text has the form of a cursor, of whatever list and
    /// account.
    public static func checkForm(_ text: String) throws(Problem) { _ = try parts(text) }

    private static func parts(
        _ text: String
    ) throws(Problem) -> (list: Substring, account: Identifier, position: Substring) {
        guard text.utf8.count <= 2_048, let bytes = Base64URL.decode(text),
            case let parts = String(decoding: bytes, as: UTF8.self).split(separator: ":"),
            parts.count == 3, let account = Identifier(String(parts[1]))
        else { throw .cursorInvalid }
        return (parts[0], account, parts[2])
    }
}

extension Problem {
    static var cursorInvalid: Problem {
        Problem(
            .malformedRequest,
            "Use the 'nextCursor' of this list's last page, or leave 'cursor' out to start over."
        )
    }
}
