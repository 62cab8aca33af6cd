import SanguineAuthority
import SanguineModel

/// The Swift type of a call's input: its members, determined by decoding, and the decoder.
struct TypedInput<Input: Codable & Sendable>: Sendable {
    /// The members by name and type, with `?` after the name of an optional member; `nil` if they
    /// could not be determined.
    let listed: [String: String]?

    /// Determines the members, unless they are given.
    init(_ given: [String: String]?) {
        listed = given ?? InputProbe.members(of: Input.self)
    }

    /// Decodes an input.
    ///
    /// - Returns: The input, and the members that the type uses, as the type itself encodes them.
    ///   Equal inputs therefore have the same form, regardless of how they were sent.
    /// - Throws: `invalid_content`, which names a member that is missing or has the wrong type.
    func read(_ value: JSONValue) throws(Problem) -> (input: Input, heeded: JSONValue) {
        guard case .object = value else {
            throw Problem(.invalidContent, "Set 'input' to an object.")
        }
        let input: Input
        let heeded: JSONValue
        do {
            input = try StoredForm.arguments.decode(Input.self, from: value)
            heeded = try JSONValue(encoding: input)
        } catch {
            throw Self.problem(error as? DecodingError)
        }
        return (input, heeded)
    }

    private static func problem(_ error: DecodingError?) -> Problem {
        let path: [any CodingKey] =
            switch error {
            case .keyNotFound(let key, let context): context.codingPath + [key]
            case .typeMismatch(_, let context), .valueNotFound(_, let context),
                .dataCorrupted(let context):
                context.codingPath
            default: []
            }
        let name = path.isEmpty ? "input" : "input.\(path.memberPath)"
        return Problem(.invalidContent, "Set '\(name)' to a value of the right type.")
    }
}

/// Determines the members of a type: decodes it from placeholder values and records its requests.
///
/// It tries the empty string first, then strings in the forms of known types. An enumeration gets
/// its first case.
private final class InputProbe {
    private var members: [String: String] = [:]

    /// Returns the members, or `nil` if the type cannot be decoded this way.
    static func members(of type: any Decodable.Type) -> [String: String]? {
        let probe = InputProbe()
        guard (try? type.init(from: ProbeDecoder(note: probe.record))) != nil else { return nil }
        return probe.members
    }

    private func record(_ name: String, _ type: String, _ isOptional: Bool) {
        members[isOptional ? name + "?" : name] = type
    }
}

/// Provides a placeholder for every requested type.
private struct ProbeDecoder: Decoder {
    /// Strings in the forms that known types require.
    static let texts = [
        "", "0", "2000-01-01", "2000-01-01T00:00:00.000Z", "https://example.com",
        "00000000-0000-7000-8000-000000000000",
    ]

    var note: ((String, String, Bool) -> Void)?
    var text = ""
    var kind: ProbeKind?
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(ProbeMembers(note: note))
    }

    func unkeyedContainer() -> any UnkeyedDecodingContainer {
        kind?.name = "array"
        return ProbeElements()
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    /// Returns a value of a type, and the type's name.
    static func value<Value: Decodable>(_ type: Value.Type) throws -> (Value, String) {
        let seen = ProbeKind()
        if let cases = type as? any CaseIterable.Type, let first = cases.first as? Value {
            return (first, "string")
        }
        for text in texts {
            var decoder = ProbeDecoder(text: text)
            decoder.kind = seen
            if let value = try? decoder.decoded(type) { return (value, seen.name) }
        }
        var decoder = ProbeDecoder()
        decoder.kind = seen
        return (try decoder.decoded(type), seen.name)
    }

    private func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
        if let value = JSONValue.null as? Value { return value }
        return try Value(from: self)
    }
}

/// The JSON type that a type turned out to be.
private final class ProbeKind {
    var name = "object"
}

extension CaseIterable {
    fileprivate static var first: Any? { allCases.first }
}

extension ProbeDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { false }

    func decode(_ type: Bool.Type) -> Bool {
        kind?.name = "boolean"
        return false
    }

    func decode(_ type: String.Type) -> String {
        kind?.name = "string"
        return text
    }

    func decode(_ type: Double.Type) -> Double { number(0) }
    func decode(_ type: Float.Type) -> Float { number(0) }
    func decode(_ type: Int.Type) -> Int { integer(0) }
    func decode(_ type: Int8.Type) -> Int8 { integer(0) }
    func decode(_ type: Int16.Type) -> Int16 { integer(0) }
    func decode(_ type: Int32.Type) -> Int32 { integer(0) }
    func decode(_ type: Int64.Type) -> Int64 { integer(0) }
    func decode(_ type: UInt.Type) -> UInt { integer(0) }
    func decode(_ type: UInt8.Type) -> UInt8 { integer(0) }
    func decode(_ type: UInt16.Type) -> UInt16 { integer(0) }
    func decode(_ type: UInt32.Type) -> UInt32 { integer(0) }
    func decode(_ type: UInt64.Type) -> UInt64 { integer(0) }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let (value, name) = try Self.value(type)
        kind?.name = name
        return value
    }

    private func number<Number>(_ number: Number) -> Number {
        kind?.name = "number"
        return number
    }

    private func integer<Number>(_ number: Number) -> Number {
        kind?.name = "integer"
        return number
    }
}

/// The names of optional members: a type first checks them for `null`.
private final class ProbeOptionals {
    var names: Set<String> = []
}

private struct ProbeMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let note: ((String, String, Bool) -> Void)?
    let optionals = ProbeOptionals()
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }

    func contains(_ key: Key) -> Bool { true }

    func decodeNil(forKey key: Key) -> Bool {
        optionals.names.insert(key.stringValue)
        return false
    }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        let (value, name) = try ProbeDecoder.value(type)
        note?(key.stringValue, name, optionals.names.contains(key.stringValue))
        return value
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        let found = try? ProbeDecoder.value(type)
        note?(key.stringValue, found?.1 ?? "object", true)
        return nil
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) -> KeyedDecodingContainer<Nested> {
        note?(key.stringValue, "object", false)
        return KeyedDecodingContainer(ProbeMembers<Nested>(note: nil))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedDecodingContainer {
        note?(key.stringValue, "array", false)
        return ProbeElements()
    }

    func superDecoder() -> any Decoder { ProbeDecoder() }

    func superDecoder(forKey key: Key) -> any Decoder { ProbeDecoder() }
}

/// An empty array.
private struct ProbeElements: UnkeyedDecodingContainer {
    var codingPath: [any CodingKey] { [] }
    var count: Int? { 0 }
    var isAtEnd: Bool { true }
    var currentIndex: Int { 0 }

    private var end: DecodingError {
        .valueNotFound(Any.self, .init(codingPath: [], debugDescription: "The array is empty."))
    }

    func decodeNil() throws -> Bool { throw end }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { throw end }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> { throw end }

    func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { throw end }

    func superDecoder() throws -> any Decoder { throw end }
}
