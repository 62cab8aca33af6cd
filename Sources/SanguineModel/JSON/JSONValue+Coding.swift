import Foundation

extension JSONValue {
    /// Writes a value as JSON.
    ///
    /// - Throws: `EncodingError` if it cannot be written, as a number that is not finite.
    public init(encoding value: some Encodable) throws {
        let encoder = JSONEncoder()
        self = try JSONDecoder().decode(JSONValue.self, from: encoder.encode(value))
    }

    /// Reads this JSON as a value of that type.
    ///
    /// - Throws: `DecodingError` if it is none.
    public func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        try JSONValueDecoder(value: self).decoded(type)
    }
}
