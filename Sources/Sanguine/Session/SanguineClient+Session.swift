public import SanguineModel

extension SanguineClient {
    /// The id of the account that is signed in; `nil` before the first call of the server and after
    /// a sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and an account only when all that the client shows
    /// is this account's.
    public var accountId: Identifier? { users.present.session.account }
}
