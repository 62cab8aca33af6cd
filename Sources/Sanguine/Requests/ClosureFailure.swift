import Foundation

/// An error of the app's own that says what it means, so that the client tries again, or does not.
///
/// ```swift
/// enum APIError: ClassifiedError {
///     case busy, notAllowed
///
///     var errorClass: ErrorClass { self == .busy ? .retryable : .refused }
/// }
/// ```
///
/// An error of the app's own that does not say so is a ``ErrorClass/defect``: it is not tried
/// again, and a mutation that throws it is refused.
public protocol ClassifiedError: Error {
    /// What the error means for whoever asked.
    var errorClass: ErrorClass { get }

    /// How long to wait before another try; `nil` for the client's own schedule.
    ///
    /// Default: `nil`.
    var retryAfter: Duration? { get }
}

extension ClassifiedError {
    /// The client's own schedule.
    public var retryAfter: Duration? { nil }
}

/// What a closure of the app's own has failed with.
///
/// Two are equal if they read the same and mean the same, whatever the error was.
public struct ClosureFailure: Sendable, CustomStringConvertible {
    /// The error as it describes itself, and as it describes itself to people.
    public let description: String
    /// What it means: what the error says as a ``ClassifiedError``, or else
    /// ``ErrorClass/defect``.
    public let errorClass: ErrorClass
    /// How long to wait before another try, if the error says so.
    public let retryAfter: Duration?
    /// The error that was thrown; `nil` if the client itself failed.
    public let underlying: (any Error)?

    /// Describes an error.
    public init(_ error: any Error) {
        let text = "\(error)"
        let explanation = (error as? any LocalizedError)?.errorDescription ?? ""
        let isSaid = explanation.isEmpty || text.contains(explanation)
        let classified = error as? any ClassifiedError
        description = isSaid ? text : "\(text): \(explanation)"
        errorClass = classified?.errorClass ?? .defect
        retryAfter = classified?.retryAfter
        underlying = error
    }

    /// A failure without an error: one of the client's own, or one for a test.
    public init(_ description: String) {
        self.description = description
        errorClass = .defect
        retryAfter = nil
        underlying = nil
    }
}

extension ClosureFailure: Hashable {
    /// Whether both read the same and mean the same.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.description == rhs.description && lhs.errorClass == rhs.errorClass
            && lhs.retryAfter == rhs.retryAfter
    }

    /// Hashes what counts for equality.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(description)
        hasher.combine(errorClass)
        hasher.combine(retryAfter)
    }
}
