import SanguineModel

/// The class of an error, by which callers decide what to do.
///
/// ```swift
/// switch error.errorClass {
/// case .needsSignIn: signIn()
/// case .gone: close()
/// default: show(error.description)
/// }
/// ```
public enum ErrorClass: String, Hashable, Sendable, CaseIterable {
    /// The same request may succeed if it is sent again soon.
    case retryable
    /// The same request may succeed later, after the time in the server's `Retry-After`.
    case waits
    /// The user must sign in first.
    case needsSignIn
    /// The request is refused, and will be refused again if it is repeated.
    case refused
    /// The requested resource does not exist, or no longer exists.
    case gone
    /// The result is no longer needed.
    case cancelled
    /// The app, the backend or the device must be fixed; a retry does not help.
    case defect

    /// Whether a read should be retried.
    ///
    /// True for ``retryable`` and ``waits``.
    public var isWorthAnotherRead: Bool { self == .retryable || self == .waits }
}

extension SanguineError {
    /// The error's class.
    public var errorClass: ErrorClass {
        switch self {
        case .problem(let problem):
            problem.known?.errorClass ?? ErrorTable.errorClass(of: problem)
        case .queryFailed(let failure): failure.errorClass
        case .timedOut, .transport(.timedOut), .transport(.offline), .transport(.interrupted),
            .transport(.intercepted):
            .retryable
        case .cancelled, .transport(.cancelled), .closed, .userChanged: .cancelled
        case .queueFull, .outboxFull, .rangeTooLong, .outcomeUnknown, .balanceUnsettled: .refused
        case .transport(.bodyTooLarge), .transport(.invalid), .decoding, .store, .notConfigured,
            .invalidDeclaration, .conflictingQuery, .signInRefused:
            .defect
        }
    }

    /// Whether the same read may succeed if it is repeated.
    var isWorthAnotherRead: Bool { errorClass.isWorthAnotherRead }
}

/// The classes of problems, as data.
///
/// A problem is looked up by its code, then by its status, then by the hundreds digit of its
/// status. The code counts only with its own status: a backend that answers 404 with the code of an
/// internal fault has answered 404.
enum ErrorTable {
    /// The classes of problems by code, if they have the code's own status.
    static let codes: [ProblemCode: ErrorClass] = [
        .malformedBody: .defect,
        .malformedRequest: .defect,
        .idempotencyKeyMissing: .defect,
        .idempotencyKeyInvalid: .defect,
        .bodyTooLarge: .refused,
        .unsupportedMediaType: .defect,
        .unauthenticated: .needsSignIn,
        .tokenExpired: .needsSignIn,
        .sessionEnded: .needsSignIn,
        .guestRegistered: .needsSignIn,
        .accountDeleted: .needsSignIn,
        .deviceSecretMismatch: .needsSignIn,
        .refreshInvalid: .needsSignIn,
        .refreshReused: .needsSignIn,
        .identityTokenInvalid: .needsSignIn,
        .credentialsInvalid: .needsSignIn,
        .insufficientTokens: .refused,
        .quotaExhausted: .refused,
        .spendingLimitReached: .refused,
        .identityMismatch: .defect,
        .foreignRequest: .defect,
        .attestationFailed: .refused,
        .roleMissing: .defect,
        .notOwner: .refused,
        .notFound: .gone,
        .methodNotAllowed: .defect,
        .operationInProgress: .waits,
        .offsetMismatch: .refused,
        .tusVersionUnsupported: .defect,
        .checksumMismatch: .retryable,
        .preconditionFailed: .refused,
        .callCancelled: .refused,
        .holdSettled: .refused,
        .purchaseTaken: .refused,
        .mergeStale: .refused,
        .identityTaken: .refused,
        .emailTaken: .refused,
        .lastLogin: .refused,
        .recordExists: .refused,
        .recordTooLarge: .refused,
        .rangeNotSatisfiable: .refused,
        .storageFull: .refused,
        .purchaseForeign: .refused,
        .purchaseInvalid: .refused,
        .moveCodeInvalid: .refused,
        .verificationFailed: .refused,
        .upstreamRefused: .refused,
        .mutatorUnknown: .defect,
        .collectionUnknown: .defect,
        .mutatorFailed: .refused,
        .idempotencyMismatch: .defect,
        .idempotencyExpired: .refused,
        .invalidContent: .refused,
        .rateLimited: .waits,
        .internalFault: .retryable,
        .interrupted: .retryable,
        .upstreamFailed: .retryable,
        .upstreamMissing: .waits,
        .overloaded: .waits,
        .upstreamTimeout: .retryable,
    ]

    /// The classes of problems by HTTP status (RFC 9110, section 15; 425: RFC 8470; 429 and 511:
    /// RFC 6585; 460: tus 1.0).
    static let statuses: [Int: ErrorClass] = [
        400: .defect,
        401: .needsSignIn,
        404: .gone,
        405: .defect,
        406: .defect,
        408: .retryable,
        410: .gone,
        415: .defect,
        425: .retryable,
        429: .waits,
        460: .retryable,
        500: .retryable,
        502: .retryable,
        503: .waits,
        504: .retryable,
        511: .retryable,
    ]

    /// The classes of problems by the hundreds digit of their status.
    ///
    /// 3 is a redirect that is not followed: a network's login page, which is temporary, or a wrong
    /// address.
    static let hundreds: [Int: ErrorClass] = [3: .retryable, 4: .refused, 5: .defect]

    static func errorClass(of problem: Problem) -> ErrorClass {
        if let found = codes[problem.code], problem.status == problem.code.meaning.status {
            return found
        }
        return statuses[problem.status] ?? hundreds[problem.status / 100] ?? .defect
    }
}
