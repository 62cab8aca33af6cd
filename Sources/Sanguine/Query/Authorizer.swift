import SanguineModel

/// Gives what proves to a backend who asks, and renews it once for all who need it.
protocol TokenSource<Token>: AnyObject, Sendable {
    associatedtype Token: Sendable

    /// A token that is valid as far as is known; signs in first if need be.
    ///
    /// - Throws: ``SanguineError/userChanged`` if the user is gone: what was begun before a
    ///   sign-out signs nobody in after it.
    func accessToken() async throws(SanguineError) -> Token

    /// Returns a token after the backend has answered 401 to this one: refreshes once, for all.
    ///
    /// - Throws: As ``accessToken()`` does.
    func rejected(_ token: Token) async throws(SanguineError) -> Token
}

extension TokenSource {
    /// Sends with a token; once more with a new one if the first was not accepted.
    ///
    /// - Parameters:
    ///   - isCured: Whether a new token may help against the problem.
    ///   - send: Sends with that token.
    /// - Returns: What `send` returned.
    /// - Throws: What `send` threw, or why there is no token.
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

/// Proves to the Sanguine server who asks: one user, for as long as they are there.
protocol Authorizer: TokenSource where Token == String {
    /// The user's account, once it is known.
    var account: Identifier? { get }

    /// Who the user is, once that is known: their account, or whom the app has named.
    var owner: Owner? { get }

    /// Refuses what would be sent in the name of a user who is gone.
    ///
    /// - Throws: ``SanguineError/userChanged`` or ``SanguineError/closed``.
    func check() throws(SanguineError)

    /// The user is gone: refuses everything from now on.
    func end(_ reason: SanguineError) -> Ended

    /// Who asks, if that is decided when a call begins.
    func bound() -> any Authorizer

    /// Whether a request may sign the user in.
    ///
    /// Not after a sign-out, until the app asks for something that needs an account: observing and
    /// reading do not.
    var maySignIn: Bool { get }

    /// Allows the next request to sign the user in: the app has asked for something.
    func allowSignIn()
}

/// What the end of a user leaves to be done.
struct Ended: Sendable {
    /// The session to end on the server, if there was one.
    var session: StoredSession?
    /// Tells those who waited; when the next user is there, so that whoever tries again finds them.
    var tell: @Sendable () -> Void = {}
}

extension Authorizer {
    var owner: Owner? { account.map { Owner($0) } }

    func bound() -> any Authorizer { self }

    var maySignIn: Bool { true }

    func allowSignIn() {}
}
