import SanguineAuthority
import SanguineModel

/// A template with placeholders for the members of a call's input: `Translate into {{to}}:
/// {{text}}`.
struct PromptTemplate: Hashable, Sendable {
    private enum Part: Hashable, Sendable {
        case text(String)
        case member(String)
    }

    /// The prefix of placeholders for the account's settings: `{{settings.birth}}`.
    static let settings = "settings."

    private let parts: [Part]

    /// Parses a template; unclosed braces are text.
    init(_ text: String) {
        var parts: [Part] = []
        var rest = Substring(text)
        while let start = rest.firstRange(of: "{{"),
            let end = rest[start.upperBound...].firstRange(of: "}}")
        {
            if start.lowerBound > rest.startIndex {
                parts.append(.text(String(rest[..<start.lowerBound])))
            }
            let name = rest[start.upperBound..<end.lowerBound].filter { !$0.isWhitespace }
            parts.append(.member(name))
            rest = rest[end.upperBound...]
        }
        if !rest.isEmpty { parts.append(.text(String(rest))) }
        self.parts = parts
    }

    /// The names of the members that have a placeholder.
    var names: Set<String> {
        Set(parts.compactMap { if case .member(let name) = $0 { name } else { nil } })
    }

    /// Replaces the placeholders; an omitted member becomes an empty string.
    ///
    /// Values are not searched for placeholders: a user's braces are text.
    func filled(with members: [String: JSONValue]) -> String {
        parts.map { part in
            switch part {
            case .text(let text): text
            case .member(let name): members[name].map(Self.text) ?? ""
            }
        }.joined()
    }

    private static func text(_ value: JSONValue) -> String {
        switch value {
        case .null: ""
        case .string(let text): text
        default: String(decoding: value.canonical, as: UTF8.self)
        }
    }
}
