public import SanguineModel
import Synchronization

/// Stores everything in memory, for tests and previews.
///
/// The data is lost with the object.
///
/// It fulfills the same contract as the other drivers, except for durability.
///
/// Invariants:
/// 1. Either all of a command's changes are stored or none; no other command runs between load and
///   store.
/// 2. Transfers are numbered from 1 without gaps, and never change.
/// 3. `liveSessions` has the ids of exactly those sessions in `rows` that have not ended.
///
/// Mutable state: one `State`, guarded by its mutex. Commands decide while it is held, which is an
/// exception to the rule: the decision is the critical section, and it is pure.
public final class MemoryStorage: Storage {
    fileprivate struct State {
        var epoch = Epoch.random()
        private(set) var rows: [Key: Row] = [:]
        private(set) var liveSessions: [Identifier: Set<Identifier>] = [:]
        var records = MemoryRecords()
        var ledgers: [Identifier: [NumberedTransfer]] = [:]
        var lastNumber: Int64 = 0
        private(set) var audit: [AuditRow] = []
        var isClosed = false

        /// Sets or removes a row; all changes of rows go through this method.
        mutating func set(_ key: Key, to row: Row?) {
            if case .record(let name) = key {
                if case .record(let record) = row {
                    records.set(name, to: record)
                } else {
                    records.set(name, to: nil)
                }
                return
            }
            if key == .lastAudit {
                guard case .audit(let entry) = row else { return }
                audit.append(entry)
            }
            if case .session(let old) = rows[key] { liveSessions[old.account]?.remove(old.id) }
            if case .session(let new) = row, new.endedAt == nil {
                liveSessions[new.account, default: []].insert(new.id)
            }
            rows[key] = row
        }
    }

    private let state = Mutex(State())
    private let files = MemoryBlobStore()

    /// Creates an empty storage.
    public init() {}

