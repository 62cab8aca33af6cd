import Foundation

/// Decodes values of parsed JSON as Foundation's decoder would from text.
///
/// Numbers keep all of their digits here, so that each numeric type is made from them and not from
/// a double.
struct JSONValueDecoder: Decoder {
    var value: JSONValue
    var codingPath: [any CodingKey] = []
    /// The reading of stored data, or `nil` for data that matches the type exactly.
    var reading: StoredForm.Reading?
    /// The declared default at this position.
    var defaults: StoredForm.Default?
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(
        keyedBy type: Key.Type
    ) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw mismatch([String: Any].self) }
        return KeyedDecodingContainer(JSONMembers(members: members, parent: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else { throw mismatch([Any].self) }
        return JSONElements(elements: elements, parent: self)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    /// Returns the decoder of a nested value.
    func nested(
        _ value: JSONValue,
        _ key: any CodingKey,
        _ defaults: StoredForm.Default? = nil
    ) -> JSONValueDecoder {
        JSONValueDecoder(
            value: value,
            codingPath: codingPath + [key],
            reading: reading,
            defaults: defaults
        )
    }

    /// Decodes the value, including the representations that JSON uses for Foundation's types.
    ///
    /// The default at the same position replaces a value that stored data lacks.
    func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
        do {
            return try exact(type)
        } catch let error as DecodingError {
            guard let reading, let defaults, let standIn = defaults.value,
                reading.needs(defaults),
                error.isUnreadable(at: codingPath, reading.form.standIn)
            else { throw error }
            var decoder = self
            (decoder.value, decoder.defaults) = (standIn, nil)
            return try decoder.exact(type)
        }
    }

    private func exact<Value: Decodable>(_ type: Value.Type) throws -> Value {
        // Compare the type itself: a cast to an optional would accept `nil` for its value.
        let special: Any?
        switch ObjectIdentifier(type) {
        case ObjectIdentifier(JSONValue.self): special = value
        case ObjectIdentifier(Data.self): special = try decodeData()
        case ObjectIdentifier(URL.self): special = try decodeURL()
        case ObjectIdentifier(Decimal.self): special = try decodeDecimal()
        case ObjectIdentifier(Date.self):
            special = try reading?.form.date?(self) ?? Date(from: self)
        default: return try migrated(type)
        }
        guard let special = special as? Value else { throw mismatch(type) }
        return special
    }

    /// Decodes the value after the type's migration.
    private func migrated<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard let reading, case .object(let members) = value,
            let migrated = try StoredForm.migrated(members, for: type)
        else { return try filled(type) }
        if migrated != members { reading.recordMigration(migrated, at: codingPath) }
        var decoder = self
        decoder.value = .object(migrated)
        return try decoder.filled(type)
    }

    /// Decodes the value with the type's defaults.
    ///
    /// Those of enclosing types take precedence.
    func filled<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard let reading, case .object = value,
            var members = try reading.form.defaults(of: type)
        else { return try Value(from: self) }
        if case .object(let outer)? = defaults?.value { members.merge(outer) { $1 } }
        var decoder = self
        decoder.defaults = StoredForm.Default(of: type, members)
        while true {
            do {
                return try Value(from: decoder)
            } catch let error as DecodingError {
                guard reading.recordDefault(error, under: decoder) else { throw error }
            }
        }
    }

    private func decodeData() throws -> Data {
        guard let data = Data(base64Encoded: try decode(String.self)) else {
            throw corrupted("The text is not Base64.")
        }
        return data
    }

    private func decodeURL() throws -> URL {
        guard let url = URL(string: try decode(String.self)) else {
            throw corrupted("The text is not a URL.")
        }
        return url
    }

    private func decodeDecimal() throws -> Decimal {
        if case .integer(let integer) = value { return Decimal(integer) }
        let text = try text(of: Decimal.self)
        guard let decimal = Decimal(string: text, locale: nil), decimal.isFinite else {
            throw corrupted("Out of range.")
        }
        return decimal
    }

    /// The digits of a number in JSON's notation.
    private func text(of type: Any.Type) throws -> String {
        switch value {
        case .integer(let integer): return String(integer)
        case .number(let number): return number.description
        case .decimal(let decimal): return decimal.description
        default: throw mismatch(type)
        }
    }

    private func mismatch(_ type: Any.Type) -> DecodingError {
        let context = DecodingError.Context(
            codingPath: codingPath,
            debugDescription: "The JSON value has another type."
        )
        return value == .null ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }

    private func corrupted(_ text: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: codingPath, debugDescription: text))
    }
}

