import Foundation

extension JSONValue {
    /// Writes a value as JSON.
    ///
    /// - Throws: `EncodingError` if it cannot be written: a number that is not finite, or a member
    ///   with a name of more than 1,024 bytes or more than 30 combining marks in a row. The error
    ///   names the member.
    public init(encoding value: some Encodable) throws {
        if let value = value as? JSONValue {
            self = value
        } else {
            let bytes = Array(try JSONEncoder().encode(value))
            do throws(JSONParser.Fault) {
                self = try JSONParser.parse(bytes, limits: .written).value
            } catch {
                throw EncodingError.invalidValue(
                    value,
                    .init(codingPath: [], debugDescription: "It is no JSON: \(error).")
                )
            }
        }
        try check()
    }

    /// Reads JSON that was stored before, to show it: with all digits of its numbers, which
    /// Foundation's decoder rounds.
    ///
    /// A member whose name is over its limit is left out. What is stored again is read with
    /// ``init(written:)``, or has its ``HiddenMembers``.
    ///
    /// - Throws: `DecodingError` if it is no JSON, or nests too deep.
    package init(stored bytes: [UInt8]) throws { try self.init(bytes, .stored) }

    /// Reads JSON that this program has written, of a value that it held: with all of its members.
    ///
    /// - Throws: as ``init(stored:)``.
    package init(written bytes: [UInt8]) throws { try self.init(bytes, .written) }

    private init(_ bytes: [UInt8], _ limits: JSONParser.Limits) throws {
        do throws(JSONParser.Fault) {
            self = try JSONParser.parse(bytes, limits: limits).value
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [], debugDescription: "It is no JSON: \(error).")
            )
        }
    }

    /// Checks that the value is JSON that others take.
    ///
    /// - Throws: `EncodingError` for a number that is not finite, and for a member's name that is
    ///   over its limit.
    package func check() throws(EncodingError) {
        guard let fault else { return }
        let path = fault.path.reversed().map { JSONKey($0) }
        throw .invalidValue(self, .init(codingPath: path, debugDescription: fault.text))
    }

    /// The first fault, with the path to it from the inside out.
    private var fault: (path: [JSONKey.Step], text: String)? {
        switch self {
        case .number(let number) where !number.isFinite:
            return ([], "Use a finite number: JSON has no other.")
        case .array(let elements):
            for (index, element) in elements.enumerated() {
                if let fault = element.fault { return (fault.path + [.index(index)], fault.text) }
            }
        case .object(let members):
            for (name, value) in members {
                guard name.isMemberName else { return ([.name(name)], Self.longName(name)) }
                if let fault = value.fault { return (fault.path + [.name(name)], fault.text) }
            }
        default: break
        }
        return nil
    }

    static func longName(_ name: String) -> String {
        """
        Shorten the name '\(String(String.UnicodeScalarView(name.unicodeScalars.prefix(40))))…': \
        a member's name has at most \(WireLimits.memberNameBytes) bytes, and at most \
        \(WireLimits.nameMarks) combining marks in a row.
        """
    }

    /// The JSON of the value, with its members in the order of their names' bytes.
    package var encoded: [UInt8] {
        var text = JSONText(.encoded)
        text.append(self)
        return text.bytes
    }

    /// Reads this JSON as a value of that type.
    ///
    /// - Throws: `DecodingError` if it is none.
    public func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        try JSONValueDecoder(value: self).decoded(type)
    }
}
