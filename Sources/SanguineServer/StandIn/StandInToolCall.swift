import SanguineAuthority
import SanguineModel

/// A tool call: the user's last message contains the tool's name, or `tool_choice` requires one.
///
/// Arguments are derived from the question: strings are its first words; numbers and booleans are
/// always the same for the same question; other types are omitted.
struct StandInToolCall: Hashable, Sendable {
    let id: String
    let name: String
    /// JSON as text.
    let arguments: String

    /// The number of tokens of name and arguments.
    var tokens: Int { StandInAnswer.tokens(of: name) + StandInAnswer.tokens(of: arguments) }

    /// Chooses a tool; `nil` if none is called.
    init?(for messages: [StandInAnswer.Message], tools: JSONValue?, choice: JSONValue?) {
        guard case .array(let tools) = tools, choice != "none", let last = messages.last,
            last.role == "user"
        else { return nil }
        let functions = tools.compactMap { $0["function"] }.filter { $0["name"]?.string != nil }
        let forced = choice?["function"]?["name"]?.string
        let function =
            functions.first { tool in
                guard let name = tool["name"]?.string else { return false }
                return forced.map { $0 == name } ?? last.text.contains(name)
            } ?? (choice == "required" ? functions.first : nil)
        guard let function, let name = function["name"]?.string else { return nil }
        let fingerprint = StandInAnswer.fingerprint(of: messages)
        id = "call_" + String(fingerprint, radix: 16)
        self.name = name
        arguments = Self.arguments(
            function["parameters"]?["properties"],
            subject: StandInAnswer.subject(of: last.text),
            fingerprint: fingerprint
        )
    }

    private static func arguments(
        _ properties: JSONValue?,
        subject: String,
        fingerprint: UInt64
    ) -> String {
        var values: [String: JSONValue] = [:]
        if case .object(let properties) = properties {
            for (name, schema) in properties {
                switch schema["type"]?.string {
                case "string":
                    var choices: [JSONValue] = []
                    if case .array(let listed) = schema["enum"] { choices = listed }
                    values[name] = choices.first ?? .string(subject)
                case "integer", "number": values[name] = .integer(Int64(fingerprint % 100))
                case "boolean": values[name] = .bool(fingerprint % 2 == 0)
                default: continue
                }
            }
        }
        return String(decoding: JSONValue.object(values).canonical, as: UTF8.self)
    }
}
