import SanguineAuthority
import SanguineModel

extension ModelCall {
    /// Returns a fingerprint of a question to these models, for the keys of kept answers.
    ///
    /// The models are part of it, with their addresses, and so is the longest answer: answers of a
    /// replaced model are not given as those of the new one. Files are left out; the key of a kept
    /// answer has their ids, which are made of their contents.
    ///
    /// - Parameter prompt: What is asked; `nil` for a function whose answers depend on its input
    ///   only.
    /// - Returns: The fingerprint.
    func fingerprint(of prompt: Prompt?) -> Fingerprint {
        let asked = upstreams.identities(of: names).map { upstream -> JSONValue in
            [
                "name": .string(upstream.name), "endpoint": .string(upstream.endpoint),
                "model": .string(model ?? upstream.model), "video": .string(upstream.video),
            ]
        }
        let turns = prompt?.messages.map { turn -> JSONValue in
            ["role": .string(turn.role.rawValue), "content": .array(turn.content.map(\.identity))]
        }
        let question: JSONValue = [
            "upstreams": .array(asked), "maxOutputTokens": .integer(Int64(maxOutputTokens)),
            "prompt": turns.map { .array($0) } ?? .null,
        ]
        return Fingerprint(String(decoding: question.canonical, as: UTF8.self))
    }
}

extension UpstreamPrompt.Message.Part {
    /// The words, or a digest of what is shown.
    fileprivate var identity: JSONValue {
        switch self {
        case .text(let text): ["text": .string(text)]
        case .image(let type, let bytes):
            ["type": .string(type), "digest": .string(BlobID(of: bytes).description)]
        case .file(let name, let type, let bytes):
            [
                "name": .string(name), "type": .string(type),
                "digest": .string(BlobID(of: bytes).description),
            ]
        }
    }
}
