import HTTPTypes
import Hummingbird

/// Allows pages of the configured origins to call the API (CORS, Fetch standard); by default none.
///
/// It wraps ``ProblemMiddleware``, so that a page can also read refusals. Hummingbird's own
/// middleware is not suitable: it turns thrown errors into its own, and does not expose response
/// headers to pages.
struct CrossOrigin: RouterMiddleware {
    /// The time for which a browser may cache a preflight: an hour.
    static let preflightSeconds = 3_600

    private let origins: Set<String>

    private static let methods = "GET, HEAD, POST, PUT, PATCH, DELETE"
    private static let requestHeaders: [HTTPField.Name] = [
        .accept, .authorization, .contentType, .ifNoneMatch, .idempotencyKey, .lastEventID, .userID,
        .sanguineTag, .range, .ifRange, .ifMatch, .tusResumable, .uploadLength, .uploadOffset,
        .uploadMetadata, .uploadChecksum, .methodOverride,
    ]
    private static let allowed = requestHeaders.map(\.rawName).joined(separator: ", ")
    private static let answerHeaders: [HTTPField.Name] = [
        .eTag, .retryAfter, .idempotencyReplayed, .sanguineHead, .sanguineEpoch, .rateLimit,
        .rateLimitPolicy, .cacheStatus, .sanguineCall, .requestID, .acceptRanges, .contentRange,
        .location, .sanguineBlob, .tusChecksumAlgorithm, .tusExtension, .tusMaxSize, .tusResumable,
        .tusVersion, .uploadExpires, .uploadLength, .uploadMetadata, .uploadOffset,
    ]
    private static let exposed = answerHeaders.map(\.rawName).joined(separator: ", ")

    init(origins: [String]) { self.origins = Set(origins) }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let origin = request.headers[.origin].flatMap { isAllowed($0) ? $0 : nil }
        var response: Response
        if origin != nil, Self.isPreflight(request) {
            response = Response(status: .noContent)
            response.headers.add(.requestID, context.requestID)
            response.headers[.accessControlAllowMethods] = Self.methods
            response.headers[.accessControlAllowHeaders] = Self.allowed
            response.headers[.accessControlMaxAge] = String(Self.preflightSeconds)
        } else {
            response = try await next(request, context)
            // A public file is the same for pages of all origins, and cached once.
            if response.headers[.accessControlAllowOrigin] == "*" { return response }
            if origin != nil { response.headers[.accessControlExposeHeaders] = Self.exposed }
        }
        response.headers[.accessControlAllowOrigin] = origin
        // Also without an origin: a cache must not return that response to a page.
        response.headers[values: .vary].append("Origin")
        return response
    }

    private func isAllowed(_ origin: String) -> Bool {
        origins.contains(origin) || origins.contains("*")
    }

    private static func isPreflight(_ request: Request) -> Bool {
        request.method == .options && request.headers[.accessControlRequestMethod] != nil
    }
}
