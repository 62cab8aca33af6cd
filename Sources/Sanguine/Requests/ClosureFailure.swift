import Foundation

/// An error of the app that states its class, which decides whether the client retries.
///
/// ```swift
/// enum APIError: ClassifiedError {
///     case busy, notAllowed
///
///     var errorClass: ErrorClass { self == .busy ? .retryable : .refused }
/// }
/// ```
///
/// An app's error without a class is a ``ErrorClass/defect``: it is not retried, and a mutation
/// that throws it is refused.
public protocol ClassifiedError: Error {
    /// The error's class.
    var errorClass: ErrorClass { get }

    /// The time to wait before a retry; `nil` for the client's own schedule.
    ///
    /// Default: `nil`.
    var retryAfter: Duration? { get }
}

extension ClassifiedError {
    /// `nil`: the client's own schedule.
    public var retryAfter: Duration? { nil }
}

/// The failure of one of the app's closures.
///
/// Two failures are equal if their descriptions, classes and waits are equal, even if the errors
/// are not.
public struct ClosureFailure: Sendable, CustomStringConvertible {
    /// The error's description, followed by its localized description if it has one.
    public let description: String
    /// The class of the error: its own if it is a ``ClassifiedError``, or else
    /// ``ErrorClass/defect``.
    public let errorClass: ErrorClass
    /// The time to wait before a retry, if the error states one.
    public let retryAfter: Duration?
    /// The thrown error; `nil` if the client itself failed.
    public let underlying: (any Error)?

    /// Creates a failure from an error.
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

    /// Creates a failure without an error, such as one of the client's own, or for a test.
    public init(_ description: String) {
        self.description = description
        errorClass = .defect
        retryAfter = nil
        underlying = nil
    }
}

extension ClosureFailure: Hashable {
    /// Returns whether both have the same description, class and wait.
    public static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.description == rhs.description && lhs.errorClass == rhs.errorClass
            && lhs.retryAfter == rhs.retryAfter
    }

    /// Hashes the members that are compared.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(description)
        hasher.combine(errorClass)
        hasher.combine(retryAfter)
    }
}
