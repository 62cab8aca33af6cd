/// The stable name of a refusal or error, which is the `code` of a problem on the wire.
///
/// Programs act on the code, never on the text. Codes of newer servers that this version does not
/// know are decoded too.
public struct ProblemCode: RawRepresentable, ExpressibleByStringLiteral, Hashable, Codable,
    Sendable
{
    /// The text of the code.
    public let rawValue: String

    /// Creates a code from its text.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Creates a code from a literal, so that an app can compare its own codes: `code == "locked"`.
    public init(stringLiteral value: String) { self.init(rawValue: value) }

    /// 400: the body is not a JSON object in UTF-8.
    public static let malformedBody = Self(rawValue: "malformed_body")
    /// 400: a header or parameter is malformed.
    public static let malformedRequest = Self(rawValue: "malformed_request")
    /// 400: the request changes something but has no `Idempotency-Key`.
    public static let idempotencyKeyMissing = Self(rawValue: "idempotency_key_missing")
    /// 400: the key is not 1 to 128 visible ASCII characters.
    public static let idempotencyKeyInvalid = Self(rawValue: "idempotency_key_invalid")
    /// 413: the body is larger than the limit.
    public static let bodyTooLarge = Self(rawValue: "body_too_large")
    /// 415: the endpoint does not accept the body's type.
    public static let unsupportedMediaType = Self(rawValue: "unsupported_media_type")
    /// 401: the access token is missing or not valid.
    public static let unauthenticated = Self(rawValue: "unauthenticated")
    /// 401: the access token has expired; refresh it.
    public static let tokenExpired = Self(rawValue: "token_expired")
    /// 401: the session was ended by sign-out, because its refresh token was reused, or because the
    /// account has too many sessions and this one was used least recently.
    public static let sessionEnded = Self(rawValue: "session_ended")
    /// 401: the guest of this device was registered, or merged into an account, on another device;
    /// the user must sign in.
    public static let guestRegistered = Self(rawValue: "guest_registered")
    /// 401: the account was deleted; the device removes what it has of it.
    public static let accountDeleted = Self(rawValue: "account_deleted")
    /// 401: the device is registered with another secret.
    public static let deviceSecretMismatch = Self(rawValue: "device_secret_mismatch")
    /// 401: the refresh token does not exist or has expired.
    public static let refreshInvalid = Self(rawValue: "refresh_invalid")
    /// 401: a rotated refresh token was used again; all sessions of its family have ended.
    public static let refreshReused = Self(rawValue: "refresh_reused")
    /// 401: the identity token is not valid for this server: its signature, issuer, audience,
    /// expiry or nonce.
    public static let identityTokenInvalid = Self(rawValue: "identity_token_invalid")
    /// 401: the e-mail address or the password is wrong.
    public static let credentialsInvalid = Self(rawValue: "credentials_invalid")
    /// 402: the balance does not cover the amount.
    public static let insufficientTokens = Self(rawValue: "insufficient_tokens")
    /// 402: the day's quota is used up.
    public static let quotaExhausted = Self(rawValue: "quota_exhausted")
    /// 402: the account has spent its limit for the day.
    public static let spendingLimitReached = Self(rawValue: "spending_limit_reached")
    /// 403: `X-User-Id` is not the token's subject.
    public static let identityMismatch = Self(rawValue: "identity_mismatch")
    /// 403: the record belongs to another account.
    public static let notOwner = Self(rawValue: "not_owner")
    /// 403: the request names another server in `Host`, or was sent by another server's page.
    public static let foreignRequest = Self(rawValue: "foreign_request")
    /// 403: the attestation of the app or device is missing or not valid.
    public static let attestationFailed = Self(rawValue: "attestation_failed")
    /// 403: the admin token's role does not permit the call.
    public static let roleMissing = Self(rawValue: "role_missing")
    /// 404: the resource does not exist, or not for this account.
    public static let notFound = Self(rawValue: "not_found")
    /// 405: the resource does not support the method; `Allow` lists the supported ones.
    public static let methodNotAllowed = Self(rawValue: "method_not_allowed")
    /// 409: the first request with this key is still running.
    public static let operationInProgress = Self(rawValue: "operation_in_progress")
    /// 409: the bytes do not follow those that the upload has; ask for its offset with HEAD.
    public static let offsetMismatch = Self(rawValue: "offset_mismatch")
    /// 412: the request does not name the version of the upload protocol that the server supports.
    public static let tusVersionUnsupported = Self(rawValue: "tus_version_unsupported")
    /// 460: the bytes of the request do not have the checksum that it names; send them again.
    public static let checksumMismatch = Self(rawValue: "checksum_mismatch")
    /// 412: the resource has changed since its entity tag in `If-Match` was read.
    public static let preconditionFailed = Self(rawValue: "precondition_failed")
    /// 409: the caller cancelled the call; `charged` contains its cost.
    public static let callCancelled = Self(rawValue: "call_cancelled")
    /// 409: the hold was settled differently before.
    public static let holdSettled = Self(rawValue: "hold_settled")
    /// 409: the purchase was credited to another account.
    public static let purchaseTaken = Self(rawValue: "purchase_taken")
    /// 409: the guest or the account has changed since the preview of the merge.
    public static let mergeStale = Self(rawValue: "merge_stale")
    /// 409: the identity belongs to another account.
    public static let identityTaken = Self(rawValue: "identity_taken")
    /// 409: the login is the only one of the account, so that it cannot be removed.
    public static let lastLogin = Self(rawValue: "last_login")
    /// 409: the e-mail address belongs to another account.
    public static let emailTaken = Self(rawValue: "email_taken")
    /// 409: a record with this id already exists.
    public static let recordExists = Self(rawValue: "record_exists")
    /// 413: the record would exceed the limit.
    public static let recordTooLarge = Self(rawValue: "record_too_large")
    /// 416: the requested range begins after the end of the file.
    public static let rangeNotSatisfiable = Self(rawValue: "range_not_satisfiable")
    /// 422: the record mutation is not known.
    public static let mutatorUnknown = Self(rawValue: "mutator_unknown")
    /// 422: the collection is not declared.
    public static let collectionUnknown = Self(rawValue: "collection_unknown")
    /// 422: the record mutation threw an error other than a refusal.
    public static let mutatorFailed = Self(rawValue: "mutator_failed")
    /// 422: the key was used for another request.
    public static let idempotencyMismatch = Self(rawValue: "idempotency_mismatch")
    /// 422: the operation was done, but its response is no longer stored.
    public static let idempotencyExpired = Self(rawValue: "idempotency_expired")
    /// 422: the JSON is well-formed, but its content is not valid.
    public static let invalidContent = Self(rawValue: "invalid_content")
    /// 422: the upstream refused the caller's input; ``Problem/upstream`` contains its reason.
    public static let upstreamRefused = Self(rawValue: "upstream_refused")
    /// 422: the account's records and files would exceed their storage limit; delete some.
    public static let storageFull = Self(rawValue: "storage_full")
    /// 422: the signed transaction belongs to another app or environment.
    public static let purchaseForeign = Self(rawValue: "purchase_foreign")
    /// 422: the signed transaction or notification is not valid: its signature or certificates.
    public static let purchaseInvalid = Self(rawValue: "purchase_invalid")
    /// 422: the code of the other device is wrong, was used, or has expired.
    public static let moveCodeInvalid = Self(rawValue: "move_code_invalid")
    /// 422: the code is wrong, has expired, or is void after too many attempts.
    public static let verificationFailed = Self(rawValue: "verification_failed")
    /// 429: too many requests.
    public static let rateLimited = Self(rawValue: "rate_limited")
    /// 500: an error in the server.
    public static let internalFault = Self(rawValue: "internal_fault")
    /// 502: the call was interrupted by a server shutdown, or because its client disconnected;
    /// `charged` contains its cost.
    public static let interrupted = Self(rawValue: "interrupted")
    /// 502: the upstream failed; the hold was released, or `charged` contains the cost of its
    /// output.
    public static let upstreamFailed = Self(rawValue: "upstream_failed")
    /// 503: no upstream is configured.
    public static let upstreamMissing = Self(rawValue: "upstream_missing")
    /// 503: the server refuses temporarily, and nothing was changed: its queue is full, an index is
    /// being built, its disk is full, or its data is damaged and read-only.
    ///
    /// The detail contains the reason, and `Retry-After` the time to wait.
    public static let overloaded = Self(rawValue: "overloaded")
    /// 504: the upstream did not respond in time.
    public static let upstreamTimeout = Self(rawValue: "upstream_timeout")
}

