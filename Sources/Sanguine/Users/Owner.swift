import SanguineModel

/// Whose values, operations and files these are: an account of the Sanguine server, or a user of
/// the app's own backend.
///
/// A text, so that both are kept in the same way. The two never meet: an account's id has no colon.
struct Owner: Hashable, Sendable {
    private static let prefix = "user:"

    /// As it is stored.
    let text: String

    /// The account of the Sanguine server.
    init(_ account: Identifier) { text = account.description }

    /// The user whom the app has named.
    ///
    /// - Throws: ``SanguineError/signInRefused(_:)`` for what cannot be an id.
    init(userID: String) throws(SanguineError) {
        let bytes = userID.utf8
        guard !bytes.isEmpty, bytes.count <= ClientLimits.userIDBytes,
            !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else {
            throw .signInRefused(
                """
                The user's id is empty, longer than \(ClientLimits.userIDBytes) bytes, or has \
                control characters in it. Pass the id by which your backend knows the user
                """
            )
        }
        text = Self.prefix + userID
    }

    /// An owner as it was stored.
    init(stored text: String) { self.text = text }

    /// What the app has named the user; `nil` for an account.
    var userID: String? {
        text.hasPrefix(Self.prefix) ? String(text.dropFirst(Self.prefix.count)) : nil
    }

    /// By their bytes: a backend may tell texts apart that `String` calls equal.
    static func == (one: Owner, other: Owner) -> Bool {
        one.text.utf8.elementsEqual(other.text.utf8)
    }
}
