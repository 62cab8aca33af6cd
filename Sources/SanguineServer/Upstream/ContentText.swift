import SanguineModel

extension UpstreamAnswer {
    /// The text of a message's or a delta's content: a string, or the text of a list of parts, of
    /// which those of other types are none (Mistral's `thinking`).
    ///
    /// - Returns: `nil` if there is no text at all.
    static func text(of content: JSONValue?) -> String? {
        switch content {
        case .string(let text): return text
        case .array(let parts):
            let texts = parts.compactMap { part -> String? in
                if let text = part.string { return text }
                guard ["text", "output_text"].contains(part["type"]?.string ?? "text") else {
                    return nil
                }
                return part["text"]?.string
            }
            return texts.isEmpty ? nil : texts.joined()
        default: return nil
        }
    }
}