extension ProblemCode {
    /// The HTTP status and the title of the code.
    ///
    /// `http_<status>` has that status. Every other unknown code is an app's own refusal, with
    /// status 422.
    public var meaning: (status: Int, title: String) {
        if let known = Self.meanings[self] { return known }
        if let status = httpStatus { return (status, Self.title(ofStatus: status)) }
        return (422, "The operation was refused.")
    }

    /// The code of a backend's response without one: `http_<status>`.
    package init(status: Int) { self.init(rawValue: "http_\(status)") }

    private var httpStatus: Int? {
        let digits = rawValue.dropFirst(5)
        guard rawValue.hasPrefix("http_"), digits.utf8.count == 3,
            digits.utf8.allSatisfy({ (48...57).contains($0) }),
            let status = Int(digits), (100...599).contains(status)
        else { return nil }
        return status
    }

    /// Returns the title of an HTTP status (RFC 9110, section 15), for a response without one.
    package static func title(ofStatus status: Int) -> String {
        if let title = statusTitles[status] { return title }
        return switch status {
        case 300...399: "The resource has moved."
        case 400...499: "The request was refused."
        case 500...599: "The server failed."
        default: "The response is not valid HTTP."
        }
    }

    /// Whether a later version of the server may decide differently, so that the refusal of an
    /// operation is not stored.
    package var awaitsDeployment: Bool { self == .mutatorUnknown || self == .collectionUnknown }

