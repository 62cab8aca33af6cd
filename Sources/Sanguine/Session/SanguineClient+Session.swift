public import SanguineModel

extension SanguineClient {
    /// The id of the account that is signed in; `nil` before the first call of the server and after
    /// a sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and an account only when all that the client shows
    /// is this account's.
    public var accountId: Identifier? { users.present.session.account }

    /// Signs the user out: ends the session and removes their balance, records and cached values,
    /// from memory and from the client's files, byte for byte.
    ///
    /// What they did and was not sent, or was refused, stays in the outbox for their return; nobody
    /// else sees or sends it, see ``Outbox/ofOthers``.
    ///
    /// All of that is done before this suspends, and an answer that arrives later changes nothing.
    /// Then the server is told, once, for at most 8 seconds; if it cannot be reached, the session
    /// ends there by age.
    ///
    /// If the disk fails, what is left there is marked and not read again, neither now nor at the
    /// next launch; ``storeReport`` says that it failed.
    ///
    /// The device's identity stays. A guest who signs out and goes on is this device's guest again:
    /// the same account, with the same balance.
    public nonisolated(nonsending) func signOut() async {
        await users.signOut()
    }
}
