import Crypto
import SanguineModel

/// The commands that preview and perform the merge of a guest into an account.
///
/// Both make the same plan. A merge that was previewed compares its plan with that of the preview,
/// so that its outcome is the previewed one or nothing.
///
/// Invariants:
/// 1. All numbers that a merge gives in the account's feed are larger than every number that either
///    feed had before: an answer to the guest that is repeated to the account never looks newer
///    than the account's.
/// 2. The guest has no balance afterwards. So every command that addresses it by its id is refused.
/// 3. Only guests are merged, and only into registered accounts: an alias leads to an account that
///    is not an alias.
struct MergeCommands: Sendable {
    let settings: AuthoritySettings
    let quotas: QuotaCommands
    let now: Timestamp

    /// The result of a merge.
    struct Outcome: Sendable {
        /// The completed merge.
        var done: CompletedMerge
        /// The sessions of the guest that it ended; empty for a repetition.
        var ended: [Identifier]
        /// The session of the account that it opened; `nil` for a repetition.
        var opened: SessionRow?
        /// The sessions of the account beyond the limit, which it ended.
        var surplus: [Identifier] = []
    }

    /// Makes a plan, and changes nothing.
    func preview(_ guest: Identifier, into account: Identifier) -> Command<MergePreview> {
        var command = Command<MergePreview>(keys: keys(guest, account)) {
            loaded,
            reader throws(Problem) in
            if let row = loaded.account(guest), row.state != .active { throw .guestGone }
            let plan = try plan(guest, into: account, loaded, reader)
            return Decision(plan.preview)
        }
        command.isLong = true
        return command
    }

    /// Merges the guest.
    ///
    /// - Parameters:
    ///   - guest: The guest, with the session that performs the merge.
    ///   - device: The device of that session, which receives access to the account; `nil` if it is
    ///     not known. The guest's other devices lose theirs.
    ///   - account: The account.
    ///   - digest: The ``digest(of:)`` of the preview; `nil` to merge without one.
    ///   - proof: The proof of the guest's device, which a repetition does not need; `nil` if the
    ///     guest needs none.
    /// - Returns: The command. A repetition by the same session returns the first result.
    func merge(
        _ guest: Identity,
        _ device: String? = nil,
        into account: Identifier,
        expecting digest: [UInt8]? = nil,
        _ proof: FreshProof? = nil
    ) -> Command<Outcome> {
        let id = CompletedMerge.id(guest.account)
        let keys =
            keys(guest.account, account) + [CompletedMerge.key(id)]
            + (device.map { [.device($0)] } ?? []) + (proof.map { [$0.key] } ?? [])
        let others = SurplusSessions(of: account, kept: max(1, settings.sessionsPerAccount) - 1)
        var command = Command<Outcome>(keys: keys, surplus: others) {
            loaded,
            reader throws(Problem) in
            if let done = try loaded.document(CompletedMerge.self, id) {
                guard done.account == account, done.session == guest.session else {
                    throw .guestGone
                }
                return Decision(Outcome(done: done, ended: []))
            }
            if let proof, let row = loaded.account(guest.account), row.state == .active,
                row.profile.kind == .guest
            {
                try proof.check(loaded, in: row, at: now)
            }
            let plan = try plan(guest.account, into: account, loaded, reader)
            guard let to = loaded.account(account) else { throw .noAccount }
            if let digest, Self.digest(of: plan.preview) != digest { throw .mergeStale }
            let opened = IdentityCommands(settings: settings, now: now)
                .newSession(for: to, device: device)
            let done = CompletedMerge(
                guest: guest.account,
                account: account,
                session: guest.session,
                opened: opened.id,
                merged: plan.merged,
                head: plan.head,
                at: now
            )
            let surplus = IdentityCommands.ended(loaded.surplusSessions, at: now)
            var access: [Change] = []
            if let row = device.flatMap(loaded.device), row.account == guest.account {
                access = [.put(.device(row.withAccess(to: to)))]
            }
            return Decision(
                Outcome(
                    done: done,
                    ended: plan.ended,
                    opened: opened,
                    surplus: surplus.map(\.id)
                ),
                changes: plan.changes + (surplus + [opened]).map { .put(.session($0)) }
                    + access + [.put(done)]
            )
        }
        command.isLong = true
        return command
    }

    /// Returns the session that a merge opened, for the repetition of a merge with a preview's
    /// token.
    ///
    /// The token proves the account's credentials as of the preview. So it opens no second session,
    /// which would outlive a reset of the password or a sign-out everywhere.
    ///
    /// - Throws: `session_ended` if the session has ended or was used.
    func session(of done: CompletedMerge) -> Command<SessionRow> {
        Command(keys: [.session(done.opened)]) { loaded throws(Problem) in
            guard let session = loaded.session(done.opened), session.account == done.account,
                session.endedAt == nil, session.generation == 0, now < session.expiresAt
            else { throw .mergeSessionOver }
            return Decision(session)
        }
    }

    /// Returns the hash of everything that a preview states.
    static func digest(of preview: MergePreview) -> [UInt8] {
        Array(SHA256.hash(data: ResponseEncoder.encode(preview)))
    }

    private func keys(_ guest: Identifier, _ account: Identifier) -> [Key] {
        let names = settings.quotas.keys.sorted()
        return [account, guest].flatMap { id in
            [Key.account(id), .balance(id), .feed(id)] + names.map { .quota(id, name: $0) }
        }
    }

    private func plan(
        _ guest: Identifier,
        into account: Identifier,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> MergePlan {
        guard let from = loaded.account(guest), from.state == .active,
            let balance = loaded.balance(guest)
        else { throw .guestGone }
        guard from.profile.kind == .guest else { throw .onlyGuests }
        guard let to = loaded.account(account), to.state == .active,
            to.profile.kind == .registered, let target = loaded.balance(account)
        else { throw .noAccount }
        var plan = MergePlan(from: from, balance, to: to, target, now: now)
        do {
            try plan.make(settings, quotas, loaded, reader)
        } catch let problem as Problem {
            throw problem
        } catch {
            throw Problem(.internalFault, "Send the request again: it takes effect once.")
        }
        return plan
    }
}

extension Problem {
    fileprivate static var mergeSessionOver: Problem {
        Problem(
            .sessionEnded,
            "Sign in to the account: the guest was merged into it, and the session has ended."
        )
    }

    fileprivate static var onlyGuests: Problem {
        Problem(
            .invalidContent,
            """
            Sign out of this account first: only a guest can be merged, and a registered account \
            keeps its data.
            """
        )
    }
}
