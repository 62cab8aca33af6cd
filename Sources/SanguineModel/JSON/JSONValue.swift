import Foundation

/// A JSON value, such as an app's settings or the input of a function.
///
/// Numbers keep all of their digits, so that ids and amounts survive. Two numbers are equal if they
/// have the same value, such as `1` and `1.0`, or `0` and `-0`.
///
/// Strings and names are compared as bytes of UTF-8. Swift's own strings are also equal if they are
/// canonically equivalent (`é` as one scalar or as two), and so are names in an `object`: before
/// you add a member with an untrusted name, check ``twin(of:)``.
public enum JSONValue: Hashable, Sendable {
    /// `null`.
    case null
    /// `true` or `false`.
    case bool(Bool)
    /// A number without a fraction that fits in 64 bits.
    case integer(Int64)
    /// A number that is the shortest digits of a double, such as `19.99` or `1e300`; also `-0`.
    case number(Double)
    /// Any other number, such as `18446744073709551615`; see ``init(number:)``.
    case decimal(JSONDecimal)
    /// A string.
    case string(String)
    /// An array.
    case array([JSONValue])
    /// An object. The order of its members is not preserved.
    case object([String: JSONValue])

    /// The member with the name, or `nil` if there is none or the value is not an object.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    /// The string, or `nil` if the value is not a string.
    public var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The integer, or `nil` if the value is not an integer.
    public var integer: Int64? {
        guard case .integer(let number) = self else { return nil }
        return number
    }

    /// Returns this value with a merge patch applied (RFC 7396).
    ///
    /// Members of the patch replace members of this value, `null` removes a member, and objects are
    /// merged recursively.
    ///
    /// - Throws: ``Refusal`` for a name with a different, equivalent one in the value, see
    ///   ``twin(of:)``.
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

    /// Returns whether both values are the same JSON, with strings compared as bytes.
    public static func == (lhs: JSONValue, rhs: JSONValue) -> Bool {
        switch (lhs, rhs) {
        case (.null, .null): true
        case (.bool(let lhs), .bool(let rhs)): lhs == rhs
        case (.integer(let lhs), .integer(let rhs)): lhs == rhs
        case (.number(let lhs), .number(let rhs)): lhs == rhs
        case (.integer(let integer), .number(let number)),
            (.number(let number), .integer(let integer)):
            Double(integer) == number && whole(number) == integer
        case (.decimal(let lhs), .decimal(let rhs)): lhs == rhs
        case (.string(let lhs), .string(let rhs)): lhs.hasBytes(of: rhs)
        case (.array(let lhs), .array(let rhs)): lhs == rhs
        case (.object(let lhs), .object(let rhs)):
            lhs.count == rhs.count
                && lhs.allSatisfy { name, value in
                    guard let place = rhs.index(forKey: name) else { return false }
                    return rhs[place].key.hasBytes(of: name) && rhs[place].value == value
                }
        default: false
        }
    }

    /// Hashes the value in linear time, with strings as bytes.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let bool): hasher.combine(bool ? 1 : 2)
        case .integer(let integer):
            hasher.combine(3)
            hasher.combine(integer)
        case .number(let number):
            if let integer = Self.whole(number) {
                JSONValue.integer(integer).hash(into: &hasher)
            } else {
                hasher.combine(4)
                hasher.combine(number)
            }
        case .decimal(let decimal):
            hasher.combine(5)
            decimal.description.hashBytes(into: &hasher)
        case .string(let text):
            hasher.combine(6)
            text.hashBytes(into: &hasher)
        case .array(let elements):
            hasher.combine(7)
            hasher.combine(elements)
        case .object(let members):
            // Members have no order, so their hashes are added.
            var sum = 0
            for (name, value) in members {
                var member = hasher
                name.hashBytes(into: &member)
                value.hash(into: &member)
                sum &+= member.finalize()
            }
            hasher.combine(8)
            hasher.combine(sum)
        }
    }

    /// Returns the 64-bit integer with the value of a double, if there is one.
    private static func whole(_ number: Double) -> Int64? {
        guard number.rounded() == number, number.magnitude <= 0x1p63 else { return nil }
        return DecimalDigits(number).integer(as: Int64.self)
    }
}

