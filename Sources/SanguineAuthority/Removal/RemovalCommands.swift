import Foundation
import SanguineModel

/// The commands that remove an account and the data of its person.
///
/// Invariants:
///
/// 1. The first commit ends all access: the account's state is stored as deleted, so neither a
///    token nor a device nor a login leads to it, and no other command changes it.
/// 2. Every step removes a bounded number of rows, and none that belongs to another account.
/// 3. A hold of a call stays until the call is settled. The ledger's entries stay forever; what can
///    still be spent is taken back at the end, so that sums stay right.
struct RemovalCommands: Sendable {
    let settings: AuthoritySettings
    let now: Timestamp

    /// The proof that the person asks for the deletion.
    enum Proof: Sendable {
        /// The caller proves it.
        case caller(FreshProof)
        /// An administrator decided it.
        case administrator
    }

    /// Ends all access to an account, and begins its removal.
    ///
    /// - Throws: `not_found`, or `credentials_invalid` without a fresh proof.
    func begin(
        _ account: Identifier,
        _ proof: Proof
    ) -> Command<(removal: Removal, head: Int64)> {
        var keys: [Key] = [.account(account), .balance(account)]
        if case .caller(let proof) = proof { keys.append(proof.key) }
        return Command(keys: keys) { loaded throws(Problem) in
            guard var row = loaded.account(account), row.state == .active,
                var feed = loaded.balance(account)
            else { throw .noAccount }
            if case .caller(let proof) = proof { try proof.check(loaded, in: row, at: now) }
            row.state = .deleted
            row.planExpiresAt = nil
            row.profile = row.profile.anonymous(settings)
            feed.head += 1
            row.seq = feed.head
            let removal = Removal(account: account, startedAt: now)
            return Decision(
                (removal, feed.head),
                changes: [.put(.account(row)), .put(.balance(feed)), .put(removal)]
            )
        }
    }

    /// Removes rows of a deleted account, or of a guest whose data the account has.
    ///
    /// - Returns: The sessions that it ended.
    func remove(
        _ rows: [Row],
        of account: Identifier,
        ownedBy owner: Identifier
    ) -> Command<[Identifier]> {
        let open = Removal.openID(account)
        let keys = [Removal.key(open), .feed(owner)] + rows.map(\.key)
        var command = Command<[Identifier]>(keys: keys) { loaded throws(Problem) in
            guard var removal = try loaded.document(Removal.self, open) else { return Decision([]) }
            var changes: [Change] = []
            var ended: [Identifier] = []
            var grants: [Change] = []
            var feed = loaded.feed(owner)
            for row in rows {
                switch row.key {
                case .session(let id):
                    guard var session = loaded.session(id), session.account == owner,
                        session.endedAt == nil
                    else { continue }
                    session.endedAt = now
                    ended.append(id)
                    changes.append(.put(.session(session)))
                case .device(let id) where loaded.device(id)?.account == owner:
                    changes.append(.delete(row.key))
                    grants.append(.put(DeviceGrant(device: id, at: now)))
                case .quota(owner, let id) where loaded.quota(owner, name: id) != nil:
                    changes.append(.delete(row.key))
                case .operation(owner, let key):
                    guard let found = loaded.operation(owner, key: key) else { continue }
                    if case .running = found.state { continue }
                    changes.append(.delete(row.key))
                case .result(let key) where loaded.result(key)?.account == owner:
                    changes.append(.delete(row.key))
                case .document(let kind, let id) where loaded.document(kind, id)?.account == owner:
                    guard removal.add(CompletedMerge.guest(of: row)) else { continue }
                    changes.append(.delete(row.key))
                case .blob(owner, let id):
                    guard let blob = loaded.blob(owner, id) else { continue }
                    let taken = feed?.bytes ?? 0
                    feed?.bytes = max(0, taken - blob.storedBytes)
                    changes.append(.delete(row.key))
                default: continue
                }
            }
            guard !changes.isEmpty else { return Decision([]) }
            removal.removed += changes.count
            if let feed, feed != loaded.feed(owner) { changes.append(.put(.feed(feed))) }
            return Decision(ended, changes: changes + grants + [.put(removal)])
        }
        command.isLong = true
        return command
    }

    /// Ends the removal of a guest's rows, and removes its profile.
    func endAlias(_ alias: Identifier, of account: Identifier) -> Command<Void> {
        let open = Removal.openID(account)
        return Command(keys: [Removal.key(open), .account(alias)]) { loaded throws(Problem) in
            guard var removal = try loaded.document(Removal.self, open) else { return Decision(()) }
            removal.aliases?.removeAll { $0 == alias }
            var changes = [Change.put(removal)]
            if var row = loaded.account(alias), case .merged = row.state {
                row.profile = row.profile.anonymous(settings)
                row.planExpiresAt = nil
                changes.append(.put(.account(row)))
            }
            return Decision((), changes: changes)
        }
    }

