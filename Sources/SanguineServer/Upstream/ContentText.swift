import SanguineModel

extension UpstreamAnswer {
    /// Returns the text of a message or delta: its content is a string, or a list of parts.
    ///
    /// Parts of other types are ignored (Mistral's `thinking`).
    ///
    /// - Returns: `nil` if there is no text.
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
