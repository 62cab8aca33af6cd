import SanguineAuthority
import SanguineModel

/// Combines the chunks of a stream into an answer for a caller that did not request a stream.
///
/// Each chunk is processed as it arrives. Memory use is therefore about the size of the answer, not
/// of the stream, whose framing can be many times larger.
struct CompletionAssembly: Sendable {
    private var members: [String: JSONValue] = [:]
    private var choices: [Int64: Choice] = [:]

    /// Adds a chunk that the stream parsed as JSON.
    mutating func add(_ event: UpstreamEvent) {
        let json = try? JSONParser.parse(event.chunk, limits: .tolerant).value
        guard case .object(let own) = json else { return }
        for (name, value) in own where name != "choices" && value != .null {
            members[name] = value
        }
        guard case .array(let parts) = own["choices"] else { return }
        for part in parts {
            choices[part["index"]?.integer ?? 0, default: Choice()].add(part)
        }
    }

    /// Returns the complete answer.
    ///
    /// - Parameters:
    ///   - answer: The answer of the stream.
    ///   - request: The request.
    /// - Returns: The answer, with a body if the caller reads it.
    /// - Throws: `unreadable` if the chunks do not form an answer to the request.
    func answer(
        _ answer: UpstreamAnswer,
        to request: UpstreamRequest
    ) throws(UpstreamError) -> UpstreamAnswer {
        guard request.isPassedOn else { return answer }
        guard let whole = UpstreamAnswer(body: body, to: request) else { throw .unreadable }
        return whole
    }

    /// The body in the form of an upstream that does not stream.
    private var body: [UInt8] {
        var members = members
        members["object"] = "chat.completion"
        members["choices"] = .array(
            choices.sorted { $0.key < $1.key }.map { $0.value.json(index: $0.key) }
        )
        return JSONValue.object(members).canonical
    }
}

extension CompletionAssembly {
    /// A choice, with the chunks received so far.
    private struct Choice {
        private var members: [String: JSONValue] = [:]
        private var message: [String: JSONValue] = ["role": "assistant", "content": .null]
        private var calls: [[String: JSONValue]] = []

        mutating func add(_ part: JSONValue) {
            guard case .object(let own) = part else { return }
            for (name, value) in own where name != "delta" && value != .null {
                members[name] = value
            }
            guard case .object(let delta) = own["delta"] else { return }
            for (name, value) in delta where value != .null {
                switch (name, value) {
                case ("tool_calls", .array(let parts)): parts.forEach { addCall($0) }
                case ("role", _): message[name] = value
                default: message[name] = Self.sum(message[name], value)
                }
            }
        }

        /// Adds a part of a tool call.
        ///
        /// The part belongs to the call with its `index`. Without one, it belongs to the last call,
        /// unless it has a new id.
        private mutating func addCall(_ part: JSONValue) {
            guard case .object(var own) = part else { return }
            let given = own.removeValue(forKey: "index")?.integer.map { Int($0) }
            let isNew = own["id"].map { $0 != calls.last?["id"] } ?? calls.isEmpty
            let index = given ?? (isNew ? calls.count : calls.count - 1)
            guard (0...calls.count).contains(index) else { return }
            guard index < calls.count else { return calls.append(own) }
            guard case .object(let new) = own.removeValue(forKey: "function") else { return }
            var function: [String: JSONValue] = [:]
            if case .object(let old) = calls[index]["function"] { function = old }
            for (name, value) in new where value != .null {
                function[name] = name == "name" ? value : Self.sum(function[name], value)
            }
            calls[index]["function"] = .object(function)
        }

        /// Appends strings and lists to the previous value.
        private static func sum(_ first: JSONValue?, _ second: JSONValue) -> JSONValue {
            switch (first, second) {
            case (.string(let first), .string(let second)): .string(first + second)
            case (.array(let first), .array(let second)): .array(first + second)
            // Mistral's models send their reasoning in parts and then continue in plain text.
            case (.array(let first), .string(let second)): .array(first + [part(second)])
            case (.string(let first), .array(let second)): .array([part(first)] + second)
            default: second
            }
        }

        private static func part(_ text: String) -> JSONValue {
            ["type": "text", "text": .string(text)]
        }

        func json(index: Int64) -> JSONValue {
            var (choice, message) = (members, message)
            if !calls.isEmpty { message["tool_calls"] = .array(calls.map { .object($0) }) }
            choice["index"] = .integer(index)
            choice["message"] = .object(message)
            return .object(choice)
        }
    }
}
