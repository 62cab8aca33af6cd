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

    /// Creates the content of a message from the input or the output of a function.
    package init(_ value: JSONValue) {
        let whole = MessageText.text(of: value)
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
