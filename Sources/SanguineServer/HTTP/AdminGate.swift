import HTTPTypes
import Hummingbird
import SanguineAuthority
import SanguineModel

/// Requires the admin token for `/admin/v1`, or the cookie of a browser that signed in with it.
///
/// The right token is always accepted. Wrong ones are counted by address.
struct AdminGate: RouterMiddleware {
    /// The cookie of a browser that is signed in.
    static let cookie = "sanguine-admin"

    private let token: AdminToken?
    private let clock: any WallClock
    private let wrongTokens: RateLimiter<String>

    init(token: AdminToken?, clock: any WallClock, delay: any Clock<Duration>) {
        self.token = token
        self.clock = clock
        wrongTokens = RateLimiter(
            policy: RatePolicy(name: "admin", limit: EdgeLimits.wrongAdminTokens),
            clock: delay
        )
    }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let isKnown =
            if let authorization = request.headers[.authorization] {
                isRight(bearer: authorization)
            } else {
                request.headers[values: .cookie].contains(where: isRight(cookies:))
            }
        guard isKnown else { throw refusal(context) }
        return try await next(request, context)
    }

    /// Signs a browser in.
    ///
    /// - Returns: The value of `Set-Cookie`, for a cookie that scripts cannot read and other sites
    ///   cannot send.
    /// - Throws: `unauthenticated`, or `rate_limited` after too many wrong tokens.
    func signIn(with text: String, _ context: ServerContext) throws(Problem) -> String {
        guard let token, token.matches(text) else { throw refusal(context) }
        let seconds = EdgeLimits.adminSessionSeconds
        let pass = token.pass(until: clock.now() + .seconds(seconds))
        return "\(Self.cookie)=\(pass); Path=/admin; Max-Age=\(seconds); HttpOnly; SameSite=Strict"
    }

    private func isRight(bearer authorization: String) -> Bool {
        let parts = authorization.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return false }
        return token?.matches(String(parts[1])) == true
    }

    private func isRight(cookies: String) -> Bool {
        guard let token else { return false }
        return cookies.split(separator: ";").contains { pair in
            let parts = pair.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            return parts.count == 2 && parts[0] == Self.cookie
                && token.accepts(String(parts[1]), at: clock.now())
        }
    }

    private func refusal(_ context: ServerContext) -> Problem {
        guard token != nil else {
            return Problem(.unauthenticated, "Start the server with an admin token: it has none.")
        }
        let decision = wrongTokens.admit(context.address)
        guard decision.isAdmitted else {
            return Problem(
                .rateLimited,
                "Wait for 'Retry-After', then send the right token.",
                retryAfter: decision.retryAfterSeconds
            )
        }
        return Problem(
            .unauthenticated,
            "Send 'Authorization: Bearer' with the text of 'admin-token' in the data folder."
        )
    }
}
