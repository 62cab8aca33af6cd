import HTTPTypes
import Hummingbird
import SanguineAuthority
import SanguineModel

/// Requires an admin token for `/admin/v1`, or the cookie of a browser that signed in with one.
///
/// A right token is always accepted. Wrong ones are counted by address. Each route checks the role
/// of the token; see ``AdminRole``.
struct AdminGate: RouterMiddleware {
    /// The cookie of a browser that is signed in.
    static let cookie = "sanguine-admin"

    private let tokens: [AdminToken]
    private let clock: any WallClock
    private let wrongTokens: RateLimiter<String>

    init(tokens: [AdminToken], clock: any WallClock, delay: any Clock<Duration>) {
        self.tokens = tokens
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
        let token =
            if let authorization = request.headers[.authorization] {
                token(bearer: authorization)
            } else {
                request.headers[values: .cookie].lazy.compactMap(token(cookies:)).first
            }
        guard let token else { throw refusal(context) }
        context.exchange.administrator = Administrator(name: token.owner, role: token.role)
        return try await next(request, context)
    }

    /// Signs a browser in.
    ///
    /// - Returns: The value of `Set-Cookie`, for a cookie that scripts cannot read and other sites
    ///   cannot send.
    /// - Throws: `unauthenticated`, or `rate_limited` after too many wrong tokens.
    func signIn(with text: String, _ context: ServerContext) throws(Problem) -> String {
        guard let token = token(text) else { throw refusal(context) }
        let seconds = EdgeLimits.adminSessionSeconds
        let pass = token.pass(until: clock.now() + .seconds(seconds))
        return "\(Self.cookie)=\(pass); Path=/admin; Max-Age=\(seconds); HttpOnly; SameSite=Strict"
    }

    /// Returns the token with the text; all are compared, so that the time reveals nothing.
    private func token(_ text: String) -> AdminToken? {
        tokens.filter { $0.matches(text) }.first
    }

    private func token(bearer authorization: String) -> AdminToken? {
        let parts = authorization.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return token(String(parts[1]))
    }

    private func token(cookies: String) -> AdminToken? {
        let now = clock.now()
        for pair in cookies.split(separator: ";") {
            let parts = pair.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0] == Self.cookie else { continue }
            let pass = String(parts[1])
            if let token = tokens.filter({ $0.accepts(pass, at: now) }).first { return token }
        }
        return nil
    }

    private func refusal(_ context: ServerContext) -> Problem {
        guard !tokens.isEmpty else {
            return Problem(.unauthenticated, "Start the server with an admin token: it has none.")
        }
        let decision = wrongTokens.admit(context.address)
        guard decision.isAdmitted else {
            return Problem(
                .rateLimited,
                "Too many wrong tokens were sent. Send the right one after 'Retry-After'.",
                retryAfter: decision.retryAfterSeconds
            )
        }
        return Problem(
            .unauthenticated,
            "Send 'Authorization: Bearer' with the text of 'admin-token' in the data folder."
        )
    }
}

/// The bearer of an admin token.
struct Administrator: Hashable, Sendable {
    /// The name of the token.
    let name: String
    /// The rights of the token.
    let role: AdminRole

    /// Refuses a call that needs more rights.
    ///
    /// - Throws: `role_missing`.
    func require(_ least: AdminRole) throws(Problem) {
        guard role >= least else {
            throw Problem(
                .roleMissing,
                """
                Use an admin token with the role '\(least.rawValue)': this one has \
                '\(role.rawValue)'.
                """
            )
        }
    }
}
