import SanguineModel
import Synchronization

/// The part of a thread that a model shows, by the positions of its messages.
struct MessageWindow: Hashable, Sendable {
    /// The position of the first message; `nil` for a page before the last one.
    var first: Int?
    /// The position of the last message; `nil` for the newest one, also when others follow.
    var last: Int?
}

/// A thread as this device shows it: the records, and the calls that the feed has not brought yet.
struct ThreadContents: Hashable, Sendable {
    /// The thread; `nil` if there is none.
    var thread: ChatThread?
    /// The messages of the window, oldest first.
    var messages: [ThreadMessage] = []
    /// Whether the thread has messages before the first one.
    var hasEarlier = false
    /// Whether the thread has messages after the last one.
    var hasLater = false
    /// The positions of the first and the last message that the feed has brought.
    var stored: ClosedRange<Int>?
    /// The reason why the last call in the thread left no message.
    var refusal: SanguineError?
    /// The window that it was made for.
    var window = MessageWindow()

    /// The collections that it is made from.
    static let collections: Set<String> = [
        ChatThread.collection.name, ChatMessage.collection.name,
    ]

    init() {}

    /// Reads a window of a thread.
    ///
    /// - Parameters:
    ///   - id: The thread's id.
    ///   - window: The window.
    ///   - limit: The number of messages of a window without a first one. Default: a page.
    ///   - reader: Reads the records.
    init(
        of id: RecordID,
        _ window: MessageWindow,
        limit: Int = MessageLimits.page,
        from reader: RecordsReader
    ) {
        self.window = window
        let pending = reader.view.source.threads?.pending
        let exchanges = pending?.exchanges(in: id) ?? []
        refusal = pending?.refusal(in: id)
        thread = reader.record(ChatThread.self, id)
        // A thread that this device has begun offline has no record yet.
        let isNew = exchanges.contains { !$0.hadThread }
        guard thread != nil || isNew else { return }
        if thread != nil { readMessages(of: id, window, limit, from: reader) }
        guard !hasLater else { return }
        add(exchanges, from: reader)
        thread = thread.map { Self.thread($0, with: exchanges) } ?? Self.thread(of: exchanges)
    }

    private mutating func readMessages(
        of id: RecordID,
        _ window: MessageWindow,
        _ limit: Int,
        from reader: RecordsReader
    ) {
        let limit = window.first == nil ? limit : MessageLimits.window
        var found = reader.messages(
            of: id,
            from: window.first ?? 0,
            through: window.last ?? .max,
            limit: limit + 1
        )
        if found.count > limit {
            found.removeFirst()
            hasEarlier = true
        } else if let first = found.first, first.position > 1 {
            let end = first.position - 1
            hasEarlier = !reader.messages(of: id, from: 0, through: end, limit: 1).isEmpty
        }
        if let last = window.last {
            hasLater = !reader.messages(of: id, from: last + 1, through: .max, limit: 1).isEmpty
        }
        messages = found.map { ThreadMessage($0) }
        if let first = found.first, let last = found.last {
            stored = first.position...max(first.position, last.position)
        }
    }

    /// Adds the calls of this device to the messages of the feed.
    private mutating func add(_ exchanges: [PendingExchange], from reader: RecordsReader) {
        var position = messages.last?.record.position ?? thread?.lastPosition ?? 0
        let isFaulty = reader.view.source.environment.fault == .showsQuestionsTwice
        for exchange in exchanges {
            if !isFaulty, let index = messages.lastIndex(where: { $0.id == exchange.answer.id }) {
                // The feed has begun the answer. This device may have received its end already.
                guard messages[index].phase == .making, exchange.hasEnded else { continue }
                var answer = exchange.answer
                answer.position = messages[index].record.position
                answer.order = messages[index].record.order
                messages[index] = ThreadMessage(answer)
                continue
            }
            // The feed has brought it, before the messages of the window.
            guard
                isFaulty || thread == nil
                    || reader.record(ChatMessage.self, exchange.answer.id) == nil
            else { continue }
            for message in [exchange.question, exchange.answer] {
                var message = message
                position += 1
                message.position = position
                message.order = ChatMessage.order(of: exchange.thread, at: position)
                messages.append(ThreadMessage(message, isWaiting: exchange.isWaiting))
            }
        }
    }

    /// Returns a thread with the time of its newest question.
    static func thread(_ thread: ChatThread, with exchanges: [PendingExchange]) -> ChatThread {
        var thread = thread
        for exchange in exchanges where exchange.question.createdAt > thread.lastMessageAt {
            thread.lastMessageAt = exchange.question.createdAt
        }
        return thread
    }

    /// Returns a thread that was begun on this device, and that the feed has not brought yet.
    static func thread(of exchanges: [PendingExchange]) -> ChatThread? {
        guard let first = exchanges.first(where: { !$0.hadThread }) else { return nil }
        var thread = ChatThread(
            id: first.thread,
            area: first.area,
            function: first.function,
            createdAt: first.question.createdAt
        )
        thread.messages = 2 * exchanges.count
        return Self.thread(thread, with: exchanges)
    }
}

extension RecordsReader {
    /// Returns messages of a thread between two positions, the last ones if there are more than the
    /// limit, in their order.
    ///
    /// No operation of a device changes messages, so only the base is read.
    func messages(
        of thread: RecordID,
        from first: Int,
        through last: Int,
        limit: Int
    ) -> [ChatMessage] {
        read(thread, from: first, through: last, limit, isDescending: true).reversed()
    }

    /// Returns messages of a thread after a position, in their order.
    func messages(of thread: RecordID, after position: Int, limit: Int) -> [ChatMessage] {
        guard position < .max else { return [] }
        return read(thread, from: position + 1, through: .max, limit, isDescending: false)
    }

    private func read(
        _ thread: RecordID,
        from first: Int,
        through last: Int,
        _ limit: Int,
        isDescending: Bool
    ) -> [ChatMessage] {
        let (low, high) = (
            ChatMessage.order(of: thread, at: first), ChatMessage.order(of: thread, at: last)
        )
        let found = view.readAtOnce { contents in
            try contents.base.records(
                in: ChatMessage.collection.name,
                where: ChatMessage.byOrder.field,
                from: low,
                through: high,
                limit: limit,
                isDescending: isDescending
            )
        }
        return (found ?? []).compactMap { id, value in
            view.unreadable.record(value, id, report: view.recordFailure)
        }
    }
}