extension [String: JSONValue] {
    /// Returns the name of an existing member that is canonically equivalent to the given name but
    /// differs in its bytes.
    ///
    /// A subscript would confuse the two.
    public func twin(of name: String) -> String? {
        guard let place = index(forKey: name), !self[place].key.hasBytes(of: name) else {
            return nil
        }
        return self[place].key
    }

    /// Returns a name, here or nested, that the dictionary would confuse with one of the other
    /// members; see ``twin(of:)``.
    func twin(ofOneIn members: [String: JSONValue]) -> String? {
        for (name, value) in members {
            if let twin = twin(of: name) { return twin }
            if case (.object(let own)?, .object(let value)) = (self[name], value),
                let twin = own.twin(ofOneIn: value)
            {
                return twin
            }
        }
        return nil
    }
}

extension Refusal {
    /// The refusal of a name that has an equivalent one in the object.
    static func twin(_ name: String) -> Refusal {
        Refusal(
            .invalidContent,
            "Spell the member '\(name)' in the same bytes as in the record, or remove it first."
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
        // A wrong guess throws, which costs more than decoding, so the most frequent types come
        // first.
        if container.decodeNil() {
            self = .null
        } else if let text = try? container.decode(String.self) {
            self = .string(text)
        } else if let integer = try? container.decode(Int64.self) {
            self = .integer(integer)
            // Foundation's decoder rounds fractions that are too small for a double, and drops the
            // sign of zero. Where it does not support `Decimal`, as in a property list, the integer
            // is exact.
            let exact = integer == 0 ? Self.exact(container) : Self.decimal(container)
            if let exact { self = exact }
        } else if let bool = try? container.decode(Bool.self) {
            self = .bool(bool)
        } else if let members = try? container.decode([String: JSONValue].self) {
            self = .object(members)
        } else if let number = Self.exact(container) {
            self = number
        } else {
            self = .array(try container.decode([JSONValue].self))
        }
    }

    /// Returns the number with as many digits as another decoder provides, those of a `Decimal`.
    private static func exact(_ container: any SingleValueDecodingContainer) -> JSONValue? {
        guard let number = try? container.decode(Double.self), number.isFinite else { return nil }
        guard number != 0, let decimal = decimal(container) else {
            return JSONValue(DecimalDigits(number))
        }
        return decimal
    }

    /// Returns the number with the digits of a `Decimal`, or `nil` if the decoder does not support
    /// it.
    private static func decimal(_ container: any SingleValueDecodingContainer) -> JSONValue? {
        guard let decimal = try? container.decode(Decimal.self),
            let digits = DecimalDigits(decimal.description.utf8)
        else { return nil }
        return JSONValue(digits)
    }

    /// Encodes the value.
    ///
    /// Foundation's encoder rounds numbers of more than 38 digits, the precision of `Decimal`.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let bool): try container.encode(bool)
        case .integer(let integer): try container.encode(integer)
        case .number(let number): try container.encode(number)
        case .decimal(let decimal): try decimal.encode(in: &container)
        case .string(let text): try container.encode(text)
        case .array(let elements): try container.encode(elements)
        case .object(let members): try container.encode(members)
        }
    }
}

extension JSONDecimal {
    /// Encodes the number as the type that preserves most of its digits.
    fileprivate func encode(in container: inout any SingleValueEncodingContainer) throws {
        if let decimal = Decimal(string: description, locale: nil), decimal.isFinite {
            try container.encode(decimal)
        } else {
            try container.encode(Double(description) ?? 0)
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
    /// The last of several members with the same name is used.
    public init(dictionaryLiteral members: (String, JSONValue)...) {
        self = .object(Dictionary(members) { _, last in last })
    }
}