    /// Removes records of a deleted account.
    ///
    /// A record that others could read leaves a tombstone, which reserves its id and is removed
    /// with other tombstones. Other records are removed with their tombstones.
    func remove(_ records: [RecordRow], of account: Identifier) -> Command<Void> {
        let open = Removal.openID(account)
        let keys =
            [Removal.key(open), .balance(account), .feed(account)]
            + records.map { Key.record($0.name) }
        var command = Command<Void>(keys: keys) { loaded, reader throws(Problem) in
            guard var removal = try loaded.document(Removal.self, open),
                var balance = loaded.balance(account)
            else { return Decision(()) }
            var changes: [Change] = []
            var tallies = RecordTallies(settings.schema)
            var feed = loaded.feed(account) ?? FeedRow(account: account)
            for name in records.map(\.name) {
                guard var row = loaded.record(name), row.owner == account else { continue }
                guard row.isLive || name.scope != nil else { continue }
                changes += index(of: row).map(Change.unindex)
                uncount(row, in: &tallies, reader)
                feed.bytes = max(0, feed.bytes - row.storedBytes)
                if row.isLive {
                    feed.records = max(0, feed.records - 1)
                    if name.isThread { feed.threads = max(0, feed.threads - 1) }
                } else {
                    feed.tombstones = max(0, feed.tombstones - 1)
                }
                removal.removed += 1
                guard name.scope == nil else {
                    feed.horizon = max(feed.horizon, row.seq)
                    changes.append(.delete(.record(name)))
                    continue
                }
                balance.head += 1
                (row.value, row.deletedAt, row.updatedAt) = ([], now, now)
                (row.seq, row.through) = (balance.head, balance.head)
                feed.tombstones += 1
                feed.bytes += row.storedBytes
                changes.append(.put(.record(row)))
            }
            guard !changes.isEmpty else { return Decision(()) }
            return Decision(
                (),
                changes: changes + tallies.changes
                    + [.put(.feed(feed)), .put(.balance(balance)), .put(removal)]
            )
        }
        command.isLong = true
        return command
    }

    private func uncount(
        _ row: RecordRow,
        in tallies: inout RecordTallies,
        _ reader: any RecordReader
    ) {
        guard row.isLive else { return }
        if let collection = settings.schema.collection(row.name.collection) {
            // If the storage fails, it aborts the command.
            try? tallies.count(collection, from: row.liveFields, to: nil, reader)
        }
        tallies.remove(row.name.id, of: row.name.collection)
    }

    private func index(of row: RecordRow) -> Set<IndexEntry> {
        guard row.isLive, let collection = settings.schema.collection(row.name.collection) else {
            return []
        }
        // A record that is not JSON was indexed without members.
        let fields = (try? RecordValue(json: Data(row.value)).fields()) ?? [:]
        return collection.entries(of: row.name.id, owner: row.owner, fields)
    }

    /// Releases a hold that a client placed.
    func release(_ id: Identifier, of account: Identifier) -> Command<Void> {
        Command(keys: [.balance(account), .hold(id)]) { loaded in
            guard let balance = loaded.balance(account), var hold = loaded.hold(id),
                hold.account == account, hold.state == .open, hold.operation == nil
            else { return Decision(()) }
            var draft = LedgerDraft(balance, now: now)
            draft.release(hold)
            hold.state = .released
            return Decision((), changes: draft.changes + [.put(.hold(hold))])
        }
    }

    /// Takes back what can still be spent, and ends the removal.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - begin: The time at which the walk through all rows began that found nothing left.
    /// - Returns: The finished removal; `nil` while tokens are held, or if requests may have added
    ///   rows since the walk.
    func finish(_ account: Identifier, walkedFrom begin: Timestamp) -> Command<Removal?> {
        let open = Removal.openID(account)
        return Command(keys: [Removal.key(open), .balance(account)]) { loaded throws(Problem) in
            guard var removal = try loaded.document(Removal.self, open),
                let balance = loaded.balance(account)
            else { return Decision(nil) }
            guard balance.held == 0, removal.startedAt + Removal.quietTime <= begin,
                removal.aliases?.isEmpty ?? true
            else { return Decision(nil) }
            var draft = LedgerDraft(balance, now: now)
            let rest = draft.balance.available
            if rest > 0 { try draft.debit(rest, reason: "account deleted") }
            removal.finishedAt = now
            return Decision(
                removal,
                changes: draft.changes + [.delete(Removal.key(open)), .put(removal)]
            )
        }
    }
}

extension Account {
    /// The profile without anything that the person or their device has set.
    func anonymous(_ settings: AuthoritySettings) -> Account {
        Account(
            id: id,
            kind: kind,
            timeZone: settings.defaultTimeZone,
            language: settings.defaultLanguage,
            createdAt: createdAt
        )
    }
}
