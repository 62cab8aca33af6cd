import SanguineAuthority
import SanguineModel

// The output of a language model, by the members of a `delta` or a `message`:
//
// | members | counted as | written by |
// |---|---|---|
// | `content`: a text, or parts with `text` | text | OpenAI |
// | `refusal` | text | OpenAI |
// | `tool_calls[].function.name`, `.arguments`, `.custom.name`, `.input` | text | OpenAI |
// | `function_call.name`, `.arguments` | text | OpenAI, before tools |
// | `audio.transcript`; `audio.data` | text; audio | OpenAI |
// | `reasoning_content` | reasoning | DeepSeek, xAI, vLLM |
// | `reasoning`, `reasoning_details[].text`, `.summary` | reasoning | OpenRouter, Groq, Ollama |
// | `reasoning_text`, `thinking`; parts of type `thinking` or `reasoning` | reasoning | others |
//
// Only the longest of the reasoning members counts, because some servers send the same text in two
// of them. The id of a tool call is the server's own, and encrypted reasoning contains no text.

extension OutputMeasure {
    /// Adds the output of all choices of an answer or chunk.
    mutating func add(choicesOf json: JSONValue) {
        guard case .array(let choices) = json["choices"] else { return }
        for choice in choices {
            // Some providers repeat the whole message in each delta.
            if let delta = choice["delta"], case .object = delta {
                add(message: delta)
            } else if let message = choice["message"] {
                add(message: message)
            }
        }
    }

    private mutating func add(message: JSONValue) {
        add(content: message["content"])
        add(words: message["refusal"])
        add(call: message["function_call"])
        if case .array(let calls) = message["tool_calls"] {
            for call in calls {
                add(call: call["function"])
                add(call: call["custom"])
            }
        }
        add(words: message["audio"]?["transcript"])
        if let data = message["audio"]?["data"]?.string {
            addAudio(base64Characters: data.utf8.count)
        }
        let reasoning = Self.namesOfReasoning.map { Self.words(of: message[$0]) }
        if let longest = reasoning.max(by: { $0.utf8.count < $1.utf8.count }) {
            add(longest, as: .reasoning)
        }
    }

    private mutating func add(content: JSONValue?) {
        guard case .array(let parts) = content else { return add(words: content) }
        for part in parts {
            let isReasoning = ["thinking", "reasoning"].contains(part["type"]?.string)
            add(Self.words(of: part), as: isReasoning ? .reasoning : .text)
        }
    }

    private mutating func add(call: JSONValue?) {
        guard let call else { return }
        for name in ["name", "arguments", "input"] {
            switch call[name] {
            case .string(let text): add(text)
            // Some servers send the arguments as an object.
            case .object(let members): add(bytes: JSONValue.object(members).canonical.count)
            default: break
            }
        }
    }

    private mutating func add(words value: JSONValue?) { add(Self.words(of: value)) }

    private static let namesOfReasoning = [
        "reasoning_content", "reasoning", "reasoning_text", "reasoning_details", "thinking",
    ]
    private static let namesOfWords = ["text", "summary", "refusal", "thinking", "reasoning"]

    /// Returns the text of a string, a list of parts, or a part.
    private static func words(of value: JSONValue?) -> String {
        switch value {
        case .string(let text): text
        case .array(let parts): parts.map { words(of: $0) }.joined()
        case .object(let members): namesOfWords.map { words(of: members[$0]) }.joined()
        default: ""
        }
    }
}
