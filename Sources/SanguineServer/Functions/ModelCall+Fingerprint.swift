import SanguineAuthority
import SanguineModel

extension ModelCall {
    /// Returns a fingerprint of a question to these models, for the keys of cached answers.
    ///
    /// It includes the models, their addresses and the maximum length of an answer, so that answers
    /// of a replaced model are not returned as those of the new one. It omits files, because the
    /// key of a cached answer contains their ids, which are derived from their contents.
    ///
    /// - Parameter prompt: The prompt; `nil` for a function whose answers depend on its input only.
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
    /// The text, or a digest of an image or file.
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
