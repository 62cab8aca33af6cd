import Foundation
package import SanguineModel

/// Reads the bodies of requests.
package enum WireBody {
    /// Whether a `Content-Type` says JSON.
    package static func isJSON(_ contentType: String?) -> Bool {
        guard let contentType else { return false }
        if contentType == WireAnswer.json { return true }
        let type = contentType.prefix { $0 != ";" && $0 != " " }.lowercased()
        return type == WireAnswer.json || type.hasSuffix("+json")
    }

    /// The body that was sent: none at all counts as `{}`.
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

    /// Bytes of JSON that are read on the thread of a connection: 16 KiB.
    package static let shortBytes = 1 << 14

    /// Reads or writes JSON: on this thread if it is short, otherwise when it is the account's turn
    /// for ``LongWork``.
    package static func perform<Value: Sendable, Failure: Error>(
        ifLong isLong: Bool,
        for account: Identifier?,
        _ work: () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard isLong else { return try work() }
        return try await LongWork.shared.perform(for: account, work)
    }

    /// Reads so many bytes of JSON, as ``perform(ifLong:for:_:)`` does.
    package static func perform<Value: Sendable, Failure: Error>(
        _ bytes: Int,
        for account: Identifier?,
        _ work: () throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        try await perform(ifLong: bytes > shortBytes, for: account, work)
    }

    /// Decodes JSON: what is none is thrown, what is JSON of another shape is returned.
    ///
    /// - Parameters:
    ///   - type: What is expected.
    ///   - bytes: The body, which is parsed once.
    /// - Returns: The content, or why the JSON does not have its shape.
    /// - Throws: A ``Problem`` for what is no JSON, or is past a limit.
    package static func decode<Content: Decodable>(
        _ type: Content.Type,
        from bytes: [UInt8]
    ) throws(Problem) -> Result<Content, Problem> {
        switch try parse(bytes, limits: .init()) {
        case .success(let document): try decode(type, from: document.value)
        case .failure(let problem): .failure(problem)
        }
    }

    /// Reads JSON that is passed on as it came, with what other programs write although no reader
    /// agrees with another about it: members of the same name, half of a surrogate pair, numbers
    /// of any size.
    ///
    /// - Throws: A ``Problem`` for what is no object, or is past a limit.
    package static func passedOn(_ bytes: [UInt8]) throws(Problem) -> PassedBody {
        var limits = JSONParser.Limits()
        limits.isTolerant = true
        let document = try parse(bytes, limits: limits).get()
        guard case .object = document.value else { throw .noObject }
        return PassedBody(
            bytes: bytes,
            value: document.value,
            isApproximate: document.isApproximate
        )
    }

    /// Parses JSON: what is none, or too large in structure, is thrown; what no program can read
    /// without a guess is returned.
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
                let detail = "Send a number that a double can hold in place of '\(text)'."
                return .failure(Problem(.invalidContent, detail))
            }
        }
    }

    /// What is said where a limit of the structure is broken.
    static let structure = """
        Send at most \(WireLimits.jsonValues) values and names, nested at most \
        \(WireLimits.jsonNesting) deep, names of at most \(WireLimits.memberNameBytes) bytes, at \
        most \(WireLimits.textMarks) combining marks in a row, \(WireLimits.nameMarks) in a name, \
        and numbers that a double can hold.
        """

    /// Decodes a value that was parsed.
    static func decode<Content: Decodable>(
        _ type: Content.Type,
        from value: JSONValue
    ) throws(Problem) -> Result<Content, Problem> {
        guard case .object(let members) = value else { throw .noObject }
        // Decoding asks the type for its members one by one, which costs more than parsing.
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

    /// The problem of a body of more bytes than are taken.
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
            return Problem(.invalidContent, "Set the member '\(path)' to a value of its type.")
        @unknown default:
            return .wrongContent
        }
    }
}

/// The body of a request that is passed on.
package struct PassedBody: Sendable {
    /// The body as it came.
    package var bytes: [UInt8]
    /// What it says, as far as that can be told.
    package var value: JSONValue
    /// Whether the bytes say more than the value.
    package var isApproximate: Bool

    /// What tells it from another one: a repetition may be written differently, if the value says
    /// all.
    package var meaning: String {
        String(decoding: isApproximate ? bytes : value.canonical, as: UTF8.self)
    }
}

extension Problem {
    fileprivate static var noObject: Problem {
        Problem(.malformedBody, "Send a JSON object in UTF-8 (RFC 8259).")
    }

    fileprivate static var wrongContent: Problem {
        Problem(.invalidContent, "Set each member to a value of its type.")
    }
}
