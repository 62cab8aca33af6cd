import SanguineAuthority
import SanguineModel

/// A member of the `input` of a function.
public struct InputMember: Hashable, Sendable {
    /// The type of a member.
    public enum Kind: Hashable, Sendable {
        /// A string of 1 to 65,536 bytes.
        case string
        /// A whole number within 64 bits.
        case integer
        /// A number.
        case number
        /// `true` or `false`.
        case boolean
        /// One of these strings.
        case choice([String])
    }

    /// The maximum size of a string in bytes.
    public static let textBytes = 65_536

    /// The name.
    public var name: String
    /// The type.
    public var kind: Kind
    /// Whether a call may omit it.
    public var isOptional: Bool

    /// Creates a member, which is required by default.
    public init(_ name: String, _ kind: Kind = .string, isOptional: Bool = false) {
        self.name = name
        self.kind = kind
        self.isOptional = isOptional
    }
}

extension InputMember {
    /// The type in the form of `GET /v1/functions`: `string`, `integer`, `number`, `boolean`, or
    /// the choices separated by `|`.
    public var type: String {
        switch kind {
        case .string: "string"
        case .integer: "integer"
        case .number: "number"
        case .boolean: "boolean"
        case .choice(let texts): texts.joined(separator: "|")
        }
    }

    /// A description of the permitted values.
    fileprivate var allowed: String {
        switch kind {
        case .string: "a string of 1 to \(Self.textBytes) bytes"
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
    /// The members in the form of `GET /v1/functions`: name and type, with `?` after the name of an
    /// optional member.
    var listed: [String: String] {
        let members = map { ($0.isOptional ? $0.name + "?" : $0.name, $0.type) }
        return Dictionary(members) { first, _ in first }
    }

    /// Returns the members of an input that these members describe.
    ///
    /// A member that is `null` counts as omitted. As the wire contract requires, unknown members
    /// are ignored; they do not affect the key of a cached answer.
    ///
    /// - Throws: `invalid_content`, which names a member that is missing or has the wrong type.
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
