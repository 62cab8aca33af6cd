extension SanguineClient {
    /// What a sign-out leaves on the device for the user's return.
    public enum Keeping: Hashable, Sendable {
        /// What waits in the outbox, and what was refused, for so long by the device's clock.
        ///
        /// After that it is removed, at the next launch, sign-in or sign-out. Default: 90 days, see
        /// ``ClientLimits/waitingOperationsKept``. A duration that is not positive keeps nothing.
        ///
        /// The clock may be wrong: between two launches, sign-ins or sign-outs at most 7 days
        /// count, see ``ClientLimits/countedGap``. A longer absence of the user from the device
        /// makes the time so much longer.
        case waitingOperations(for: Duration = ClientLimits.waitingOperationsKept)
        /// Nothing: what was not sent is lost.
        case nothing

        /// How long operations are kept, at most longer than any clock goes on.
        var duration: Duration {
            switch self {
            case .waitingOperations(let duration):
                min(max(duration, .zero), .hours(24 * 366 * 10_000))
            case .nothing: .zero
            }
        }
    }

    /// The user whom ``signIn(as:)`` has named; `nil` before it and after a sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and an id only when all that the client shows is
    /// this user's. It outlives the process. On a client with a Sanguine server it is `nil`, see
    /// ``accountId``.
    public var userID: String? { users.present.owner?.userID }

    /// Says who the user of the app's own backend is: cached values and operations are theirs.
    ///
    /// ```swift
    /// tokens.current = session.token
    /// try client.signIn(as: session.user.id)
    /// ```
    ///
    /// - If nobody is signed in, what the app has set, fetched and performed so far is the user's
    ///   from now on: a guest who becomes known keeps everything.
    /// - If this user is signed in, nothing happens: call it at each launch.
    /// - If another user is signed in, they are signed out first, as ``signOut(keeping:)`` does by
    ///   default.
    ///
    /// What the user has left waiting at an earlier sign-out is visible when this returns, and is
    /// sent. What is observed, and not known, is fetched. The client is this user's also after a
    /// restart: the call waits for the disk, some milliseconds.
    ///
    /// Call ``signOut(keeping:)`` before you give ``Configuration/baseHeaders`` another user's
    /// token.
    ///
    /// - Parameter userID: The id by which the backend knows the user, 1 to
    ///   ``ClientLimits/userIDBytes`` bytes without control characters. Compared by its bytes.
    /// - Throws: ``SanguineError``: ``SanguineError/signInRefused(_:)`` for such an id, and on a
    ///   client with a Sanguine server, whose sessions say who the user is;
    ///   ``SanguineError/store(_:)`` if the disk cannot keep who is there: nobody is signed in
    ///   then, and a user who was is signed out; ``SanguineError/closed``.
    public func signIn(as userID: String) throws(SanguineError) {
        if let refusal = configuration.refusal { throw refusal }
        guard configuration.server == nil else {
            throw .signInRefused(
                """
                The client has a Sanguine 'server', whose sessions say who the user is. Leave \
                signIn(as:) out, or create the client without 'server'
                """
            )
        }
        try users.signIn(as: Owner(userID: userID))
    }

    /// Signs the user out: ends the session and removes their balance, records and cached values,
    /// from memory and from the client's files, byte for byte.
    ///
    /// What they did and was not sent, or was refused, stays in the outbox for their return, as
    /// long as `keeping` says; nobody else sees or sends it, see ``Outbox/ofOthers``.
    ///
    /// All of that is done before this suspends, and an answer that arrives later changes nothing.
    /// Then a Sanguine server is told, once, for at most 8 seconds; if it cannot be reached, the
    /// session ends there by age.
    ///
    /// If the disk fails, what is left there is marked and not read again, neither now nor at the
    /// next launch; ``storeReport`` says that it failed.
    ///
    /// The device's identity stays. A guest of a Sanguine server who signs out and goes on is this
    /// device's guest again: the same account, with the same balance.
    ///
    /// - Parameter keeping: What stays on the device. Default: what waits to be sent, for 90 days.
    public nonisolated(nonsending) func signOut(
        keeping: Keeping = .waitingOperations()
    ) async {
        await users.signOut(keeping)
    }

    /// Removes everything that the client has kept on this device, of every user and of the device
    /// itself, from memory and from disk; what was not sent is lost.
    ///
    /// The user is signed out, and what users have left for their return is removed as well. So is
    /// what ``Policy/Audience`` calls the device's. Then the client goes on as a fresh one, in the
    /// same folder; the app's own files in there are left alone.
    ///
    /// With a Sanguine server the session ends as at a sign-out, and the device's identity is
    /// erased: whoever calls next is a new guest, and nobody comes back to the former guest's
    /// account.
    ///
    /// All of that is done before this suspends. A companion goes over to the fresh client by
    /// itself.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if not everything could be removed: it is not read
    ///   again, and to call this again removes the rest; ``SanguineError/closed``.
    public nonisolated(nonsending) func eraseLocalData() async throws(SanguineError) {
        try await users.erase()
    }
}
