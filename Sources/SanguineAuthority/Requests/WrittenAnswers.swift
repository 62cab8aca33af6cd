package import SanguineModel

// What the encoder would make of these; a test holds it to that.
extension AnswerEncoder {
    /// Writes a value, as ``encode(_:)`` would.
    package static func encode(_ value: JSONValue) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(value)
        return text.bytes
    }

    /// Writes the parts of an answer, as ``encode(_:)`` would.
    static func encode(_ parts: [String]) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(parts) { $0.append($1) }
        return text.bytes
    }

    /// Writes a part of an answer, as ``encode(_:)`` would.
    static func encode(_ delta: FunctionDelta) -> [UInt8] {
        var text = JSONText(.encoded)
        text.append(raw: #"{"text":"#)
        text.append(delta.text)
        text.append(raw: "}")
        return text.bytes
    }

    /// Writes what a function is asked, as ``encode(_:)`` would, for its fingerprint.
    package static func encode(_ request: FunctionRequest<JSONValue>) -> [UInt8] {
        var text = JSONText(.fingerprint)
        text.append(raw: "{")
        if let attachments = request.attachments {
            text.append(raw: #""attachments":"#)
            text.append(attachments) { $0.append($1) }
            text.append(raw: ",")
        }
        text.append(raw: #""input":"#)
        text.append(request.input)
        if let thread = request.thread {
            text.append(raw: #","thread":"#)
            text.append(thread.description)
        }
        text.append(raw: "}")
        return text.bytes
    }
}
