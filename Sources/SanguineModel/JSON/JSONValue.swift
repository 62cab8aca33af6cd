/// Any JSON value: what an app's own settings and a function's input are made of.
///
/// Numbers without a fraction that fit in 64 bits stay integers, so that ids and amounts survive.
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
    public func merging(_ patch: JSONValue) -> JSONValue {
        guard case .object(let changes) = patch else { return patch }
        var members: [String: JSONValue] = [:]
        if case .object(let own) = self { members = own }
        for (name, change) in changes {
            if change == .null {
                members[name] = nil
            } else {
                members[name] = (members[name] ?? .null).merging(change)
            }
        }
        return .object(members)
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
