public import SanguineModel

/// The result of a search in threads.
public struct ThreadSearch: Hashable, Sendable {
    /// A thread or a message that contains the words.
    public struct Result: Hashable, Sendable, Identifiable {
        /// The thread.
        public let thread: ChatThread
        /// The message with the words; `nil` if they are in the thread's title.
        public let message: ChatMessage?

        /// The id of the message, or of the thread.
        public var id: RecordID { message?.id ?? thread.id }

        /// The time by which results are ordered.
        var time: Timestamp { message?.createdAt ?? thread.lastMessageAt }
        /// The order of results of the same time: messages by their positions, then the thread.
        var order: String { message?.order ?? "~" }

        /// Creates a result, for previews and tests.
        public init(thread: ChatThread, message: ChatMessage?) {
            (self.thread, self.message) = (thread, message)
        }
    }

    /// The newest results first.
    public let results: [Result]
    /// Whether all of the user's messages could be found.
    ///
    /// `false` while the index is made, while the messages are restored on a new device, and if the
    /// search ended at ``MessageLimits/searchedPlaces``: then more words find older messages.
    public let isComplete: Bool

    /// Creates the result of a search, for previews and tests.
    public init(results: [Result], isComplete: Bool) {
        (self.results, self.isComplete) = (results, isComplete)
    }
}
