import SanguineAuthority
import SanguineModel

/// An error of an S3 storage.
enum S3Failure: Error, Hashable {
    /// The storage refused the request.
    case refused(S3Refusal)
    /// There was no response, for the given reason.
    case unreachable(String)
    /// The response is not one of an S3 storage, for the given reason.
    case unreadable(String)
    /// The time limit of a request and its repetitions is over.
    case timeout
    /// The calling task was cancelled.
    case cancelled
    /// The store is closed.
    case closed

    /// Whether the same request may succeed when it is sent again.
    var isTemporary: Bool {
        switch self {
        case .refused(let refusal): refusal.isTemporary
        case .unreachable, .unreadable: true
        case .timeout, .cancelled, .closed: false
        }
    }
}

/// A refusal of an S3 storage.
struct S3Refusal: Hashable, Sendable {
    /// The maximum length of a quoted message in characters.
    static let messageLength = 300

    let status: Int
    /// The code of the error, such as `NoSuchBucket`; empty without one.
    let code: String
    /// The message; empty without one.
    let message: String
    /// The region of the bucket, if the request was for another one.
    let region: String?
    /// The difference of the storage's clock from this machine's, to the second.
    let skew: Duration?
    /// The pause that the storage requests.
    let retryAfter: Duration?
    let action: S3Message.Action
    private let hasBody: Bool

    /// Reads a response.
    ///
    /// - Parameters:
    ///   - reply: The response.
    ///   - action: The permission that the request needed.
    ///   - key: The access key, which is removed from the message.
    ///   - now: The time of this machine's clock.
    init(_ reply: S3Reply, to action: S3Message.Action, key: Secret, now: Timestamp) {
        let document = S3Document(reply.body).flatMap { $0.name == "Error" ? $0 : nil }
        let code = document?["Code"] ?? reply.headers["x-minio-error-code"] ?? ""
        status = reply.status
        hasBody = !reply.body.isEmpty
        self.action = action
        self.code = code.isPlainText(of: 1...64) ? code : ""
        let text = (document?["Message"] ?? "").replacing(key.reveal(), with: Secret.mask)
        message = String(text.filter { !$0.isNewline }.prefix(Self.messageLength))
        let region = document?["Region"] ?? reply.headers["x-amz-bucket-region"]
        self.region = region.flatMap { $0.isPlainText(of: 1...64) ? $0 : nil }
        skew = reply.headers["date"].flatMap { HTTPDate.moment($0) }.map { $0 - now }
        retryAfter = UpstreamRefusal.pause(
            milliseconds: nil,
            seconds: reply.headers["retry-after"],
            now: now
        )
    }

    /// Whether the refusal concerns only the object: it does not exist, or ends before the range.
    ///
    /// A missing bucket and a page of a proxy have the same status.
    var isOfObject: Bool {
        switch status {
        case 404: ["NoSuchKey", "NoSuchObject", "NotFound"].contains(code) || !hasBody
        case 416: true
        default: false
        }
    }

    /// Whether the storage asks for fewer requests.
    var isOverload: Bool {
        // A response to `HEAD` has no code.
        status == 429 || (status == 503 && (code.isEmpty || code == "ServiceUnavailable"))
            || ["SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests"].contains(code)
    }

    /// Whether the same request may succeed when it is sent again.
    var isTemporary: Bool {
        guard !isFull, status != 501, status != 505 else { return false }
        return isOverload || status >= 500 || status == 408
            || ["RequestTimeout", "OperationAborted", "ConditionalRequestConflict"].contains(code)
    }

