/// Why an answer could not be decoded, and the answer.
///
/// Two are equal if they read the same, whatever the answers were. A text is one without an answer:
///
/// ```swift
/// #expect(error == .decoding("Article: 'authorName' is missing"))
/// ```
public struct DecodingFailure: Sendable, CustomStringConvertible {
    /// The declared type, and where the answer differs from it: names of fields, and no value.
    public let description: String
    /// The answer, with the first 4 KiB of its body; `nil` if it was no answer to a query or a
    /// mutation of the app's.
    public internal(set) var response: TransportResponse?

    /// A failure without an answer.
    public init(_ description: String) { self.description = description }
}

extension DecodingFailure: Hashable {
    /// Whether both read the same.
    public static func == (lhs: Self, rhs: Self) -> Bool { lhs.description == rhs.description }

    /// Hashes what counts for equality.
    public func hash(into hasher: inout Hasher) { hasher.combine(description) }
}

extension DecodingFailure: ExpressibleByStringInterpolation {
    /// A failure without an answer.
    public init(stringLiteral text: String) { self.init(text) }
}
