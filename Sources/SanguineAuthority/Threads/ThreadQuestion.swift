package import SanguineModel

/// The question of a call in a thread.
package struct ThreadQuestion: Hashable, Sendable {
    /// The thread, which the question begins if it does not exist.
    package var thread: Identifier
    /// The input of the call.
    package var content: MessageContent
    /// The ids of the call's files.
    package var attachments: [String]
    /// The area of a thread that the question begins; `nil` for none.
    package var area: String?

    /// Creates the question.
    package init(
        thread: Identifier,
        content: MessageContent,
        attachments: [String] = [],
        area: String? = nil
    ) {
        self.thread = thread
        self.content = content
        self.attachments = attachments
        self.area = area
    }
}

/// The end of an answer in a thread.
struct MessageEnd: Hashable, Codable, Sendable {
    /// The output, or the part of it that was made; `nil` if there is none.
    var content: MessageContent?
    /// The reason for which the model ended the answer, in its own words; `nil` if there is none.
    var finishReason: String?

    /// The number of characters of a reason that are stored; a provider may send any text.
    static let reasonCharacters = 64
}

extension MessageEnd {
    /// Creates the end of a complete answer from its output as JSON.
    init(output: [UInt8], _ reason: FinishReason? = nil, for account: Identifier) async {
        let content = await WireBody.perform(output.count, for: account) {
            (try? JSONParser.parse(output, limits: .tolerant).value).map { MessageContent($0) }
        }
        let reason = reason.map { String($0.text.prefix(Self.reasonCharacters)) }
        self.init(content: content, finishReason: reason)
    }
}
