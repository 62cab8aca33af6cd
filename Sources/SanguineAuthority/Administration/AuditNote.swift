package import SanguineModel

/// The part of an audit log entry that is known before the action.
package struct AuditNote: Hashable, Sendable {
    /// The name of the admin token.
    package var actor: String
    /// The role of the admin token.
    package var role: String
    /// The action, such as `account.grant`.
    package var action: String
    /// The account that the action concerns; `nil` if it concerns none.
    package var account: Identifier?
    /// The reason that the administrator gave.
    package var reason: String
    /// The details, such as the amount; `nil` if the action has none.
    package var detail: String?

    /// Creates a note.
    package init(
        actor: String,
        role: String,
        action: String,
        account: Identifier?,
        reason: String,
        detail: String? = nil
    ) {
        self.actor = actor
        self.role = role
        self.action = action
        self.account = account
        self.reason = reason
        self.detail = detail
    }

    /// Returns the entry after the newest one.
    func entry(after last: AuditRow?, outcome: String, at now: Timestamp) -> AuditRow {
        AuditRow(
            number: (last?.number ?? 0) + 1,
            previous: last?.hash ?? AuditRow.noHash,
            // A wall clock may have been set back; the times of the log never decrease.
            at: max(now, last?.at ?? now),
            actor: actor,
            role: role,
            action: action,
            account: account,
            reason: reason,
            outcome: outcome,
            detail: detail
        )
    }
}

extension Command {
    /// The command, which also adds an entry to the audit log if it changes anything.
    func audited(_ note: AuditNote, at now: Timestamp) -> Command<Outcome> {
        let decide = decide
        var command = Command(
            keys: keys + [.lastAudit],
            surplus: surplus,
            reading: {
                loaded,
                reader throws(Problem) in
                var decision = try decide(loaded, reader)
                guard !decision.changes.isEmpty else { return decision }
                let entry = note.entry(after: loaded.lastAudit, outcome: "done", at: now)
                decision.changes.append(.put(.audit(entry)))
                return decision
            }
        )
        command.isLong = isLong
        return command
    }

    /// The command, refused with `not_found` if an account whose balance it loads was deleted.
    ///
    /// A request that was admitted before a deletion can therefore add nothing after it.
    var refusingDeleted: Command<Outcome> {
        let accounts = keys.compactMap { key -> Identifier? in
            guard case .balance(let id) = key else { return nil }
            return id
        }
        guard !accounts.isEmpty else { return self }
        let decide = decide
        let missing = accounts.map(Key.account).filter { !keys.contains($0) }
        var command = Command(
            keys: keys + missing,
            surplus: surplus,
            reading: {
                loaded,
                reader throws(Problem) in
                for id in accounts where loaded.account(id)?.state == .deleted {
                    throw .noAccount
                }
                return try decide(loaded, reader)
            }
        )
        command.isLong = isLong
        return command
    }
}

extension Authority {
    /// Performs a command, and adds an entry to the audit log in the same transaction.
    ///
    /// A refused command changes nothing; its refusal is recorded by itself.
    func perform<Outcome>(
        _ command: Command<Outcome>,
        by note: AuditNote?
    ) async throws(Problem) -> Outcome {
        guard let note else { return try await perform(command) }
        do throws(Problem) {
            return try await perform(command.audited(note, at: clock.now()))
        } catch {
            if error.status < 500 { try await record(note, outcome: error.code.rawValue) }
            throw error
        }
    }

    /// Adds an entry to the audit log, for an act that changes nothing.
    package func record(_ note: AuditNote, outcome: String = "done") async throws(Problem) {
        let now = clock.now()
        try await perform(
            Command(keys: [.lastAudit]) { loaded in
                let entry = note.entry(after: loaded.lastAudit, outcome: outcome, at: now)
                return Decision((), changes: [.put(.audit(entry))])
            }
        )
    }
}
