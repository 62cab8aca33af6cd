import SanguineModel

extension Authority {
    /// The time for which the token of a preview is valid: 10 minutes.
    static let mergeTokenLife = Duration.seconds(600)

    /// Describes the merge of a guest into an account, for a caller who has proved both.
    ///
    /// - Parameters:
    ///   - guest: The guest.
    ///   - account: The account of checked credentials.
    /// - Returns: The preview, and the token that performs the merge as previewed.
    /// - Throws: `invalid_content` if the caller is registered, `session_ended` if the guest is
    ///   gone, `not_found` if the account is, `operation_in_progress`.
    func previewMerge(
        of guest: Identity,
        into account: Identifier
    ) async throws(Problem) -> MergeOffer {
        let preview = try await perform(mergeCommands.preview(guest.account, into: account))
        let expiresAt = clock.now() + Self.mergeTokenLife
        let offer = MergeTicket(
            account: account,
            expiresAt: expiresAt,
            digest: MergeCommands.digest(of: preview)
        )
        return MergeOffer(
            preview: preview,
            mergeToken: try cursors.text(offer.text, list: Self.ticketList, account: guest.account),
            expiresAt: expiresAt
        )
    }

    /// Merges a guest as its preview described.
    ///
    /// - Parameters:
    ///   - guest: The guest.
    ///   - request: The token of the preview.
    /// - Returns: The account with a new session and what it received, and the head that includes
    ///   it.
    /// - Throws: `invalid_content` for a token that is not one of this guest, `merge_stale`, or see
    ///   ``merge(_:into:expecting:refreshToken:)``.
    func merge(
        _ guest: Identity,
        _ request: MergeRequest
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        guard
            let text = try? cursors.position(
                request.mergeToken,
                list: Self.ticketList,
                account: guest.account
            ), let ticket = MergeTicket(text)
        else {
            throw Problem(
                .invalidContent,
                "Set 'mergeToken' to that of a preview which was requested with this access token."
            )
        }
        guard clock.now() < ticket.expiresAt else { throw .mergeStale }
        return try await merge(
            guest,
            into: ticket.account,
            expecting: ticket.digest,
            refreshToken: request.refreshToken
        )
    }

    /// Merges a guest into an account, and signs in to the account.
    ///
    /// - Parameters:
    ///   - guest: The guest.
    ///   - account: The account of checked credentials.
    ///   - digest: The hash of the preview; `nil` to merge without one, for a caller whose
    ///     credentials were checked just now.
    ///   - refreshToken: The newest refresh token of the guest, as the proof that its device asks.
    ///     Not checked unless ``AuthoritySettings/guestsNeedProof``. Default: none.
    /// - Returns: The account with a session and what it received, and the head that includes it. A
    ///   repetition with a preview receives the session that the merge opened.
    /// - Throws: `credentials_invalid` without a proof that the guest needs, `invalid_content` if
    ///   the caller is registered, `session_ended` if the guest is gone, or for a repetition the
    ///   session, `not_found` if the account is, `operation_in_progress`, `merge_stale`.
    func merge(
        _ guest: Identity,
        into account: Identifier,
        expecting digest: [UInt8]? = nil,
        refreshToken: String? = nil
    ) async throws(Problem) -> (SignedIn, head: Int64) {
        // Without the setting, a thief would send none, and a lost refresh may have made it old.
        let proof = try settings.guestsNeedProof ? proof(refreshToken, of: guest) : nil
        let caller = try await caller(guest, proof)
        let command = mergeCommands.merge(
            guest,
            caller.device,
            into: account,
            expecting: digest,
            caller.proof
        )
        let outcome = try await perform(command)
        for session in outcome.ended { tokens.end(session) }
        for session in outcome.surplus { tokens.end(session, of: account) }
        merges.notify(guest.account, account)
        var signedIn: SignedIn
        if outcome.opened == nil, digest == nil {
            signedIn = try await signIn(account).signedIn
        } else {
            var session = outcome.opened
            if session == nil {
                session = try await perform(mergeCommands.session(of: outcome.done))
            }
            guard let session else { throw .guestGone }
            signedIn = SignedIn(
                account: try await self.account(account).0,
                session: try await issue(session)
            )
        }
        signedIn.merged = outcome.done.merged
        return (signedIn, outcome.done.head)
    }

