import HTTPTypes
import Hummingbird

/// Lets pages of the configured origins call the API; nobody else's by default.
struct CrossOrigin: RouterMiddleware {
    // Hummingbird's middleware takes its origins as variadic arguments, so there is one for each.
    private let middleware: [String: CORSMiddleware<ServerContext>]

    private static let exposed: [HTTPField.Name] = [
        .eTag, .retryAfter, .idempotencyReplayed, .sanguineHead, .rateLimit, .rateLimitPolicy,
        .cacheStatus,
    ]

    init(origins: [String]) {
        let pairs = origins.map { origin in
            (
                origin,
                CORSMiddleware<ServerContext>(
                    allowOrigin: .oneOf(origin),
                    allowHeaders: [
                        .accept, .authorization, .contentType, .ifNoneMatch, .idempotencyKey,
                        .userID,
                    ],
                    allowMethods: [.get, .head, .post, .put, .patch, .delete],
                    exposedHeaders: Self.exposed.map(\.rawName),
                    maxAge: .hours(1)
                )
            )
        }
        middleware = Dictionary(pairs) { first, _ in first }
    }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        guard let origin = request.headers[.origin], let allowed = middleware[origin] else {
            return try await next(request, context)
        }
        return try await allowed.handle(request, context: context, next: next)
    }
}
