public import SanguineModel

extension SanguineClient {
    /// The id of the signed-in account; `nil` before the first call of the server and after a
    /// sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and set once everything that the client shows
    /// belongs to this account.
    public var accountId: Identifier? { users.current.session.account }
}
