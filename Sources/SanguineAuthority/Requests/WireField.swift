/// A header field that requests and answers of the wire contract carry.
package enum WireField: String, CaseIterable, Sendable {
    case allow = "Allow"
    case authorization = "Authorization"
    case cacheControl = "Cache-Control"
    case cacheStatus = "Cache-Status"
    case contentType = "Content-Type"
    case etag = "ETag"
    case idempotencyKey = "Idempotency-Key"
    case idempotencyReplayed = "Idempotency-Replayed"
    case ifNoneMatch = "If-None-Match"
    case lastEventID = "Last-Event-ID"
    case retryAfter = "Retry-After"
    case sanguineHead = "Sanguine-Head"
    case userID = "X-User-Id"
    case wwwAuthenticate = "WWW-Authenticate"
}
