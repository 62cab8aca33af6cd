import Foundation
import SanguineModel

/// Everything that a merge changes, and its description.
struct MergePlan {
    private let guest: AccountRow
    private let guestBalance: BalanceRow
    private let now: Timestamp
    private var account: AccountRow
    private let accountBalance: BalanceRow

    /// The changes to store, in order.
    private(set) var changes: [Change] = []
    /// The head of the account's feed afterwards.
    private(set) var head: Int64
    /// Whether the account receives the guest's plan.
    private var upgradesPlan = false
    /// The guest's sessions, which end.
    private(set) var ended: [Identifier] = []
    private(set) var preview: MergePreview
    private(set) var merged: MergedGuest

    init(
        from guest: AccountRow,
        _ guestBalance: BalanceRow,
        to account: AccountRow,
        _ accountBalance: BalanceRow,
        now: Timestamp
    ) {
        self.guest = guest
        self.guestBalance = guestBalance
        self.account = account
        self.accountBalance = accountBalance
        self.now = now
        // The guest's last transfers have the next number of its feed.
        head = max(accountBalance.head, guestBalance.head + 1)
        preview = MergePreview(
            guest: guest.id,
            account: account.profile,
            records: 0,
            conflictCount: 0,
            conflicts: [],
            tokens: MergePreview.Tokens(
                moved: guestBalance.available,
                held: guestBalance.held,
                available: guestBalance.available + accountBalance.available
            ),
            quotas: [],
            blobs: 0,
            bytes: 0,
            guestHead: guestBalance.head,
            accountHead: accountBalance.head
        )
        merged = MergedGuest(from: guest.id, records: 0, balances: 0, blobs: 0)
    }