    /// Whether the protocol defines the code, as opposed to an app.
    package var isDefined: Bool { Self.meanings[self] != nil }

    private static let statusTitles: [Int: String] = [
        400: "The request cannot be read.",
        401: "The request is not authenticated.",
        402: "The request requires payment.",
        403: "The request is not allowed.",
        404: "There is no such resource.",
        405: "The resource does not support the method.",
        406: "The resource has no representation that the request accepts.",
        408: "The request took too long.",
        409: "The request conflicts with the current state.",
        410: "The resource is gone.",
        412: "A precondition of the request does not hold.",
        413: "The body is too large.",
        415: "The body is of an unsupported type.",
        422: "The content is not valid.",
        423: "The resource is locked.",
        425: "The request came too early.",
        429: "There are too many requests.",
        431: "The headers are too large.",
        500: "The server failed.",
        501: "The server does not support the request.",
        502: "The upstream failed.",
        503: "The server is overloaded.",
        504: "The upstream did not answer in time.",
    ]

    private static let meanings: [ProblemCode: (status: Int, title: String)] = [
        .malformedBody: (400, "The body cannot be read."),
        .malformedRequest: (400, "The request cannot be read."),
        .idempotencyKeyMissing: (400, "The idempotency key is missing."),
        .idempotencyKeyInvalid: (400, "The idempotency key is not valid."),
        .bodyTooLarge: (413, "The body is too large."),
        .unsupportedMediaType: (415, "The body is of an unsupported type."),
        .unauthenticated: (401, "The request is not authenticated."),
        .tokenExpired: (401, "The access token has expired."),
        .sessionEnded: (401, "The session has ended."),
        .guestRegistered: (401, "The guest belongs to a registered account."),
        .accountDeleted: (401, "The account was deleted."),
        .deviceSecretMismatch: (401, "The device has another secret."),
        .refreshInvalid: (401, "The refresh token is not valid."),
        .refreshReused: (401, "The refresh token was used before."),
        .identityTokenInvalid: (401, "The identity token is not valid."),
        .credentialsInvalid: (401, "The credentials are not valid."),
        .insufficientTokens: (402, "The balance is too low."),
        .quotaExhausted: (402, "The quota is used up."),
        .spendingLimitReached: (402, "The spending limit of the day is reached."),
        .identityMismatch: (403, "The user id belongs to another account."),
        .notOwner: (403, "The record belongs to another account."),
        .foreignRequest: (403, "The request names or comes from another server."),
        .attestationFailed: (403, "The attestation is not valid."),
        .roleMissing: (403, "The role does not permit this."),
        .notFound: (404, "There is no such resource."),
        .methodNotAllowed: (405, "The resource does not support the method."),
        .operationInProgress: (409, "The operation is still running."),
        .offsetMismatch: (409, "The upload has another offset."),
        .tusVersionUnsupported: (412, "The version of the upload protocol is not supported."),
        .checksumMismatch: (460, "The bytes have another checksum."),
        .preconditionFailed: (412, "The resource has changed."),
        .callCancelled: (409, "The call was cancelled."),
        .holdSettled: (409, "The hold is already settled."),
        .purchaseTaken: (409, "The purchase belongs to another account."),
        .mergeStale: (409, "The preview of the merge is stale."),
        .identityTaken: (409, "The identity is taken."),
        .lastLogin: (409, "The login is the only one of the account."),
        .emailTaken: (409, "The e-mail address is taken."),
        .recordExists: (409, "The record already exists."),
        .recordTooLarge: (413, "The record is too large."),
        .rangeNotSatisfiable: (416, "The range is outside of the file."),
        .mutatorUnknown: (422, "The mutation is not known."),
        .collectionUnknown: (422, "The collection is not known."),
        .mutatorFailed: (422, "The mutation failed."),
        .idempotencyMismatch: (422, "The idempotency key belongs to another request."),
        .idempotencyExpired: (422, "The operation's answer is no longer stored."),
        .invalidContent: (422, "The content is not valid."),
        .upstreamRefused: (422, "The upstream refused the request."),
        .storageFull: (422, "The storage of the account is full."),
        .purchaseForeign: (422, "The purchase belongs to another app or environment."),
        .purchaseInvalid: (422, "The purchase is not valid."),
        .moveCodeInvalid: (422, "The code of the other device is not valid."),
        .verificationFailed: (422, "The code is not valid."),
        .rateLimited: (429, "There are too many requests."),
        .internalFault: (500, "The server has a fault."),
        .interrupted: (502, "The call was interrupted."),
        .upstreamFailed: (502, "The upstream failed."),
        .upstreamMissing: (503, "No upstream is configured."),
        .overloaded: (503, "The server is overloaded."),
        .upstreamTimeout: (504, "The upstream did not answer in time."),
    ]
}
