/// The reason why a response could not be decoded, and the response.
///
/// Two failures are equal if their descriptions are equal, even if the responses are not. A string
/// literal is a failure without a response:
///
/// ```swift
/// #expect(error == .decoding("Article: 'authorName' is missing"))
/// ```
public struct DecodingFailure: Sendable, CustomStringConvertible {
    /// The declared type, and where the response differs from it, with the names of fields but
    /// without values.
    public let description: String
    /// The response, with the first 4 KiB of its body; `nil` if it does not belong to one of the
    /// app's queries or mutations.
    public internal(set) var response: TransportResponse?

    /// Creates a failure without a response.
    public init(_ description: String) { self.description = description }
}

extension DecodingFailure: Hashable {
    /// Returns whether both have the same description.
    public static func == (lhs: Self, rhs: Self) -> Bool { lhs.description == rhs.description }

    /// Hashes the members that are compared.
    public func hash(into hasher: inout Hasher) { hasher.combine(description) }
}

extension DecodingFailure: ExpressibleByStringInterpolation {
    /// Creates a failure without a response.
    public init(stringLiteral text: String) { self.init(text) }
}
