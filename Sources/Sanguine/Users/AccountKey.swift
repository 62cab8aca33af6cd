import SanguineModel

/// The owner of values, operations and files: an account of the Sanguine server, or a user of the
/// app's own backend.
///
/// An owner is a string, so that both kinds are stored in the same way. They cannot be equal: an
/// account's id has no colon.
struct AccountKey: Hashable, Sendable {
    private static let prefix = "user:"

    /// The stored form.
    let text: String

    /// Creates the owner for an account of the Sanguine server.
    init(_ account: Identifier) { text = account.description }

    /// Creates the owner for a user that the app has named.
    ///
    /// - Throws: ``SanguineError/signInRefused(_:)`` if the string cannot be an id.
    init(userID: String) throws(SanguineError) {
        let bytes = userID.utf8
        guard !bytes.isEmpty, bytes.count <= ClientLimits.userIDBytes,
            !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else {
            throw .signInRefused(
                """
                The user's id is empty, longer than \(ClientLimits.userIDBytes) bytes, or contains \
                control characters. Pass the id by which your backend knows the user
                """
            )
        }
        text = Self.prefix + userID
    }

    /// Creates an owner from its stored form.
    init(stored text: String) { self.text = text }

    /// The id that the app has given the user; `nil` for an account.
    var userID: String? {
        text.hasPrefix(Self.prefix) ? String(text.dropFirst(Self.prefix.count)) : nil
    }

    /// The account; `nil` for a user that the app has named.
    var account: Identifier? { userID == nil ? Identifier(text) : nil }

    /// Compares bytes, because a backend may distinguish strings that `String` considers equal.
    static func == (one: AccountKey, other: AccountKey) -> Bool {
        one.text.utf8.elementsEqual(other.text.utf8)
    }
}
