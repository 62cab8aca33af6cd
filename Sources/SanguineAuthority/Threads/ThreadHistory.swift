import Foundation
package import SanguineModel

/// Reads the messages of a thread, the last ones first.
struct ThreadHistory: Sendable {
    let authority: Authority

    /// Returns the context of a call in a thread, oldest first.
    ///
    /// It consists of the last answers that are complete or cut, each with its question, as many
    /// as the rules allow. An answer that does not fit ends the context, so that it has no gap.
    ///
    /// - Throws: `overloaded` while an index is being built, or the storage's error.
    func context(
        of thread: Identifier,
        _ account: Identifier,
        _ rules: HistoryRules
    ) async throws(Problem) -> [ChatMessage] {
        guard rules.messages >= 2, rules.tokens > 0 else { return [] }
        let messages = try await last(
            // Some of them may have failed.
            min(2 * rules.messages, Self.longest),
            of: RecordID(thread),
            account
        )
        return Self.context(messages, rules)
    }

    /// Returns the last messages of a thread, the newest first.
    func last(
        _ count: Int,
        of thread: RecordID,
        _ account: Identifier
    ) async throws(Problem) -> [ChatMessage] {
        var query = RecordQuery(
            of: ChatMessage.collection.name,
            in: account,
            order: ChatMessage.byOrder.field,
            isDescending: true,
            limit: count,
            bytes: Self.bytes
        )
        try authority.checkIndexes(of: query)
        query.start(in: thread)
        let asked = query
        let found = try await authority.read { storage throws(StorageError) in
            try await storage.records(asked)
        }
        return found.records.prefix { Self.thread(of: $0) == thread.text }.compactMap { row in
            try? RecordValue(json: Data(row.value)).record(ChatMessage.self, id: row.name.id)
        }
    }

    /// Returns the id of the thread of a message.
    static func thread(of row: RecordRow) -> String? {
        RecordValue(json: Data(row.value))[ChatMessage.byThread.field]?.string
    }

    /// Returns the part of a thread that is the context of its next call, oldest first.
    ///
    /// - Parameters:
    ///   - messages: The last messages, the newest first.
    ///   - rules: The limits.
    /// - Returns: The messages.
    static func context(_ messages: [ChatMessage], _ rules: HistoryRules) -> [ChatMessage] {
        var chosen: [ChatMessage] = []
        var tokens: Int64 = 0
        for (answer, question) in zip(messages, messages.dropFirst()) {
            guard answer.role == .assistant, question.role == .user, question.call == answer.call,
                answer.state == .complete || answer.state == .cut, !answer.text.isEmpty
            else { continue }
            let bytes = answer.promptText.utf8.count + question.promptText.utf8.count
            tokens += OutputMeasure.estimatedTokens(bytes: bytes)
            guard tokens <= rules.tokens, chosen.count + 2 <= rules.messages else { break }
            chosen += [answer, question]
        }
        return chosen.reversed()
    }

    /// The largest number of messages that are read for a context.
    static let longest = 200
    /// The size of messages after which no more are read.
    private static let bytes = 1 << 20
}

extension ChatMessage {
    /// The text that a language model receives: the text of a question, and the whole output of an
    /// answer, which may be an object.
    package var promptText: String {
        guard role == .assistant, let content else { return text }
        return String(decoding: content.encoded, as: UTF8.self)
    }
}

extension RecordQuery {
    /// Whether it lists the messages of one thread by their positions.
    var isOfThread: Bool {
        collection == ChatMessage.collection.name && order == ChatMessage.byOrder.field
            && conditions.keys.elementsEqual([ChatMessage.byThread.field])
    }

    /// Begins the list at the end, or the beginning, of a thread, instead of all messages.
    ///
    /// The list continues into another thread, so its reader stops there.
    mutating func start(in thread: RecordID) {
        let text = ChatMessage.order(of: thread, at: isDescending ? .max : 0)
        let bound = isDescending ? text + "~" : String(text.dropLast())
        guard let key = IndexKey(.string(bound)) else { return }
        after = RecordPosition(key, thread)
    }
}

extension [ChatMessage] {
    /// Distinguishes this context from others; `nil` if it is empty.
    var fingerprint: Fingerprint? {
        guard !isEmpty else { return nil }
        let texts = map { JSONValue.array([.string($0.role.rawValue), .string($0.promptText)]) }
        return Fingerprint(String(decoding: JSONValue.array(texts).encoded, as: UTF8.self))
    }
}