    /// Whether the keys are refused, which newer ones may change.
    var isOfCredentials: Bool {
        ["ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "TokenRefreshRequired"]
            .contains(code)
    }

    /// Whether the storage has no space left.
    var isFull: Bool {
        status == 507
            || ["QuotaExceeded", "XMinioStorageFull", "StorageQuotaExceeded", "EntityTooLarge"]
                .contains(code)
    }
}

extension S3Failure {
    /// Returns the error for the callers of the store.
    func storageError(at location: S3Location) -> StorageError {
        switch self {
        case .closed: return .closed
        case .refused(let refusal) where refusal.isOverload:
            return .overloaded(
                retryAfterSeconds: min(60, max(1, refusal.retryAfter?.secondsRoundedUp ?? 1))
            )
        case .refused, .unreachable, .unreadable, .timeout, .cancelled:
            return .failed(reason(at: location))
        }
    }

    /// Returns what happened and how to fix it, for the log and for the start of a server.
    func reason(at location: S3Location) -> String {
        switch self {
        case .refused(let refusal): refusal.reason(at: location)
        case .unreachable(let reason):
            """
            the S3 storage at \(location) cannot be reached (\(reason)): check \
            'blobs.s3.endpoint' and the network
            """
        case .unreadable(let reason):
            """
            the answer of \(location) is not one of an S3 storage (\(reason)): check \
            'blobs.s3.endpoint', and proxies in between
            """
        case .timeout:
            """
            the S3 storage at \(location) did not answer in time: check the network, or raise \
            'blobs.s3.timeout'
            """
        case .cancelled: "the request to \(location) was cancelled"
        case .closed: "the connections to \(location) are closed"
        }
    }
}

extension S3Refusal {
    /// Returns what happened and how to fix it.
    func reason(at location: S3Location) -> String {
        let answer = "\(status)\(code.isEmpty ? "" : " \(code)")"
        let quote = message.isEmpty ? "" : ": “\(message)”"
        return "the S3 storage at \(location) answered \(answer) to \(action.rawValue)\(quote); "
            + remedy(location)
    }

    private func remedy(_ location: S3Location) -> String {
        if let region, isOfRegion { return "set 'blobs.s3.region' to '\(region)'" }
        switch code {
        case "NoSuchBucket":
            return """
                create the bucket '\(location.bucket)', or check 'blobs.s3.bucket' and \
                'blobs.s3.endpoint'
                """
        case "InvalidAccessKeyId": return "check 'blobs.s3.accessKey'"
        case "SignatureDoesNotMatch":
            return "check 'blobs.s3.secretKey', and that no proxy changes the host or the path"
        case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
            return """
                renew the keys in 'blobs.s3.credentialsFile', which is read again, or \
                'blobs.s3.sessionToken'
                """
        case "RequestTimeTooSkewed", "RequestExpired": return clockRemedy
        default: break
        }
        if isFull { return "make room in the storage, or raise its quota" }
        if isOverload { return "ask the storage's operator for a higher rate" }
        switch status {
        case 300..<400:
            return "check 'blobs.s3.endpoint' and 'blobs.s3.region': redirects are not followed"
        case 401, 403:
            // A response to `HEAD` does not name the reason.
            if let skew, abs(skew.components.seconds) > 300 { return clockRemedy }
            return """
                allow \(action.rawValue) to the access key for the bucket and its objects, and \
                check 'blobs.s3.accessKey' and 'blobs.s3.secretKey'
                """
        case 404: return "check 'blobs.s3.endpoint', 'blobs.s3.bucket' and 'blobs.s3.addressing'"
        case 400..<500: return "check the settings of 'blobs.s3'"
        default: return "see the log of the storage"
        }
    }

    private var isOfRegion: Bool {
        (300..<400).contains(status)
            || [
                "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect",
                "IllegalLocationConstraintException", "InvalidRegionName",
            ].contains(code)
    }

    private var clockRemedy: String {
        guard let skew, skew != .zero else { return "set the clock of this machine, as NTP does" }
        let seconds = skew.components.seconds
        return """
            set the clock of this machine, as NTP does: it is \(abs(seconds)) seconds \
            \(seconds > 0 ? "behind" : "ahead of") that of the storage
            """
    }
}
