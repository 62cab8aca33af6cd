/// Any JSON value: what an app's own settings and a function's input are made of.
///
/// Numbers without a fraction that fit in 64 bits stay integers, so that ids and amounts survive.
///
/// Text is bytes: strings and names are equal if their UTF-8 is. Swift's own strings are equal,
/// too, if they are canonically equivalent (`é` as one scalar or as two), and so they are as the
/// names in an `object`: whoever adds a member by a name from outside looks at ``twin(of:)`` first.
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number without a fraction that fits in 64 bits.
    case integer(Int64)
    /// Any other number.
    case number(Double)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object. The order of its members is not kept.
    case object([String: JSONValue])

    /// The member of that name, or `nil` if there is none or this is no object.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    /// The text, or `nil` if this is no string.
    public var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The integer, or `nil` if this is none.
    public var integer: Int64? {
        guard case .integer(let number) = self else { return nil }
        return number
    }

    /// Returns this value with a merge patch applied (RFC 7396).
    ///
    /// Members of the patch replace this value's; `null` removes; objects merge, deeply.
    ///
    /// - Throws: ``Refusal`` for a name whose twin is there, see ``twin(of:)``.
    public func merging(_ patch: JSONValue) throws(Refusal) -> JSONValue {
        guard case .object(let changes) = patch else { return patch }
        var members: [String: JSONValue] = [:]
        if case .object(let own) = self { members = own }
        for (name, change) in changes {
            if let twin = members.twin(of: name) { throw .twin(twin) }
            if change == .null {
                members[name] = nil
            } else {
                members[name] = try (members[name] ?? .null).merging(change)
            }
        }
        return .object(members)
    }

    /// Whether both are the same JSON: texts by their bytes.
    public static func == (lhs: JSONValue, rhs: JSONValue) -> Bool {
        switch (lhs, rhs) {
        case (.null, .null): true
        case (.bool(let lhs), .bool(let rhs)): lhs == rhs
        case (.integer(let lhs), .integer(let rhs)): lhs == rhs
        case (.number(let lhs), .number(let rhs)): lhs == rhs
        case (.string(let lhs), .string(let rhs)): lhs.isSame(as: rhs)
        case (.array(let lhs), .array(let rhs)): lhs == rhs
        case (.object(let lhs), .object(let rhs)):
            lhs.count == rhs.count
                && lhs.allSatisfy { name, value in
                    guard let place = rhs.index(forKey: name) else { return false }
                    return rhs[place].key.isSame(as: name) && rhs[place].value == value
                }
        default: false
        }
    }
}

extension [String: JSONValue] {
    /// The name of the member that a subscript takes for one of this name, and that is another: it
    /// is canonically equivalent, in other bytes.
    public func twin(of name: String) -> String? {
        guard let place = index(forKey: name), !self[place].key.isSame(as: name) else { return nil }
        return self[place].key
    }
}

extension String {
    /// Whether both have the same bytes.
    fileprivate func isSame(as other: String) -> Bool {
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }
}

extension Refusal {
    /// What is said of a name beside its twin.
    static func twin(_ name: String) -> Refusal {
        Refusal(
            .invalidContent,
            "Write the member '\(name)' in the bytes in which it is there, or remove it first."
        )
    }
}

extension JSONValue: Codable {
    /// Reads any JSON value.
    public init(from decoder: any Decoder) throws {
        if let parsed = decoder as? JSONValueDecoder {
            self = parsed.value
            return
        }
        let container = try decoder.singleValueContainer()
        // A wrong guess throws, which costs more than reading: the most frequent come first.
        if container.decodeNil() {
            self = .null
        } else if let text = try? container.decode(String.self) {
            self = .string(text)
        } else if let integer = try? container.decode(Int64.self) {
            self = .integer(integer)
        } else if let bool = try? container.decode(Bool.self) {
            self = .bool(bool)
        } else if let members = try? container.decode([String: JSONValue].self) {
            self = .object(members)
        } else if let number = try? container.decode(Double.self) {
            self = .number(number)
        } else {
            self = .array(try container.decode([JSONValue].self))
        }
    }

    /// Writes the value.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let bool): try container.encode(bool)
        case .integer(let integer): try container.encode(integer)
        case .number(let number): try container.encode(number)
        case .string(let text): try container.encode(text)
        case .array(let elements): try container.encode(elements)
        case .object(let members): try container.encode(members)
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByDictionaryLiteral
{
    /// Creates a string.
    public init(stringLiteral text: String) { self = .string(text) }

    /// Creates an integer.
    public init(integerLiteral integer: Int64) { self = .integer(integer) }

    /// Creates `true` or `false`.
    public init(booleanLiteral bool: Bool) { self = .bool(bool) }

    /// Creates an object.
    ///
    /// Of members with the same name the last one stays.
    public init(dictionaryLiteral members: (String, JSONValue)...) {
        self = .object(Dictionary(members) { _, last in last })
    }
}
