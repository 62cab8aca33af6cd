import SanguineModel

/// A source of tokens for a backend; renews a token once for all requests that need it.
protocol TokenSource<Token>: AnyObject, Sendable {
    associatedtype Token: Sendable

    /// Returns a token that is valid as far as is known; signs in first if necessary.
    ///
    /// - Throws: ``SanguineError/userChanged`` if the user has left: a call that began before a
    ///   sign-out signs no user in after it.
    func accessToken() async throws(SanguineError) -> Token

    /// Returns a token after the backend has answered 401 to this one.
    ///
    /// All callers share one renewal.
    ///
    /// - Throws: The errors of ``accessToken()``.
    func rejected(_ token: Token) async throws(SanguineError) -> Token
}

extension TokenSource {
    /// Sends with a token, and once more with a new one if the first was rejected.
    ///
    /// - Parameters:
    ///   - isCured: Returns whether a new token may help against the problem.
    ///   - send: Sends with a token.
    /// - Returns: The result of `send`.
    /// - Throws: The error of `send`, or the reason why there is no token.
    func attempt<Answer>(
        curing isCured: (Problem) -> Bool,
        _ send: (Token) async throws(SanguineError) -> Answer
    ) async throws(SanguineError) -> Answer {
        let token = try await accessToken()
        do throws(SanguineError) {
            return try await send(token)
        } catch .problem(let problem) where isCured(problem) {
            return try await send(try await rejected(token))
        }
    }
}

/// Authenticates requests to the Sanguine server on behalf of one user, until that user leaves.
protocol Authorizer: TokenSource where Token == String {
    /// The user's account, once it is known.
    var account: Identifier? { get }

    /// The user's account, or the name that the app has given the user; `nil` until it is known.
    var owner: AccountKey? { get }

    /// Throws if requests on behalf of this user must not be sent, because the user has left.
    ///
    /// - Throws: ``SanguineError/userChanged`` or ``SanguineError/closed``.
    func check() throws(SanguineError)

    /// Ends the user's authorizer; all later requests are refused.
    func end(_ reason: SanguineError) -> Ended

    /// The authorizer of the current user, for types that choose it when a call begins.
    func bound() -> any Authorizer

    /// Whether a request may sign the user in.
    ///
    /// After a sign-out it may not, until the app requests something that needs an account: a
    /// record mutation, a call, an upload, `synchronize`, or a read that has to fetch. Observers,
    /// prefetches, reads that the cache answers, and a return to the foreground do not count.
    var maySignIn: Bool { get }

    /// Allows this request and later ones to sign the user in.
    func allowSignIn()

    /// Whether only the user's credentials begin another session.
    var needsSignIn: Bool { get }
}

/// The actions that remain after a user has left.
struct Ended: Sendable {
    /// The session to end on the server, if there was one.
    var session: StoredSession?
    /// Notifies waiting callers; called when the next user is current, so that their retries use
    /// it.
    var tell: @Sendable () -> Void = {}
}

extension Authorizer {
    var owner: AccountKey? { account.map { AccountKey($0) } }

    func bound() -> any Authorizer { self }

    var maySignIn: Bool { true }

    var needsSignIn: Bool { false }

    func allowSignIn() {}
}
