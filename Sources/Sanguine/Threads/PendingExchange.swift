import Foundation
import SanguineModel

/// A question that this device has asked in a thread, with its answer, until the feed has brought
/// both.
struct PendingExchange: Hashable, Codable, Sendable {
    /// The call's idempotency key.
    let key: String
    let thread: RecordID
    /// The name of the called function.
    let function: String
    /// The area of a thread that the question begins; `nil` for none.
    let area: String?
    var question: ChatMessage
    var answer: ChatMessage
    /// Whether the call waits for a network, and was never sent.
    var isWaiting: Bool
    /// The feed's number that contains the end of the call; `nil` while it is unknown.
    var head: Int64?
    /// The epoch of that number.
    var epoch: Epoch?
    /// Whether the thread was on this device: if it no longer is, it was deleted.
    var hadThread = false

    /// Creates the messages of a call, unless its key is too long for them.
    init?(
        key: String,
        in thread: RecordID,
        of function: String,
        _ question: MessageContent,
        area: String? = nil,
        attachments: [String],
        at now: Timestamp
    ) {
        guard let questionID = ChatMessage.question(of: key),
            let answerID = ChatMessage.answer(of: key)
        else { return nil }
        self.key = key
        self.thread = thread
        self.function = function
        self.area = area
        self.question = ChatMessage(
            id: questionID,
            thread: thread,
            position: 0,
            role: .user,
            state: .complete,
            call: key,
            attachments: attachments.isEmpty ? nil : attachments,
            createdAt: now
        )
        self.question.set(question)
        answer = ChatMessage(
            id: answerID,
            thread: thread,
            position: 0,
            role: .assistant,
            state: .making,
            call: key,
            createdAt: now
        )
        isWaiting = false
    }

    /// Whether the answer has ended, as far as this device knows.
    var hasEnded: Bool { answer.state != .making }

    /// The size in memory and on disk, in bytes: of both messages, and of the rest.
    var bytes: Int { MessageLimits.exchangeBytes + question.textBytes + answer.textBytes }

    /// The records whose readers see a change of this exchange.
    var records: Set<RecordKey> {
        [
            RecordKey(ChatThread.collection.name, thread),
            RecordKey(ChatMessage.collection.name, question.id),
            RecordKey(ChatMessage.collection.name, answer.id),
        ]
    }

    /// Ends the answer.
    mutating func end(
        _ state: ChatMessage.State,
        _ content: MessageContent? = nil,
        reason: String?,
        charged: Int64,
        at now: Timestamp
    ) {
        isWaiting = false
        if let content { answer.set(content) }
        answer.state = state
        answer.finishReason = reason
        answer.charged = charged
        answer.createdAt = now
    }

    /// Whether the base no longer needs this exchange to be shown.
    ///
    /// - Parameters:
    ///   - facts: The contents of the base.
    ///   - position: The number of the feed that the base has reached.
    ///   - epoch: The epoch of that number.
    /// - Returns: Whether it can be removed.
    func isSettled(by facts: Facts, at position: Int64, of epoch: Epoch?) -> Bool {
        facts.isAnswered || isDeleted(by: facts) || isReached(by: position, of: epoch)
    }

    /// Whether its thread was deleted.
    func isDeleted(by facts: Facts) -> Bool { hadThread && !facts.hasThread && facts.isWhole }

    /// Whether a base has reached the end of the call.
    func isReached(by position: Int64, of epoch: Epoch?) -> Bool {
        guard let head else { return false }
        // Numbers of different epochs cannot be compared: the other feed has its own messages.
        return self.epoch == epoch || self.epoch == nil ? head <= position : epoch != nil
    }

    /// The contents of the base that concern an exchange.
    struct Facts {
        /// The state of the answer; `nil` if the base does not contain the answer.
        var answer: String?
        /// Whether the thread is visible.
        var hasThread: Bool
        /// Whether the base has all of the user's records, so that a missing thread was deleted.
        var isWhole = true

        /// Whether the base contains the end of the answer.
        var isAnswered: Bool { answer.map { $0 != ChatMessage.State.making.rawValue } ?? false }
    }
}

extension ChatMessage {
    /// The size of the text and the content, in bytes.
    fileprivate var textBytes: Int { text.utf8.count + (content?.encoded.count ?? 0) }
}
