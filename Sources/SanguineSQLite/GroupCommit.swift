import SanguineAuthority
import SanguineModel

/// Performs many commands in one transaction, so that they share one write to the disk.
///
/// Invariants:
/// 1. A command sees the changes of earlier commands, and of no later ones.
/// 2. No command is answered before the commit returns.
/// 3. A command that cannot be stored does not affect others: the transaction is rolled back, and
///    its two halves are retried separately, down to single commands. Decisions are pure, so making
///    them again is harmless; and the usual case has no overhead, whereas a savepoint for each
///    command would copy every page that it touches.
struct GroupCommit {
    let connection: WriteConnection
    let cache: CommittedCache
    /// Called after every commit.
    let didCommit: (_ commands: Int) -> Void

    func perform(_ commands: ArraySlice<any QueuedCommand>) {
        do {
            try connection.beginTransaction()
        } catch {
            for command in commands { command.fail(error.asStorageError) }
            return
        }
        var draft = CommittedCache.Draft()
        var verdicts: [Verdict] = []
        verdicts.reserveCapacity(commands.count)
        do {
            for command in commands {
                var loaded = try load(command.keys, over: draft)
                if let surplus = command.surplus {
                    loaded.surplusSessions = try connection.sessions(surplus)
                }
                let verdict = command.decide(loaded, connection.records)
                try connection.records.check()
                for change in verdict.changes {
                    try connection.store(change)
                    draft.record(change)
                }
                verdicts.append(verdict)
            }
        } catch {
            connection.rollBack()
            retryHalves(of: commands, after: error)
            return
        }
        commit(commands, verdicts: verdicts, draft: draft)
    }

    private func retryHalves(of commands: ArraySlice<any QueuedCommand>, after error: SQLFailure) {
        guard commands.count > 1 else {
            for command in commands { command.fail(error.asStorageError) }
            return
        }
        let middle = commands.startIndex + commands.count / 2
        perform(commands[..<middle])
        perform(commands[middle...])
    }

    private func commit(
        _ commands: ArraySlice<any QueuedCommand>,
        verdicts: [Verdict],
        draft: CommittedCache.Draft
    ) {
        if !draft.isEmpty { cache.commitBegins(draft) }
        do {
            try connection.commit()
        } catch {
            connection.rollBack()
            if !draft.isEmpty { cache.commitEnded(draft, committed: false) }
            for command in commands { command.fail(error.asCommitError) }
            return
        }
        if !draft.isEmpty { cache.commitEnded(draft, committed: true) }
        didCommit(commands.count)
        for verdict in verdicts { verdict.answer() }
    }

    private func load(
        _ keys: [Key],
        over draft: CommittedCache.Draft
    ) throws(SQLFailure) -> Loaded {
        var loaded = Loaded()
        for key in keys {
            if let row = try row(key, over: draft) { loaded.add(row) }
        }
        return loaded
    }

    private func row(_ key: Key, over draft: CommittedCache.Draft) throws(SQLFailure) -> Row? {
        switch key {
        case .account(let id):
            if let drafted = draft.accounts[id] { return drafted.map(Row.account) }
        case .balance(let id):
            if let drafted = draft.balances[id] { return drafted.map(Row.balance) }
        default:
            return try connection.rows.row(key)
        }
        if let row = cache.row(key) { return row }
        guard let row = try connection.rows.row(key) else { return nil }
        cache.fill(row)
        return row
    }
}
