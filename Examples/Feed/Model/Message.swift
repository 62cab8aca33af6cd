public import SanguineModel

/// A message from one user to another one, which no other user can read.
public struct Message: Written {
    public static let collection = RecordCollection(
        "messages",
        access: .readers,
        indexes: ["createdAt", "conversation"],
        owner: "sender",
        readers: "reader"
    )
    public static let writing = "message.send"
    public static let byCreation = RecordIndex<Message, Timestamp>("createdAt")
    public static let byConversation = RecordIndex<Message, String>("conversation")

    public let id: RecordID
    public let text: String
    /// The id of the receiver's account.
    public let reader: String
    /// The sender's profile; shown only if it has the same owner as the message.
    public let from: RecordID
    /// The receiver's profile.
    public let to: RecordID
    /// The text that both directions of a conversation share.
    public let conversation: String
    public var createdAt: Timestamp?
    /// The id of the sender's account, which the server sets.
    public var sender: String?

    public var lane: String { to.text }

    /// Creates a message.
    ///
    /// - Parameters:
    ///   - id: The message's id.
    ///   - text: The text.
    ///   - from: The sender's profile.
    ///   - to: The receiver's profile.
    ///   - reader: The id of the receiver's account.
    public init(id: RecordID, _ text: String, from: RecordID, to: RecordID, reader: String) {
        (self.id, self.text, self.reader, self.from, self.to) = (id, text, reader, from, to)
        conversation = Self.conversation(from, to)
    }

    /// Returns whether the message is from a profile, and was sent by the profile's account.
    ///
    /// - Parameters:
    ///   - profile: The profile of the supposed sender.
    ///   - account: The id of the profile's account; `nil` if it is not known.
    /// - Returns: Whether both are so; not if the account is not known.
    public func isFrom(_ profile: RecordID, _ account: String?) -> Bool {
        from == profile && account != nil && sender == account
    }

    /// Returns the text that the messages between two profiles share.
    public static func conversation(_ one: RecordID, _ other: RecordID) -> String {
        [one, other].sorted().map(\.text).joined(separator: " ")
    }
}