    /// Returns the account into which a guest was merged or that its device has joined; `nil` if
    /// there is none.
    ///
    /// That account may be a guest that was merged later, so that a device can be several steps
    /// away from the account of its person.
    func alias(of guest: Identifier) async throws(Problem) -> Identifier? {
        var (current, steps) = (guest, 0)
        while steps < Self.aliasSteps {
            let id = current
            let row = try await read { storage throws(StorageError) in
                try await storage.load([.account(id)])
            }.account(id)
            guard case .merged(let account) = row?.state else { break }
            (current, steps) = (account, steps + 1)
        }
        return steps == 0 ? nil : current
    }

    /// Returns those of some guests that have become a part of an account: by a merge, or because
    /// their device has joined it.
    func guests(
        of account: Identifier,
        among ids: [Identifier]
    ) async throws(Problem) -> Items<FormerGuest> {
        var items: [FormerGuest] = []
        for id in ids where try await alias(of: id) == account { items.append(FormerGuest(id: id)) }
        return Items(items: items)
    }

    /// The number of merges that lead from a guest to its account: 64.
    static let aliasSteps = 64

    /// Performs a command of an account, or that of the account into which it was merged.
    ///
    /// A command refuses a merged guest with `not_found`, because it has no balance.
    func following<Outcome>(
        _ account: Identifier,
        _ command: (Identifier) -> Command<Outcome>
    ) async throws(Problem) -> Outcome {
        try await following(account, command) { command throws(Problem) in
            try await perform(command)
        }
    }

    /// Performs a command in some way, for an account or the account into which it was merged.
    func following<Outcome>(
        _ account: Identifier,
        _ command: (Identifier) -> Command<Outcome>,
        performing: (Command<Outcome>) async throws(Problem) -> Outcome
    ) async throws(Problem) -> Outcome {
        var current = account
        // An account that a guest has joined may be a guest that is merged in the meantime.
        return try await lookingAgain { () async throws(Problem) -> Outcome? in
            do throws(Problem) {
                return try await performing(command(current))
            } catch {
                guard error.code == .notFound, let other = try await alias(of: current) else {
                    throw error
                }
                current = other
                return nil
            }
        }
    }

    /// Returns the account and the guests that were merged into it: the owners of its ledger.
    func ledgerOwners(of account: Identifier) async throws(Problem) -> [Identifier] {
        let limit = max(1, settings.mergedGuestsPerAccount)
        let rows = try await read { storage throws(StorageError) in
            try await storage.documents(DocumentQuery(.merge, of: account, limit: limit))
        }
        return [account] + rows.compactMap { Identifier($0.id) }
    }

    /// Returns the transfers of an account and of the guests that were merged into it, newest
    /// first.
    ///
    /// See ``Storage/transfers(of:before:limit:)``.
    func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(Problem) -> [NumberedTransfer] {
        let owners = try await ledgerOwners(of: account)
        return try await read { storage throws(StorageError) in
            try await storage.transfers(ofAll: owners, before: number, limit: limit)
        }
    }

    private static let ticketList = "merge"

    private var mergeCommands: MergeCommands {
        MergeCommands(settings: settings, quotas: quota, now: clock.now())
    }
}

/// The content of a preview's token, which is sealed and bound to the guest.
struct MergeTicket: Hashable, Sendable {
    /// The account, whose credentials were checked for the preview.
    var account: Identifier
    /// The time at which the token becomes stale.
    var expiresAt: Timestamp
    /// The hash of the preview, which includes the heads of both feeds.
    var digest: [UInt8]

    /// The token's text.
    var text: String {
        "\(account) \(expiresAt.millisecondsSince1970) \(Base64URL.encode(digest))"
    }
}

extension MergeTicket {
    /// Parses the token's text.
    init?(_ text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 3, let account = Identifier(String(parts[0])),
            let end = Int64(parts[1]), let digest = Base64URL.decode(parts[2])
        else { return nil }
        self.init(
            account: account,
            expiresAt: Timestamp(millisecondsSince1970: end),
            digest: Array(digest)
        )
    }
}
