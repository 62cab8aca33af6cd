extension SanguineClient {
    /// The data that a sign-out keeps on the device for the user's return.
    public enum Keeping: Hashable, Sendable {
        /// Operations that wait in the outbox or were refused, for this long according to the
        /// device's clock.
        ///
        /// They are removed at the first launch, sign-in or sign-out after that. Default: 90 days,
        /// see ``ClientLimits/waitingOperationsKept``. With a duration of zero or less, nothing is
        /// kept.
        ///
        /// The clock may be wrong: at most 7 days count between two launches, sign-ins or
        /// sign-outs, see ``ClientLimits/countedGap``. If the user is away for longer, the
        /// operations are kept for correspondingly longer.
        case waitingOperations(for: Duration = ClientLimits.waitingOperationsKept)
        /// Nothing: operations that were not sent are lost.
        case nothing

        /// The time for which operations are kept, bounded to what any clock can reach.
        var duration: Duration {
            switch self {
            case .waitingOperations(let duration):
                min(max(duration, .zero), .hours(24 * 366 * 10_000))
            case .nothing: .zero
            }
        }
    }

    /// The id that ``signIn(as:)`` was called with; `nil` before the call and after a sign-out.
    ///
    /// It is `nil` as soon as a sign-out begins, and set once everything that the client shows
    /// belongs to this user. It survives a restart. On a client with a Sanguine server it is `nil`;
    /// see ``accountId``.
    public var userID: String? { users.current.owner?.userID }

    /// Signs in a user of the app's own backend, who owns cached values and operations afterwards.
    ///
    /// ```swift
    /// tokens.current = session.token
    /// try client.signIn(as: session.user.id)
    /// ```
    ///
    /// - If no user is signed in, the user takes over the values and operations that the app has
    ///   set, fetched and performed so far: a guest who signs in keeps everything.
    /// - If this user is signed in, nothing happens: call it at each launch.
    /// - If another user is signed in, they are signed out first, as ``signOut(keeping:)`` does by
    ///   default.
    ///
    /// When the method returns, operations that the user left at an earlier sign-out are visible,
    /// and the client sends them. Observed queries without a value are fetched. The user is also
    /// stored for the next launch, so the call waits a few milliseconds for the disk.
    ///
    /// Call ``signOut(keeping:)`` before ``Configuration/baseHeaders`` returns another user's
    /// token.
    ///
    /// - Parameter userID: The id of the user in the backend, 1 to ``ClientLimits/userIDBytes``
    ///   bytes without control characters. Ids are compared by their bytes.
    /// - Throws: ``SanguineError``: ``SanguineError/signInRefused(_:)`` if the id is not valid, or
    ///   if the client has a Sanguine server, whose sessions identify the user;
    ///   ``SanguineError/store(_:)`` if the user cannot be stored: then no user is signed in, and a
    ///   previous one is signed out; ``SanguineError/closed``.
    public func signIn(as userID: String) throws(SanguineError) {
        if let refusal = configuration.refusal { throw refusal }
        guard configuration.server == nil else {
            throw .signInRefused(
                """
                The client has a Sanguine 'server', whose sessions determine the user. Leave \
                signIn(as:) out, or create the client without 'server'
                """
            )
        }
        try users.signIn(as: AccountKey(userID: userID))
    }

    /// Signs the user out: ends the session and removes their balance, records and cached values
    /// from memory and from the client's files, byte for byte.
    ///
    /// Operations that were not sent, or were refused, stay in the outbox until the user returns,
    /// for as long as `keeping` says. No other user sees or sends them; see ``Outbox/ofOthers``.
    ///
    /// All of this is done before the method suspends, and a response that arrives later changes
    /// nothing. Then the client ends the session on the Sanguine server, in one attempt of at most
    /// 8 seconds. If the server cannot be reached, the session expires there.
    ///
    /// If the disk fails, the remaining data is marked and not read again, neither now nor at the
    /// next launch; ``storeReport`` contains the failure.
    ///
    /// The device's identity stays. A guest of a Sanguine server who signs out and continues is
    /// this device's guest again, with the same account and the same balance.
    ///
    /// - Parameter keeping: The data that stays on the device. Default: waiting operations, for 90
    ///   days.
    public nonisolated(nonsending) func signOut(
        keeping: Keeping = .waitingOperations()
    ) async {
        await users.signOut(keeping)
    }

    /// Removes all data of the client from memory and from disk, of every user and of the device;
    /// operations that were not sent are lost.
    ///
    /// The user is signed out, and operations that former users left for their return are removed,
    /// as are the values with the device's ``Policy/Audience``. The client then continues like a
    /// new one, in the same folder. It does not touch the app's own files there.
    ///
    /// With a Sanguine server, the session ends as in a sign-out, and the device's identity is
    /// erased: the next call signs in a new guest, and the former guest's account can no longer be
    /// reached.
    ///
    /// All of this is done before the method suspends. A companion switches to the fresh client on
    /// its own.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if some data could not be removed: it is not read
    ///   again, and another call removes it; ``SanguineError/closed``.
    public nonisolated(nonsending) func eraseLocalData() async throws(SanguineError) {
        try await users.erase()
    }
}
