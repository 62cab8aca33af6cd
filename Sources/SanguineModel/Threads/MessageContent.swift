/// The text and the content of a message, shortened to the limits of a record.
package struct MessageContent: Hashable, Codable, Sendable {
    /// See ``ChatMessage/text``.
    package var text: String
    /// See ``ChatMessage/content``.
    package var value: JSONValue?
    /// See ``ChatMessage/isCut``.
    package var isCut: Bool

    /// The approximate size in memory.
    package var bytes: Int { text.utf8.count + (value == nil ? 0 : ThreadLimits.contentBytes) }

    /// Creates the content of a message from the output of a function.
    package init(_ value: JSONValue) { self.init(value, text: MessageText.text(of: value)) }

    /// Creates the content of a question from the input of a function.
    ///
    /// The text is the member `question` of the input, so that it does not contain the rest, or the
    /// text of the whole input if there is no such member.
    package init(question input: JSONValue) {
        let question = input["question"]?.string ?? ""
        self.init(input, text: question.isEmpty ? MessageText.text(of: input) : question)
    }

    private init(_ value: JSONValue, text whole: String) {
        text = MessageText.prefix(whole, bytes: ThreadLimits.textBytes)
        isCut = text.utf8.count < whole.utf8.count
        if case .string = value {
            self.value = nil
        } else if value.encoded.count <= ThreadLimits.contentBytes,
            !value.isNested(deeperThan: WireLimits.jsonNesting)
        {
            self.value = value
        } else {
            self.value = nil
            isCut = true
        }
    }
}

extension JSONValue {
    /// Whether arrays and objects are nested deeper than a limit; not all readers of a feed could
    /// read them.
    fileprivate func isNested(deeperThan limit: Int) -> Bool {
        switch self {
        case .array(let elements):
            limit < 1 || elements.contains { $0.isNested(deeperThan: limit - 1) }
        case .object(let members):
            limit < 1 || members.values.contains { $0.isNested(deeperThan: limit - 1) }
        default: false
        }
    }
}
