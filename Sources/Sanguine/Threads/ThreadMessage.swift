public import SanguineModel

/// A message of a thread as this device shows it: a record of the feed, or a question of this
/// device that the feed has not brought yet.
public struct ThreadMessage: Hashable, Sendable, Identifiable {
    /// The state of a message on this device.
    public enum Phase: Hashable, Sendable {
        /// The call waits for a network, and was not sent yet.
        case waiting
        /// The answer is being made; ``ThreadMessage/text`` grows where it is read.
        case making
        /// The message is complete.
        case complete
        /// The answer ended early: ``ThreadMessage/text`` is the part that was made, and
        /// ``ThreadMessage/charged`` the price that was paid for it.
        case cut
        /// The call failed, and there is no answer.
        case failed
    }

    /// The message in the form of the feed.
    public internal(set) var record: ChatMessage
    /// The state of the message on this device.
    public let phase: Phase

    /// Creates a message, for previews and tests.
    ///
    /// - Parameters:
    ///   - record: The message in the form of the feed.
    ///   - isWaiting: Whether its call waits for a network. Default: no.
    public init(_ record: ChatMessage, isWaiting: Bool = false) {
        self.record = record
        phase =
            switch record.state {
            case _ where isWaiting: .waiting
            case .making: .making
            case .complete: .complete
            case .cut: .cut
            case .failed: .failed
            }
    }

    /// The message's id.
    public var id: RecordID { record.id }
    /// The author.
    public var role: ChatMessage.Role { record.role }
    /// The text to show.
    public var text: String { record.text }
    /// The price that was paid for an answer, in the balance's unit; `nil` while it is unknown.
    public var charged: Int64? { record.charged }
    /// The reason for which the model ended the answer, or the problem's code for an answer that
    /// was cut or failed.
    public var finishReason: String? { record.finishReason }
}
