import SanguineAuthority
import SanguineModel

/// A member of the `input` that a function takes.
public struct InputMember: Hashable, Sendable {
    /// What a member may be.
    public enum Kind: Hashable, Sendable {
        /// A text of 1 to 65,536 bytes.
        case string
        /// A whole number within 64 bits.
        case integer
        /// A number.
        case number
        /// `true` or `false`.
        case boolean
        /// One of these texts.
        case choice([String])
    }

    /// Bytes of a text at most.
    public static let textBytes = 65_536

    /// The name.
    public var name: String
    /// What it may be.
    public var kind: Kind
    /// Whether a call may leave it out.
    public var isOptional: Bool

    /// Creates a member; one that must be given, unless it says otherwise.
    public init(_ name: String, _ kind: Kind = .string, isOptional: Bool = false) {
        self.name = name
        self.kind = kind
        self.isOptional = isOptional
    }
}

extension InputMember {
    /// The type as `GET /v1/functions` names it: `string`, `integer`, `number`, `boolean`, or the
    /// choices with `|` between them.
    public var type: String {
        switch kind {
        case .string: "string"
        case .integer: "integer"
        case .number: "number"
        case .boolean: "boolean"
        case .choice(let texts): texts.joined(separator: "|")
        }
    }

    /// What a value must be, in words.
    fileprivate var allowed: String {
        switch kind {
        case .string: "a text of 1 to \(Self.textBytes) bytes"
        case .integer: "a whole number"
        case .number: "a number"
        case .boolean: "true or false"
        case .choice(let texts): "one of " + texts.map { "'\($0)'" }.joined(separator: ", ")
        }
    }

    fileprivate func takes(_ value: JSONValue) -> Bool {
        switch (kind, value) {
        case (.string, .string(let text)): (1...Self.textBytes).contains(text.utf8.count)
        case (.integer, .integer), (.boolean, .bool), (.number, .integer), (.number, .number),
            (.number, .decimal):
            true
        case (.integer, .number(let number)): number == 0  // It was written as -0.
        case (.choice(let texts), .string(let text)): texts.contains { $0.hasBytes(of: text) }
        default: false
        }
    }
}

extension [InputMember] {
    /// The members as `GET /v1/functions` lists them: name and type, with `?` after the name of
    /// optional ones.
    var listed: [String: String] {
        let members = map { ($0.isOptional ? $0.name + "?" : $0.name, $0.type) }
        return Dictionary(members) { first, _ in first }
    }

    /// The part of an input that these members describe.
    ///
    /// A member that is `null` counts as left out; one that is unknown is ignored, as the contract
    /// has it, and makes no difference to a kept answer.
    ///
    /// - Throws: `invalid_content`, naming a member that is missing, or of another type.
    func read(_ input: JSONValue) throws(Problem) -> [String: JSONValue] {
        guard case .object(let given) = input else {
            throw Problem(.invalidContent, "Set 'input' to an object.")
        }
        var read: [String: JSONValue] = [:]
        for member in self {
            guard let value = given[member.name], value != .null else {
                if member.isOptional { continue }
                throw Problem(.invalidContent, "Set 'input.\(member.name)' to \(member.allowed).")
            }
            guard member.takes(value) else {
                throw Problem(.invalidContent, "Set 'input.\(member.name)' to \(member.allowed).")
            }
            read[member.name] = value
        }
        return read
    }
}
