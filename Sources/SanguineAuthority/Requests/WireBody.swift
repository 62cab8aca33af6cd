import Foundation
package import SanguineModel

/// Parses and decodes the bodies of requests.
package enum WireBody {
    /// Whether a `Content-Type` is a JSON type.
    package static func isJSON(_ contentType: String?) -> Bool {
        guard let contentType else { return false }
        if contentType == WireResponse.json { return true }
        let type = contentType.prefix { $0 != ";" && $0 != " " }.lowercased()
        return type == WireResponse.json || type.hasSuffix("+json")
    }

    /// Returns the received body, or `{}` for an empty one.
    ///
    /// - Throws: `unsupported_media_type`.
    package static func checked(
        _ bytes: [UInt8],
        _ contentType: String?
    ) throws(Problem) -> [UInt8] {
        guard !bytes.isEmpty else { return Array("{}".utf8) }
        guard isJSON(contentType) else {
            throw Problem(.unsupportedMediaType, "Send 'Content-Type: application/json'.")
        }
        return bytes
    }

    /// The largest size of JSON in bytes that is parsed on the thread of a connection: 16 KiB.
    package static let shortBytes = 1 << 14

    /// Parses or encodes JSON: on the current thread if it is short, otherwise by ``LongWork`` when
    /// it is the account's turn.
    package static func perform<Value: Sendable, Failure: Error>(
        ifLong isLong: Bool,
        for account: Identifier?,
        _ work: () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard isLong else { return try work() }
        return try await LongWork.shared.perform(for: .init(account), work)
    }

    /// Works like ``perform(ifLong:for:_:)`` for JSON of this size in bytes.
    package static func perform<Value: Sendable, Failure: Error>(
        _ bytes: Int,
        for account: Identifier?,
        _ work: () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        try await perform(ifLong: bytes > shortBytes, for: account, work)
    }

    /// Decodes JSON; throws for invalid JSON, and returns a failure for JSON of another structure.
    ///
    /// - Parameters:
    ///   - type: The expected type.
    ///   - bytes: The body, which is parsed once.
    /// - Returns: The content, or the problem with its structure.
    /// - Throws: A ``Problem`` for invalid JSON, or for JSON that exceeds a limit.
    package static func decode<Content: Decodable>(
        _ type: Content.Type,
        from bytes: [UInt8]
    ) throws(Problem) -> Result<Content, Problem> {
        switch try parse(bytes, limits: .init()) {
        case .success(let document): try decode(type, from: document.value)
        case .failure(let problem): .failure(problem)
        }
    }

    /// Parses JSON that is passed on as received, including constructs that readers interpret
    /// differently: members with the same name, half of a surrogate pair, numbers of any size.
    ///
    /// - Throws: A ``Problem`` if the JSON is not an object, or exceeds a limit.
    package static func passedOn(_ bytes: [UInt8]) throws(Problem) -> ForwardedBody {
        var limits = JSONParser.Limits()
        limits.isTolerant = true
        let document = try parse(bytes, limits: limits).get()
        guard case .object = document.value else { throw .noObject }
        return ForwardedBody(
            bytes: bytes,
            value: document.value,
            isApproximate: document.isApproximate
        )
    }

    /// Parses JSON; throws if it is invalid or its structure exceeds a limit, and returns a failure
    /// if it is ambiguous.
    static func parse(
        _ bytes: [UInt8],
        limits: JSONParser.Limits
    ) throws(Problem) -> Result<JSONParser.Document, Problem> {
        do throws(JSONParser.Fault) {
            return .success(try JSONParser.parse(bytes, limits: limits))
        } catch {
            switch error {
            case .malformed:
                throw .noObject
            case .overLimit:
                throw Problem(.malformedBody, structure)
            case .sameName(let name):
                let text = String(name.prefix(64))
                return .failure(
                    Problem(
                        .invalidContent,
                        """
                        Send the member '\(text)' once: names that are canonically equivalent are \
                        the same.
                        """
                    )
                )
            case .numberTooLarge(let text):
                let detail = "Send a number that a double can represent instead of '\(text)'."
                return .failure(Problem(.invalidContent, detail))
            }
        }
    }

    /// The detail of a problem for a structure that exceeds a limit.
    static let structure = """
        Send at most \(WireLimits.jsonValues) values and names, nested at most \
        \(WireLimits.jsonNesting) deep, names of at most \(WireLimits.memberNameBytes) bytes, at \
        most \(WireLimits.textMarks) combining marks in a row, \(WireLimits.nameMarks) in a name, \
        and numbers that a double can represent.
        """

    /// Decodes a parsed value.
    static func decode<Content: Decodable>(
        _ type: Content.Type,
        from value: JSONValue
    ) throws(Problem) -> Result<Content, Problem> {
        guard case .object(let members) = value else { throw .noObject }
        // The generic decoder queries the members one by one, which costs more than parsing.
        if type == FunctionRequest<JSONValue>.self, members.count == 1,
            let input = members["input"],
            let request = FunctionRequest(input: input) as? Content
        {
            return .success(request)
        }
        do {
            return .success(try value.decoded(as: type))
        } catch let error as DecodingError {
            return .failure(content(error))
        } catch {
            return .failure(.wrongContent)
        }
    }

    /// The problem of a body that exceeds the size limit.
    package static func tooLarge(_ limit: Int) -> Problem {
        Problem(.bodyTooLarge, "Send at most \(limit) bytes.")
    }

    private static func content(_ error: DecodingError) -> Problem {
        switch error {
        case .keyNotFound(let key, let context):
            let path = (context.codingPath + [key]).memberPath
            return Problem(.invalidContent, "Add the member '\(path)'.")
        case .typeMismatch(_, let context), .valueNotFound(_, let context),
            .dataCorrupted(let context):
            guard !context.codingPath.isEmpty else { return .wrongContent }
            let path = context.codingPath.memberPath
            return Problem(
                .invalidContent,
                "Set the member '\(path)' to a value of the right type."
            )
        @unknown default:
            return .wrongContent
        }
    }
}

/// The body of a request that is passed on.
package struct ForwardedBody: Sendable {
    /// The body as received.
    package var bytes: [UInt8]
    /// The parsed value, as far as it is unambiguous.
    package var value: JSONValue
    /// Whether the bytes contain more information than the value.
    package var isApproximate: Bool

    /// The text for the fingerprint; if the value is exact, a repetition may be formatted
    /// differently.
    package var meaning: String {
        String(decoding: isApproximate ? bytes : value.canonical, as: UTF8.self)
    }
}

extension Problem {
    fileprivate static var noObject: Problem {
        Problem(.malformedBody, "Send a JSON object in UTF-8 (RFC 8259).")
    }

    fileprivate static var wrongContent: Problem {
        Problem(.invalidContent, "Set each member to a value of the right type.")
    }
}
