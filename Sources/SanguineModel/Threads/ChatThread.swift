/// A thread of an account: the questions and answers that belong together, with a title.
///
/// Threads are records of the system collection `$threads`. A thread is created by the first call
/// that names it, see ``FunctionRules/keepsHistory``. Afterwards the server changes it with each
/// call, and an app with ``RenameThread``, ``ChangeThread`` and ``DeleteThread``.
public struct ChatThread: SyncedRecord, Hashable, Defaulted {
    /// The origin of a title.
    public enum TitleSource: String, Hashable, Codable, Sendable {
        /// The user, by ``RenameThread``.
        case own
        /// A function; see ``FunctionRules/titles``.
        case function
    }

    /// `$threads`, with indexes by the time of the last message and by the area.
    public static let collection = RecordCollection(
        system: "$threads",
        indexes: ["lastMessageAt", "area"]
    )

    /// An unnamed thread without messages.
    public static let defaults = ChatThread(
        id: RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0))),
        function: "",
        createdAt: Timestamp(millisecondsSince1970: 0)
    )

    /// The thread's id, a UUID that the client created; see ``Identifier``.
    public let id: RecordID
    /// The title, or `nil` if the thread has none yet.
    public var title: String?
    /// The origin of the title, or `nil` if there is no title.
    public var titleSource: TitleSource?
    /// The part of the app to which the thread belongs, such as `love` or `career`.
    ///
    /// At most 64 characters; `nil` for none. A call that begins a thread sets it by the member
    /// `area` of its input, and ``ChangeThread`` changes it.
    public var area: String?
    /// The app's own settings of the thread: an object of at most 4 KiB as JSON.
    public var settings: JSONValue
    /// The name of the function whose call began the thread.
    public var function: String
    /// The time of the first call.
    public var createdAt: Timestamp
    /// The time of the last change of the title, the area or the settings.
    public var updatedAt: Timestamp
    /// The time of the last question.
    public var lastMessageAt: Timestamp
    /// The number of messages.
    public var messages: Int
    /// The position of the last message that was ever added.
    ///
    /// Messages of withdrawn calls are removed, so it can exceed the number of messages.
    public var lastPosition: Int

    /// Creates a thread without messages.
    public init(
        id: RecordID,
        title: String? = nil,
        titleSource: TitleSource? = nil,
        area: String? = nil,
        settings: JSONValue = .object([:]),
        function: String,
        createdAt: Timestamp
    ) {
        self.id = id
        self.title = title
        self.titleSource = titleSource
        self.area = area
        self.settings = settings
        self.function = function
        self.createdAt = createdAt
        updatedAt = createdAt
        lastMessageAt = createdAt
        messages = 0
        lastPosition = 0
    }
}

extension ChatThread {
    /// Returns the area of a thread that a call with this input begins: its member `area`.
    ///
    /// - Parameter input: The input of the function.
    /// - Returns: The area, or `nil` if there is none, or if it could not be set on a thread.
    package static func area(in input: JSONValue) -> String? {
        let limit = ThreadLimits.areaCharacters
        guard let area = input["area"]?.string, area.isPlainText(of: 1...limit) else { return nil }
        return area
    }

    /// The index by the time of the last message.
    public static let byLastMessage = RecordIndex<ChatThread, Timestamp>("lastMessageAt")
    /// The index by the area.
    public static let byArea = RecordIndex<ChatThread, String>("area")
}

extension RecordID {
    /// The id of a thread as it is stored: a UUID in lower case.
    ///
    /// A call may name its thread in either case, and some systems create UUIDs in upper case.
    package var ofThread: RecordID { Identifier(text).map { RecordID($0) } ?? self }
}
