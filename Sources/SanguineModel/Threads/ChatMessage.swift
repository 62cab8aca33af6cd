/// A message of a thread: a question, or the answer to it.
///
/// Messages are records of the system collection `$messages`, which only the server writes. The
/// question and the unfinished answer appear in the transaction that accepts a call; the answer
/// changes to its final state in the transaction that charges the call. While an answer is being
/// made, `GET /v1/calls/{key}` streams its text to any device of the account.
///
/// A message whose thread does not exist, because it was deleted, is not shown; the server removes
/// it in the background.
public struct ChatMessage: SyncedRecord, Hashable, Defaulted {
    /// The author of a message.
    public enum Role: String, Hashable, Codable, Sendable {
        /// The user, for a question.
        case user
        /// The function, for an answer.
        case assistant
    }

    /// The state of a message.
    public enum State: String, Hashable, Codable, Sendable {
        /// The answer is being made: ``ChatMessage/text`` is empty.
        case making
        /// The message is complete; questions always are.
        case complete
        /// The answer ended early, and contains the parts until then; see ``ChatMessage/charged``.
        case cut
        /// The call failed, and there is no answer. It can be repeated.
        case failed
    }

    /// `$messages`, with indexes by the thread, and by the thread together with the position.
    public static let collection = RecordCollection(
        system: "$messages",
        indexes: ["thread", "order"],
        blobs: ["attachments"]
    )

    /// An empty message.
    public static let defaults = ChatMessage(
        id: RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0))),
        thread: RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0))),
        position: 0,
        role: .user,
        state: .complete,
        createdAt: Timestamp(millisecondsSince1970: 0)
    )

    /// The message's id, which derives from its call's key.
    public let id: RecordID
    /// The id of the thread.
    public var thread: RecordID
    /// The position in the thread: 1, 2, …; an answer follows its question directly.
    public var position: Int
    /// The thread and the position as one text, which sorts the messages of a thread by position.
    ///
    /// It is indexed, so that a part of a thread is found without reading the rest; see
    /// ``order(of:at:)``.
    public var order: String
    /// The author.
    public var role: Role
    /// The input or the output of the function, unless it is the text itself, or too large.
    ///
    /// Use ``value`` to read it in either case.
    public var content: JSONValue?
    /// The text to show and to search: a text of the input or the output, or their texts and
    /// numbers in lines.
    ///
    /// The text of a question is the member `question` of the input, if there is one.
    public var text: String
    /// Whether ``text`` or ``content`` lacks a part of the message, which was too long.
    ///
    /// `GET /v1/calls/{key}` has the whole answer as long as the server stores it.
    public var isCut: Bool
    /// The state.
    public var state: State
    /// The reason for which the model ended the answer, or the problem's code for an answer that
    /// was cut or failed.
    public var finishReason: String?
    /// The price that was paid, in the balance's unit; `nil` for a question and an unfinished
    /// answer.
    public var charged: Int64?
    /// The idempotency key of the call.
    public var call: String?
    /// The ids of the files that were attached to a question, or `nil` if there are none.
    public var attachments: [String]?
    /// The time of the call for a question, and of the last change of the state for an answer.
    public var createdAt: Timestamp

    /// Creates a message without content.
    public init(
        id: RecordID,
        thread: RecordID,
        position: Int,
        role: Role,
        state: State,
        call: String? = nil,
        attachments: [String]? = nil,
        createdAt: Timestamp
    ) {
        self.id = id
        self.thread = thread
        self.position = position
        order = Self.order(of: thread, at: position)
        self.role = role
        text = ""
        isCut = false
        self.state = state
        self.call = call
        self.attachments = attachments
        self.createdAt = createdAt
    }

    /// The input or the output of the function, or `nil` if the record does not contain all of it.
    public var value: JSONValue? {
        content ?? (isCut || state == .making || state == .failed ? nil : .string(text))
    }
}

extension ChatMessage {
    /// The index by the thread.
    public static let byThread = RecordIndex<ChatMessage, RecordID>("thread")

    /// The index by the thread and the position.
    public static let byOrder = RecordIndex<ChatMessage, String>("order")

    /// Returns the ``order`` of a message.
    ///
    /// The messages of a thread are between those of the positions 0 and `Int.max`.
    public static func order(of thread: RecordID, at position: Int) -> String {
        var text = "\(thread):"
        text.append(zeroPadded: max(0, position), to: 19)
        return text
    }

    /// Returns the id of a call's question, or `nil` if the key is too long for a record's id.
    ///
    /// A client knows the key of its call, and so can show the question before the server has it.
    ///
    /// - Parameter key: The idempotency key of the call, such as a UUID.
    /// - Returns: The id.
    public static func question(of key: String) -> RecordID? { id(key, 1) }

    /// Returns the id of a call's answer, or `nil` if the call's key is too long for a record's id.
    public static func answer(of key: String) -> RecordID? { id(key, 2) }

    private static func id(_ key: String, _ number: Int) -> RecordID? {
        try? RecordID(derivedFrom: key, number)
    }

    /// Replaces the content and the text.
    package mutating func set(_ content: MessageContent) {
        self.content = content.value
        text = content.text
        isCut = content.isCut
    }
}