    /// Makes the plan.
    ///
    /// - Throws: `operation_in_progress`, `invalid_content`, or the storage's error.
    mutating func make(
        _ settings: AuthoritySettings,
        _ quotas: QuotaCommands,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws {
        let theirs = try reader.ownedRows(of: guest.id)
        let own = try reader.ownedRows(of: account.id)
        try check(theirs, own, settings, reader)
        try moveRecords(theirs, own, settings, loaded, reader)
        upgradePlan(PlanSources.passes(in: theirs.documents + own.documents))
        let holds = moveQuotas(theirs, own, quotas, loaded)
        try moveDocuments(theirs, own, reader)
        moveTokens()
        changes += holds.map { .put(.hold($0)) }
        changes.append(.rehome(Rehoming(of: guest.id, to: account.id, head: head)))
        changes.append(
            .pruneResults(of: account.id, keeping: settings.resultsKept(isPublic: false))
        )
        endGuest(theirs.sessions, settings)
    }

    private func check(
        _ theirs: OwnedRows,
        _ own: OwnedRows,
        _ settings: AuthoritySettings,
        _ reader: any RecordReader
    ) throws {
        let merges = own.documents.count { $0.kind == .merge && Identifier($0.id) != nil }
        guard merges < max(1, settings.mergedGuestsPerAccount) else {
            throw Problem(
                .invalidContent,
                """
                Sign in without merging: at most \(settings.mergedGuestsPerAccount) guests can be \
                merged into an account.
                """
            )
        }
        try checkThreads(theirs, own, reader)
        // Its end would be stored under the account's operation.
        for key in theirs.runningKeys where try reader.hasOperation(account.id, key: key) {
            throw Problem(
                .operationInProgress,
                """
                Merge again after 'Retry-After': the guest has a running call with a key that the \
                account has used as well.
                """,
                retryAfter: 1
            )
        }
    }

    /// Refuses a merge while messages of a deleted thread remain that would become messages of the
    /// other side's thread.
    private func checkThreads(
        _ theirs: OwnedRows,
        _ own: OwnedRows,
        _ reader: any RecordReader
    ) throws {
        for (rows, other) in [(theirs.documents, account.id), (own.documents, guest.id)] {
            for row in rows where row.kind == .threadRemoval {
                let removal = try ThreadRemoval(row)
                guard try hasThread(removal.thread, other, reader) else { continue }
                throw Problem(
                    .operationInProgress,
                    "Merge again after 'Retry-After': a deleted thread is being removed.",
                    retryAfter: 1
                )
            }
        }
    }

    private mutating func moveRecords(
        _ theirs: OwnedRows,
        _ own: OwnedRows,
        _ settings: AuthoritySettings,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws {
        var records = RecordMerge(
            of: guest.id,
            into: account.id,
            loaded.feed(account.id) ?? FeedRow(account: account.id),
            head: head,
            schema: settings.schema,
            reader: reader
        )
        try records.moveRecords()
        records.moveBlobs(theirs.blobs, known: own.blobs)
        head = records.head
        changes += records.changes + records.tallies.changes
        changes += [.delete(.feed(guest.id)), .put(.feed(records.feed))]
        let conflicts = records.conflicts.sorted {
            RecordKey($0.collection, $0.id) < RecordKey($1.collection, $1.id)
        }
        preview.records = records.records
        preview.conflictCount = conflicts.count
        preview.conflicts = Array(conflicts.prefix(MergePreview.listedConflicts))
        preview.blobs = records.blobs
        preview.bytes = records.feed.bytes
        merged.records = records.records
        merged.blobs = records.blobs
    }

    /// Gives the account the guest's plan, or that of the passes of both, which add up, if it ends
    /// later than its own.
    private mutating func upgradePlan(_ passes: [String: PlanPass]) {
        let isPremium = guest.profile.plan == .premium
        let theirs = isPremium ? PlanTerm(endsAt: guest.planExpiresAt) : nil
        guard let term = PlanTerm.longer(theirs, PlanPass.term(of: passes)),
            !term.isOver(at: now)
        else { return }
        if account.profile.plan == .premium {
            guard let own = account.planExpiresAt else { return }
            if let end = term.endsAt, end <= own { return }
        }
        upgradesPlan = true
        account.profile.plan = .premium
        account.planExpiresAt = term.endsAt
        head += 1
        account.seq = head
        changes.append(.put(.account(account)))
        preview.account = account.profile
    }

    /// Returns the holds that change.
    private mutating func moveQuotas(
        _ theirs: OwnedRows,
        _ own: OwnedRows,
        _ quotas: QuotaCommands,
        _ loaded: Loaded
    ) -> [HoldRow] {
        let merge = QuotaMerge(
            quotas,
            of: guest.profile,
            into: account.profile,
            loaded,
            guestHolds: theirs.openHolds.sorted { $0.id < $1.id },
            accountHolds: own.openHolds.sorted { $0.id < $1.id }
        )
        var rows: [String: QuotaRow] = [:]
        for name in quotas.limits.keys {
            if let row = loaded.quota(account.id, name: name) { rows[name] = row }
            if loaded.quota(guest.id, name: name) != nil {
                changes.append(.delete(.quota(guest.id, name: name)))
            }
        }
        for period in merge.periods { rows[period.name] = period }
        // A change of the plan changes all of them.
        let isChanged = Set(merge.periods.map(\.name))
        for var row in rows.values.sorted(by: { $0.name < $1.name }) {
            let isSeen = isChanged.contains(row.name) || upgradesPlan
            let held = merge.held(in: row)
            if isSeen || row.held != held {
                if isSeen { head += 1 }
                row.seq = isSeen ? head : row.seq
                row.held = held
                rows[row.name] = row
                changes.append(.put(.quota(row)))
            }
            report(row, theirs, own, quotas, loaded)
        }
        preview.quotas = quotas.limits.keys.sorted().compactMap { name in
            quotas.quota(name, of: account.profile, rows[name])
        }
        return merge.holds
    }

    /// Reports the exhaustion of a period of the account, unless it was reported on either side.
    private mutating func report(
        _ period: QuotaRow,
        _ theirs: OwnedRows,
        _ own: OwnedRows,
        _ quotas: QuotaCommands,
        _ loaded: Loaded
    ) {
        let guests = loaded.quota(guest.id, name: period.name)
        let other = quotas.current(period.name, of: guest.profile, guests)
        changes += quotas.exhaustion(
            merged: period,
            account.profile,
            isReported: QuotaExhaustion.isReported(period, in: own.documents),
            isGuestReported: QuotaExhaustion.isReported(other, in: theirs.documents)
        )
    }

    private mutating func moveDocuments(
        _ theirs: OwnedRows,
        _ own: OwnedRows,
        _ reader: any RecordReader
    ) throws {
        // A thread that one side has deleted continues if the other side still has it.
        for row in own.documents where row.kind == .deletedThread {
            let deleted = try DeletedThread(row)
            if try hasThread(deleted.thread, guest.id, reader) { changes.append(.delete(row.key)) }
        }
        for row in theirs.documents where row.mergeFate != .stays {
            changes.append(.delete(row.key))
            guard row.mergeFate == .moves else { continue }
            if row.kind == .deletedThread {
                let deleted = try DeletedThread(row)
                if try hasThread(deleted.thread, account.id, reader) { continue }
            }
            let new = row.rehomed(from: guest.id, to: account.id)
            let known = own.documents.first { $0.key == new.key }
            changes.append(.put(.document(known?.merged(with: new) ?? new)))
        }
    }

    private func hasThread(
        _ id: RecordID,
        _ account: Identifier,
        _ reader: any RecordReader
    ) throws -> Bool {
        let name = RecordName(ChatThread.collection.name, in: account, id)
        return try reader.record(name)?.isLive ?? false
    }

    private mutating func moveTokens() {
        let reason = "merged guest"
        var leaving = LedgerDraft(guestBalance, now: now)
        let moved = leaving.moveOut(reason: reason)
        var balance = accountBalance
        balance.head = head
        var arriving = LedgerDraft(balance, now: now)
        arriving.moveIn(moved, holding: guestBalance.held, reason: reason)
        head = arriving.balance.head
        merged.balances = moved.amount
        changes += leaving.appended + [.delete(.balance(guest.id))] + arriving.changes
    }

    /// Makes the guest an alias of the account.
    private mutating func endGuest(_ sessions: [SessionRow], _ settings: AuthoritySettings) {
        for var session in sessions {
            session.endedAt = now
            ended.append(session.id)
            changes.append(.put(.session(session)))
        }
        var alias = guest
        alias.state = .merged(into: account.id)
        // Only the account has the person's data.
        alias.profile = guest.profile.anonymous(settings)
        alias.planExpiresAt = nil
        changes.append(.put(.account(alias)))
        let data: [String: JSONValue] = ["records": .integer(Int64(merged.records))]
        changes.append(.event(AnalyticsEvent(.accountMerged, of: account.id, at: now, data: data)))
    }
}
