import SanguineModel

/// Proves to the Sanguine server who asks: one user, for as long as they are there.
protocol Authorizer: AnyObject, Sendable {
    /// The user's account, once it is known.
    var account: Identifier? { get }

    /// Who the user is, once that is known: their account, or whom the app has named.
    var owner: Owner? { get }

    /// A token that is valid as far as is known; signs in first if need be.
    ///
    /// - Throws: ``SanguineError/userChanged`` if the user is gone: what was begun before a
    ///   sign-out signs nobody in after it.
    func accessToken() async throws(SanguineError) -> String

    /// Returns a token after the server has answered 401 to this one: refreshes once, for all.
    ///
    /// - Throws: As ``accessToken()`` does.
    func rejected(_ token: String) async throws(SanguineError) -> String

    /// Refuses what would be sent in the name of a user who is gone.
    ///
    /// - Throws: ``SanguineError/userChanged`` or ``SanguineError/closed``.
    func check() throws(SanguineError)

    /// The user is gone: refuses everything from now on.
    func end(_ reason: SanguineError) -> Ended

    /// Who asks, if that is decided when a call begins.
    func bound() -> any Authorizer
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
}