    /// Performs the command at once.
    public func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        try performNow(command)
    }

    /// Performs the command without suspending.
    ///
    /// The command must not use the storage, which is locked while it decides.
    package func performNow<Outcome>(
        _ command: Command<Outcome>
    ) throws(StorageError) -> Result<Outcome, Problem> {
        try withState { state in
            do throws(Problem) {
                let reader = MemoryReader(records: state.records, rows: state.rows)
                let decision = try command.decide(state.loaded(command), reader)
                for change in decision.changes { state.store(change) }
                return .success(decision.outcome)
            } catch {
                return .failure(error)
            }
        }
    }

    /// Loads rows, all as of a single point in time.
    public func load(_ keys: [Key]) async throws(StorageError) -> Loaded { try loadNow(keys) }

    /// Loads rows without suspending.
    package func loadNow(_ keys: [Key]) throws(StorageError) -> Loaded {
        try withState { $0.loaded(keys) }
    }

    /// Reads a part of an account's feed, and loads rows as of the same moment.
    public func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice {
        try feedNow(query)
    }

    /// Reads a part of an account's feed without suspending.
    package func feedNow(_ query: FeedQuery) throws(StorageError) -> FeedSlice {
        try withState { state in
            let (records, hasMore) = state.records.feed(query)
            return FeedSlice(loaded: state.loaded(query.keys), records: records, hasMore: hasMore)
        }
    }

    /// Returns the sessions that have not ended.
    package func liveSessions() throws(StorageError) -> [Identifier] {
        try withState { $0.liveSessions.values.flatMap { $0 }.sorted() }
    }

    /// Returns the current records; later changes are not included.
    package func recordsNow() throws(StorageError) -> some RecordReader {
        try withState { $0.records }
    }

    /// Reads a part of a list of live records.
    public func records(_ query: RecordQuery) async throws(StorageError) -> RecordList {
        try withState { $0.records.records(query) }
    }

    /// Returns an account's transfers, newest first.
    public func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try withState { state in
            let older = (state.ledgers[account] ?? []).reversed()
                .drop { $0.number >= number ?? .max }
            return Array(older.prefix(max(0, limit)))
        }
    }

    /// Returns the transfers of all accounts, oldest first.
    public func transfers(
        after number: Int64,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try withState { state in
            state.ledgers.values.flatMap { $0.filter { $0.number > number } }
                .first(limit) { $0.number < $1.number }
        }
    }

    /// Returns the accounts with grants that expire by the moment.
    public func accounts(
        withGrantsExpiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [Identifier] {
        try withState { state in
            state.balances.compactMap { row in row.grants.next.map { ($0, row.account) } }
                .filter { $0.0 <= moment }
                .first(limit) { $0 < $1 }.map(\.1)
        }
    }

    /// Returns the accounts with plans that end by the moment.
    public func accounts(
        withPlansEndingBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [AccountRow] {
        try withState { state in
            state.accounts.filter { $0.state == .active && $0.isPlanOver(at: moment) }
                .first(limit) { first, second in
                    guard let left = first.planExpiresAt, let right = second.planExpiresAt else {
                        return false
                    }
                    return (left, first.id) < (right, second.id)
                }
        }
    }

    /// Returns open holds that expire at or before the moment, earliest first.
    public func openHolds(
        expiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [HoldRow] {
        try withState { state in
            let holds = state.holds.filter { $0.state == .open && $0.expiresAt <= moment }
            return holds.first(limit) { ($0.expiresAt, $0.id) < ($1.expiresAt, $1.id) }
        }
    }

    /// Returns operations that are still running, in the order of their keys.
    public func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) async throws(StorageError) -> [OperationRow] {
        try withState { state in
            let running = state.operations.filter { row in
                guard case .running = row.state else { return false }
                return position.map { $0 < row.position } ?? true
            }
            return running.first(limit) { $0.position < $1.position }
        }
    }

    /// Returns the stored parts of a streamed answer.
    public func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow] {
        try withState { state in
            let rows = state.parts.filter { $0.run == run }
            let start = rows.map(\.first).filter { $0 <= index }.max() ?? index
            return rows.filter { $0.first >= start }.first(limit) { $0.first < $1.first }
        }
    }

    /// Returns those of the files that have an owner.
    public func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID> {
        try withState { state in
            var owned: Set<BlobID> = []
            for case .blob(let row) in state.rows.values { owned.insert(row.id) }
            return owned.intersection(ids)
        }
    }

    /// Returns a part of the files of all accounts.
    public func files(_ query: FilesQuery) async throws(StorageError) -> [BlobRow] {
        try withState { state in
            let found = state.rows.values.compactMap { row -> BlobRow? in
                guard case .blob(let row) = row, query.includes(row) else { return nil }
                return row
            }
            return found.first(query.limit) { $0.position < $1.position }
        }
    }

    /// Returns a part of the documents of one kind.
    public func documents(_ query: DocumentQuery) async throws(StorageError) -> [DocumentRow] {
        try withState { state in
            let found = state.documents.filter { row in
                row.kind == query.kind && (query.account == nil || row.account == query.account)
                    && query.after.map { $0.utf8.lexicographicallyPrecedes(row.id.utf8) } ?? true
            }
            return found.first(query.limit) { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
        }
    }

    /// Returns a part of the active accounts.
    public func accounts(_ query: AccountsQuery) async throws(StorageError) -> [AccountRow] {
        try withState { state in
            let found = state.accounts.filter { row in
                row.state == .active && (query.kind == nil || row.profile.kind == query.kind)
                    && query.after.map { $0 < row.id } ?? true
            }
            return found.first(query.limit) { $0.id < $1.id }
        }
    }

    /// Returns a part of an account's rows of one kind.
    public func rows(_ query: AccountRowsQuery) async throws(StorageError) -> [Row] {
        try withState { state in
            let start = query.after?.positionInAccount
            let found = state.rows.values.compactMap { row -> (position: [UInt8], row: Row)? in
                guard let own = row.membership, own == (query.account, query.kind) else {
                    return nil
                }
                let position = row.key.positionInAccount
                guard start.map({ $0.lexicographicallyPrecedes(position) }) ?? true else {
                    return nil
                }
                return (position, row)
            }
            return found.first(query.limit) {
                $0.position.lexicographicallyPrecedes($1.position)
            }
            .map(\.row)
        }
    }

    /// Returns entries of the audit log, newest first.
    public func audit(
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [AuditRow] {
        try withState { state in
            let older = state.audit.reversed().drop { $0.number >= number ?? .max }
            return Array(older.prefix(max(0, limit)))
        }
    }

    /// Returns the account with that e-mail address.
    public func account(email: String) async throws(StorageError) -> AccountRow? {
        try withState { state in
            state.accounts.filter { $0.profile.email == email }.min { $0.id < $1.id }
        }
    }

    /// Drops expired rows.
    @discardableResult
    public func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int {
        try withState { $0.sweep(horizon, limit: limit) }
    }

    /// Recomputes every balance from its transfers, and compares.
    public func verifyLedger(
        progress: @escaping @Sendable (LedgerProgress) -> Void
    ) async throws(StorageError) -> LedgerReport {
        let report = try withState { $0.verifyLedger() }
        progress(
            LedgerProgress(
                accounts: report.accounts,
                transfers: report.transfers,
                differences: report.differences.count
            )
        )
        return report
    }

    /// Throws if the storage is closed; memory is always ready.
    public func checkHealth() async throws(StorageError) {
        try withState { _ in }
    }

    /// The epoch, which changes with ``restore(_:)``.
    public var epoch: Epoch { state.withLock { $0.epoch } }

    /// A copy of the storage at one moment, without the bytes of files.
    package struct Copy: Sendable {
        fileprivate let state: State
    }

    /// Returns a copy of all rows.
    package func copy() throws(StorageError) -> Copy { try withState { Copy(state: $0) } }

    /// Replaces all rows with those of an older copy, under a new epoch.
    package func restore(_ copy: Copy) throws(StorageError) {
        try withState { state in
            state = copy.state
            state.epoch = .random()
        }
    }

    /// The bytes of the files, also in memory.
    public var blobs: any BlobStore { files }

    /// Always `nil`, because the amount of free memory is not known.
    public var freeBytes: Int64? { nil }

    /// Closes the storage and deletes its content.
    public func close() async {
        files.close()
        state.withLock { state in
            state = State()
            state.isClosed = true
        }
    }

    private func withState<Value: Sendable>(
        _ body: (inout State) -> Value
    ) throws(StorageError) -> Value {
        let value = state.withLock { state -> Value? in
            state.isClosed ? nil : body(&state)
        }
        guard let value else { throw .closed }
        return value
    }
}

extension MemoryStorage.State {
    func loaded(_ keys: [Key]) -> Loaded {
        var loaded = Loaded()
        for key in keys {
            if let row = row(key) { loaded.add(row) }
        }
        return loaded
    }

    private func row(_ key: Key) -> Row? {
        guard case .record(let name) = key else { return rows[key] }
        return records.record(name).map(Row.record)
    }

    func loaded<Outcome>(_ command: Command<Outcome>) -> Loaded {
        var loaded = loaded(command.keys)
        if let surplus = command.surplus { loaded.surplusSessions = sessions(surplus) }
        return loaded
    }

    private func sessions(_ surplus: SurplusSessions) -> [SessionRow] {
        let live = liveSessions[surplus.account] ?? []
        guard live.count > surplus.kept else { return [] }
        let found = live.compactMap { id -> SessionRow? in
            guard case .session(let row) = rows[.session(id)] else { return nil }
            return row
        }
        return found.first(min(live.count - surplus.kept, SurplusSessions.limit)) {
            ($0.rotatedAt, $0.id) < ($1.rotatedAt, $1.id)
        }
    }

    mutating func store(_ change: Change) {
        switch change {
        case .put(let row): set(row.key, to: row)
        case .delete(let key): set(key, to: nil)
        case .append(let transfer):
            lastNumber += 1
            ledgers[transfer.account, default: []].append(
                NumberedTransfer(number: lastNumber, transfer: transfer)
            )
        case .index(let entry): records.index(entry)
        case .unindex(let entry): records.unindex(entry)
        case .pruneResults(let account, let kept):
            let own = results.filter { $0.account == account }
                .sorted { $1.madeAt < $0.madeAt }
            for row in own.dropFirst(max(0, kept)) { set(.result(row.key), to: nil) }
        case .rehome(let move): rehome(move)
        }
    }

    private mutating func rehome(_ move: Rehoming) {
        for case .device(var row) in rows.values where row.account == move.guest {
            row.account = move.account
            row.era = DeviceRow.closed
            set(.device(row.id), to: .device(row))
        }
        for row in operations where row.account == move.guest {
            let new = Row.operation(row.rehomed(to: move.account, head: move.head))
            guard rows[new.key] == nil else { continue }
            set(.operation(row.account, key: row.key), to: nil)
            set(new.key, to: new)
        }
        for row in results where row.account == move.guest {
            let new = Row.result(row.rehomed(to: move.account))
            if rows[new.key] == nil { set(new.key, to: new) }
            set(.result(row.key), to: nil)
        }
    }

    var results: [ResultRow] {
        rows.values.compactMap { if case .result(let row) = $0 { row } else { nil } }
    }

    var parts: [PartsRow] {
        rows.values.compactMap { if case .parts(let row) = $0 { row } else { nil } }
    }

    var accounts: [AccountRow] {
        rows.values.compactMap { if case .account(let row) = $0 { row } else { nil } }
    }

    var balances: [BalanceRow] {
        rows.values.compactMap { if case .balance(let row) = $0 { row } else { nil } }
    }

    var documents: [DocumentRow] {
        rows.values.compactMap { if case .document(let row) = $0 { row } else { nil } }
    }

    var sessions: [SessionRow] {
        rows.values.compactMap { if case .session(let row) = $0 { row } else { nil } }
    }

    var holds: [HoldRow] {
        rows.values.compactMap { if case .hold(let row) = $0 { row } else { nil } }
    }

    var operations: [OperationRow] {
        rows.values.compactMap { if case .operation(let row) = $0 { row } else { nil } }
    }

    mutating func sweep(_ horizon: SweepHorizon, limit: Int) -> Int {
        let answered = operations.filter { row in
            guard case .done = row.state else { return false }
            return row.at < horizon.answers
        }
        let answers = answered.first(limit) { ($0.at, $0.position) < ($1.at, $1.position) }
        for var row in answers {
            if case .done(let answer) = row.state, answer.head != nil {
                row.state = .forgotten
                set(.operation(row.account, key: row.key), to: .operation(row))
            } else {
                set(.operation(row.account, key: row.key), to: nil)
            }
        }
        let over = sessions.filter { row in
            row.expiresAt < horizon.sessions || row.endedAt.map { $0 < horizon.sessions } ?? false
        }
        .first(limit) { $0.id < $1.id }
        for row in over { set(.session(row.id), to: nil) }
        let settled = holds.filter { $0.state != .open && $0.expiresAt < horizon.holds }
            .first(limit) { ($0.expiresAt, $0.id) < ($1.expiresAt, $1.id) }
        for row in settled { set(.hold(row.id), to: nil) }
        return answers.count + over.count + settled.count
            + sweepTombstones(before: horizon.tombstones, limit: limit)
            + sweepFunctions(horizon, limit: limit)
            + sweepDocuments(before: horizon.documents, limit: limit)
    }

    private mutating func sweepDocuments(before moment: Timestamp, limit: Int) -> Int {
        let expired = documents.filter { row in row.expiresAt.map { $0 < moment } ?? false }
            .first(limit) { ($0.expiresAt ?? moment) < ($1.expiresAt ?? moment) }
        for row in expired { set(.document(row.kind, id: row.id), to: nil) }
        return expired.count
    }

    private mutating func sweepFunctions(_ horizon: SweepHorizon, limit: Int) -> Int {
        let expired = results.filter { $0.expiresAt < horizon.results }
            .first(limit) { $0.expiresAt < $1.expiresAt }
        for row in expired { set(.result(row.key), to: nil) }
        let old = parts.filter { $0.at < horizon.parts }.first(limit) { $0.at < $1.at }
        for row in old { set(.parts(row.run, first: row.first), to: nil) }
        return expired.count + old.count
    }

    private mutating func sweepTombstones(before moment: Timestamp, limit: Int) -> Int {
        let rows = records.tombstones(before: moment, limit: limit)
        for row in rows {
            records.set(row.name, to: nil)
            var feed = FeedRow(account: row.owner)
            if case .feed(let known) = self.rows[.feed(row.owner)] { feed = known }
            feed.drop(row)
            set(.feed(row.owner), to: .feed(feed))
        }
        return rows.count
    }

    func verifyLedger() -> LedgerReport {
        var openHolds: [Identifier: Int64] = [:]
        for hold in holds where hold.state == .open {
            openHolds[hold.account, default: 0] &+= hold.amount
        }
        var balances: [Identifier: BalanceRow] = [:]
        for case .balance(let row) in rows.values { balances[row.account] = row }
        let accounts = Set(openHolds.keys).union(balances.keys).union(ledgers.keys).sorted()
        var report = LedgerReport(accounts: accounts.count, transfers: 0, differences: [])
        var merges = MergeAudit()
        for account in accounts {
            var audit = LedgerAudit(account: account)
            let ledger = ledgers[account] ?? []
            for entry in ledger {
                audit.add(entry.transfer)
                merges.add(entry.transfer)
            }
            report.transfers += ledger.count
            let held = openHolds[account] ?? 0
            report.add(audit.finish(balance: balances[account], openHolds: held))
        }
        report.add(merges.difference)
        return report
    }
}

extension OperationRow {
    fileprivate var position: OperationPosition { OperationPosition(account: account, key: key) }
}

extension OperationPosition: Comparable {
    /// Orders by account, then by the bytes of the key, as databases do.
    public static func < (lhs: OperationPosition, rhs: OperationPosition) -> Bool {
        if lhs.account != rhs.account { return lhs.account < rhs.account }
        return lhs.key.utf8.lexicographicallyPrecedes(rhs.key.utf8)
    }
}

extension Array {
    /// Returns the first elements in that order; none if the limit is negative.
    fileprivate func first(_ limit: Int, by precedes: (Element, Element) -> Bool) -> [Element] {
        Array(sorted(by: precedes).prefix(Swift.max(0, limit)))
    }
}
