import SanguineModel

// The mutations of threads that only the server runs. They are not registered in a schema, so a
// device cannot send them.

/// Adds the question of a call to its thread, and the answer that is to be made.
///
/// A call that failed and runs again under its key replaces its earlier messages.
struct BeginMessages: SystemMutation {
    static let name = "$messages.begin"

    let thread: RecordID
    let function: String
    /// The idempotency key of the call.
    let key: String
    let question: MessageContent
    let attachments: [String]
    /// The area of a new thread; `nil` for none.
    let area: String?
    let at: Timestamp
    let limit: Int

    func apply(to records: inout Records) throws {
        guard let id = ChatMessage.question(of: key), let answerID = ChatMessage.answer(of: key)
        else {
            throw Refusal(
                .invalidContent,
                "Use a UUID as the Idempotency-Key of a call with a 'thread'."
            )
        }
        var stored =
            records.get(ChatThread.self, thread)
            ?? ChatThread(id: thread, area: area, function: function, createdAt: at)
        let earlier = records.get(ChatMessage.self, id)
        if let earlier, earlier.thread != thread { records.uncount(earlier.thread) }
        if earlier?.thread != thread {
            guard stored.messages + 2 <= limit else {
                throw Refusal(
                    .storageFull,
                    "Begin another thread: this one has its limit of \(limit) messages."
                )
            }
            stored.messages += 2
        }
        stored.lastPosition += 2
        stored.lastMessageAt = max(at, stored.lastMessageAt)
        var message = ChatMessage(
            id: id,
            thread: thread,
            position: stored.lastPosition - 1,
            role: .user,
            state: .complete,
            call: key,
            attachments: attachments.isEmpty ? nil : attachments,
            createdAt: at
        )
        message.set(question)
        records.set(stored)
        records.set(message)
        records.set(
            ChatMessage(
                id: answerID,
                thread: thread,
                position: stored.lastPosition,
                role: .assistant,
                state: .making,
                call: key,
                createdAt: at
            )
        )
    }
}

/// Ends the answer of a call, if it is still being made.
struct EndMessage: SystemMutation {
    static let name = "$messages.end"

    /// The idempotency key of the call.
    let key: String
    let state: ChatMessage.State
    let end: MessageEnd
    let charged: Int64
    let at: Timestamp

    func apply(to records: inout Records) {
        guard let id = ChatMessage.answer(of: key),
            var message = records.get(ChatMessage.self, id), message.state == .making
        else { return }
        if let content = end.content { message.set(content) }
        message.state = state
        message.finishReason = end.finishReason
        message.charged = charged
        message.createdAt = at
        records.set(message)
    }
}

/// Removes the messages of a call that was withdrawn, and a thread that has no others.
struct WithdrawMessages: SystemMutation {
    static let name = "$messages.withdraw"

    /// The idempotency key of the call.
    let key: String

    func apply(to records: inout Records) {
        guard let id = ChatMessage.question(of: key), let answerID = ChatMessage.answer(of: key),
            let answer = records.get(ChatMessage.self, answerID), answer.state == .making
        else { return }
        records.delete(ChatMessage.self, id)
        records.delete(ChatMessage.self, answerID)
        records.uncount(answer.thread)
    }
}

/// Gives a thread without a title one that a function made.
struct TitleThread: SystemMutation {
    static let name = "$threads.title"

    let thread: RecordID
    let title: String
    let at: Timestamp

    func apply(to records: inout Records) {
        guard var stored = records.get(ChatThread.self, thread), stored.title == nil else { return }
        stored.title = title
        stored.titleSource = .function
        stored.updatedAt = at
        records.set(stored)
    }
}

extension Records {
    /// Removes a question and its answer from the count of a thread, and the thread if it is empty
    /// and its user has not changed it.
    fileprivate mutating func uncount(_ thread: RecordID) {
        guard var stored = get(ChatThread.self, thread) else { return }
        stored.messages = max(0, stored.messages - 2)
        if stored.messages == 0, stored.title == nil, stored.updatedAt == stored.createdAt {
            delete(ChatThread.self, thread)
        } else {
            set(stored)
        }
    }
}
