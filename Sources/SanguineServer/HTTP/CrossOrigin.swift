import HTTPTypes
import Hummingbird

/// Lets pages of the configured origins call the API (CORS, Fetch standard); by default none.
///
/// Stands outside of ``Frame``, so that a page can read refusals too. Hummingbird's own middleware
/// does not fit: it turns what is thrown into an error of its own, and shows answers' headers to
/// no page.
struct CrossOrigin: RouterMiddleware {
    /// For how long a browser may remember a preflight: an hour.
    static let preflightSeconds = 3_600

    private let origins: Set<String>

    private static let methods = "GET, HEAD, POST, PUT, PATCH, DELETE"
    private static let requestHeaders: [HTTPField.Name] = [
        .accept, .authorization, .contentType, .ifNoneMatch, .idempotencyKey, .lastEventID, .userID,
    ]
    private static let allowed = requestHeaders.map(\.rawName).joined(separator: ", ")
    private static let answerHeaders: [HTTPField.Name] = [
        .eTag, .retryAfter, .idempotencyReplayed, .sanguineHead, .sanguineEpoch, .rateLimit,
        .rateLimitPolicy, .cacheStatus, .sanguineCall,
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
            response.headers[.accessControlAllowMethods] = Self.methods
            response.headers[.accessControlAllowHeaders] = Self.allowed
            response.headers[.accessControlMaxAge] = String(Self.preflightSeconds)
        } else {
            response = try await next(request, context)
            if origin != nil { response.headers[.accessControlExposeHeaders] = Self.exposed }
        }
        response.headers[.accessControlAllowOrigin] = origin
        // Also where there is no origin: a cache must not give that answer to a page.
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
