import Foundation

extension JSONValue {
    /// Creates the JSON value that represents an encodable value.
    ///
    /// - Throws: `EncodingError` for a number that is not finite, and for a member whose name has
    ///   more than 1,024 bytes or more than 30 consecutive combining marks. The error names the
    ///   member.
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
                    .init(codingPath: [], debugDescription: "It is not valid JSON: \(error).")
                )
            }
        }
        try check()
    }

    /// Reads stored JSON for display, with all digits of its numbers, which Foundation's decoder
    /// would round.
    ///
    /// A member whose name exceeds the limit is omitted. To store the value again, read it with
    /// ``init(written:)``, or supply its ``HiddenMembers``.
    ///
    /// - Throws: `DecodingError` if the text is not JSON, or is nested too deeply.
    package init(stored bytes: [UInt8]) throws { try self.init(bytes, .stored) }

    /// Reads JSON that this program wrote from a value in memory, including all of its members.
    ///
    /// - Throws: `DecodingError`, as ``init(stored:)``.
    package init(written bytes: [UInt8]) throws { try self.init(bytes, .written) }

    private init(_ bytes: [UInt8], _ limits: JSONParser.Limits) throws {
        do throws(JSONParser.Fault) {
            self = try JSONParser.parse(bytes, limits: limits).value
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: [], debugDescription: "It is not valid JSON: \(error).")
            )
        }
    }

    /// Checks that other parties accept the value as JSON.
    ///
    /// - Throws: `EncodingError` for a number that is not finite, and for a member name that
    ///   exceeds the limit.
    package func check() throws(EncodingError) {
        guard let fault else { return }
        let path = fault.path.reversed().map { JSONKey($0) }
        throw .invalidValue(self, .init(codingPath: path, debugDescription: fault.text))
    }

    /// The first fault, with the path to it from the innermost step outward.
    private var fault: (path: [JSONKey.Step], text: String)? {
        switch self {
        case .number(let number) where !number.isFinite:
            return ([], "Use a finite number: JSON has no infinities and no NaN.")
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

    /// The value as JSON, with members in the order of their names' bytes.
    package var encoded: [UInt8] {
        var text = JSONText(.encoded)
        text.append(self)
        return text.bytes
    }

    /// Decodes a value of the given type.
    ///
    /// - Throws: `DecodingError` if the JSON does not represent one.
    public func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        try JSONValueDecoder(value: self).decoded(type)
    }
}