extension JSONValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value == .null }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard case .bool(let bool) = value else { throw mismatch(type) }
        return bool
    }

    func decode(_ type: String.Type) throws -> String {
        guard case .string(let text) = value else { throw mismatch(type) }
        return text
    }

    func decode(_ type: Double.Type) throws -> Double {
        switch value {
        case .integer(let integer): return Double(integer)
        case .number(let number) where number.isFinite: return number
        default: return try binary(type)
        }
    }

    // Not from a double, which would round twice.
    func decode(_ type: Float.Type) throws -> Float { try binary(type) }

    private func binary<Value: BinaryFloatingPoint & LosslessStringConvertible>(
        _ type: Value.Type
    ) throws -> Value {
        if case .string(let text) = value, let number = reading?.form.notFinite[text] {
            return Value(number)
        }
        guard let number = Value(try text(of: type)), number.isFinite,
            // A number that is too small becomes zero.
            number != 0 || value == 0
        else { throw corrupted("Out of range.") }
        return number
    }

    func decode(_ type: Int.Type) throws -> Int { try integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer(type) }
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(type) }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try decoded(type) }

    private func integer<Value: FixedWidthInteger>(_ type: Value.Type) throws -> Value {
        if case .integer(let integer) = value {
            guard let exact = Value(exactly: integer) else { throw corrupted("Out of range.") }
            return exact
        }
        guard let digits = value.digits else { throw mismatch(type) }
        // Foundation drops a fraction that no double can represent; an integer is exact, or
        // refused.
        guard let exact = digits.integer(as: Value.self) else {
            throw corrupted("Out of range.")
        }
        return exact
    }
}

/// The members of an object.
private struct JSONMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: [String: JSONValue]
    let parent: JSONValueDecoder

    var codingPath: [any CodingKey] { parent.codingPath }
    var allKeys: [Key] { members.keys.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { members.index(forKey: key.stringValue) != nil }

    private func decoder(_ key: any CodingKey) throws -> JSONValueDecoder {
        let standIn = parent.defaults?.member(key.stringValue)
        guard let value = members[key.stringValue] ?? self.value(of: standIn) else {
            throw DecodingError.keyNotFound(
                key,
                .init(codingPath: codingPath, debugDescription: "The member is missing.")
            )
        }
        return parent.nested(value, key, standIn)
    }

    private func value(of standIn: StoredForm.Default?) -> JSONValue? {
        guard let standIn, parent.reading?.needs(standIn) == true else { return nil }
        return standIn.value
    }

    func decodeNil(forKey key: Key) throws -> Bool { try decoder(key).decodeNil() }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try decoder(key).decoded(type)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try optional(type, key)
    }

    // The protocol has separate requirements for numbers, with default implementations.
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
        try optional(type, key)
    }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
        try optional(type, key)
    }

    private func optional<Value: Decodable>(_ type: Value.Type, _ key: Key) throws -> Value? {
        guard let value = members[key.stringValue], value != .null else { return nil }
        let decoder = try decoder(key)
        do {
            return try decoder.decoded(type)
        } catch let error as DecodingError {
            // The default of an optional is `nil`, which is not encoded.
            guard let reading = parent.reading, let standIn = decoder.defaults,
                standIn.value == nil, reading.needs(standIn),
                error.isUnreadable(at: decoder.codingPath, reading.form.standIn)
            else { throw error }
            return nil
        }
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try decoder(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { superDecoder(JSONKey(stringValue: "super")) }

    func superDecoder(forKey key: Key) throws -> any Decoder { superDecoder(key) }

    /// As in Foundation, a missing member is `null` to a superclass.
    private func superDecoder(_ key: any CodingKey) -> JSONValueDecoder {
        let standIn = parent.defaults?.member(key.stringValue)
        let value = members[key.stringValue] ?? self.value(of: standIn)
        return parent.nested(value ?? .null, key, standIn)
    }
}

/// The elements of an array.
private struct JSONElements: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    let parent: JSONValueDecoder
    var currentIndex = 0

    init(elements: [JSONValue], parent: JSONValueDecoder) {
        self.elements = elements
        self.parent = parent
    }

    var codingPath: [any CodingKey] { parent.codingPath }
    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    private mutating func next() throws -> JSONValueDecoder {
        let decoder = try current(Any.self)
        currentIndex += 1
        return decoder
    }

    private func current(_ type: Any.Type) throws -> JSONValueDecoder {
        let key = JSONKey(intValue: currentIndex)
        guard !isAtEnd else {
            throw DecodingError.valueNotFound(
                type,
                .init(
                    codingPath: codingPath + [key],
                    debugDescription: "The array has no more elements."
                )
            )
        }
        return parent.nested(elements[currentIndex], key)
    }

    mutating func decodeNil() throws -> Bool {
        guard try current(Never.self).decodeNil() else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let value = try current(type).decoded(type)
        currentIndex += 1
        return value
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try next().unkeyedContainer()
    }

    mutating func superDecoder() throws -> any Decoder { try next() }
}

/// A name or an index.
struct JSONKey: CodingKey {
    /// One step into a value.
    enum Step {
        case name(String)
        case index(Int)
    }

    let stringValue: String
    let intValue: Int?

    init(stringValue: String) {
        self.stringValue = stringValue
        intValue = nil
    }

    init(_ step: Step) {
        switch step {
        case .name(let name): self.init(stringValue: name)
        case .index(let index): self.init(intValue: index)
        }
    }

    init(intValue: Int) {
        stringValue = "Index \(intValue)"
        self.intValue = intValue
    }
}
