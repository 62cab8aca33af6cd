import Foundation
import Logging
import SanguineModel
import Synchronization

/// One user's records: the server's state, on disk, with the user's own changes over it.
///
/// ``SyncState`` decides; this class performs the actions in their order. In a companion of the app
/// (a widget, for example), it reads the app's files.
///
/// Nothing is opened until records are used, unless an earlier process left operations.
///
/// Invariants:
///
/// 1. Nothing is received or written once the user has left. A pull needs a token first, so a base
///    always belongs to an account.
/// 2. Readers do not wait for the disk, except for the moment in which a page becomes visible.
///
/// Mutable state: the records' part of ``OutboxContents``, by the outbox's lock. A page of the feed
/// is written under `serial`, and the outbox's lock is taken only at its end. Lock order: `serial`,
/// the outbox's lock, the databases.
final class UserRecords: Sendable {
    private struct Weak { weak var feed: UserFeed? }

    /// Receives the feed's changes that are not records: the balance, the quotas and the account.
    ///
    /// The flag is set if the feed has started over, so that earlier numbers no longer apply.
    typealias Carry = @Sendable (RecordChange, _ isReset: Bool, Epoch?) -> Void

    let outbox: OutboxEngine
    let environment: OutboxEnvironment
    let observers: RecordObservers
    let unreadable: UnreadableRecords
    /// The calls in threads and the index of messages; `nil` in a companion.
    let threads: UserThreads?
    private let carry: Carry
    /// Receives the names of collections whose records have changed on the server.
    private let changedOnServer: @Sendable (Set<String>) -> Void
    private let serial = Mutex(())
    private let source = Mutex(Weak())

    /// In a companion, checks whether the app has switched to another user, and follows it if so.
    private let isMoved: @Sendable () -> Bool

    init(
        _ outbox: OutboxEngine,
        observers: RecordObservers,
        threads: UserThreads? = nil,
        isMoved: @escaping @Sendable () -> Bool = { false },
        carry: @escaping Carry = { _, _, _ in },
        changedOnServer: @escaping @Sendable (Set<String>) -> Void = { _ in }
    ) {
        self.outbox = outbox
        self.observers = observers
        self.threads = threads
        self.carry = carry
        self.changedOnServer = changedOnServer
        self.isMoved = isMoved
        environment = outbox.environment
        unreadable = UnreadableRecords(logger: environment.logger)
        threads?.pending.onChange { [weak self] in self?.callsChanged($0) }
    }

    /// The source of the records; `nil` in a companion.
    var feed: UserFeed? {
        get { source.withLock { $0.feed } }
        set { source.withLock { $0.feed = newValue } }
    }

    /// Records that records are in use.
    func use() {
        if environment.isCompanion { return refresh() }
        feed?.use()
    }

    /// Opens the files if they are not open yet; a failure is reported.
    func open() {
        do throws(SanguineError) {
            try outbox.open(.record)
        } catch {
            guard !hasEnded else { return }
            environment.report("\(error)", "The records could not be opened.")
        }
    }

    /// Leaves the feed of a guest who has become a part of another account; see
    /// ``SyncState/leave(for:)``.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if this cannot be stored.
    func leave(for epoch: Epoch) throws(SanguineError) {
        let file = environment.folder?.appending(path: RecordsFile.name).path
        if let file, FileManager.default.fileExists(atPath: file) { try outbox.open(.record) }
        _ = try writing { try $0.leave(for: epoch) }
        _ = process { state, _ in SyncState.Actions(steps: state.leave(for: epoch)) }
    }

    /// Notifies observers of records that have changed; `nil` for all.
    private func notify(_ keys: Set<RecordKey>?) {
        threads?.changed(keys, in: self)
        observers.changed(keys)
    }

    /// Notifies observers of records of these collections that a restore has made visible; `nil`
    /// for all.
    func notifyRestored(_ collections: Set<String>?) {
        threads?.restored(collections, in: self)
        observers.changed(in: collections)
    }

    /// Notifies observers of calls in threads that have changed.
    private func callsChanged(_ keys: Set<RecordKey>) {
        // A new revision, so that what was read before is not shown later.
        guard outbox.update({ $0.revision += 1 }) != nil else { return }
        feed?.use()
        threads?.pending.reconcile(keys, with: self)
        observers.changed(keys)
        observers.applyNow(keys)
    }

    /// Closes a file that the outbox has released.
    func close(_ file: RecordsFile?) {
        // Waits for a page that is being written.
        serial.withLock { _ in file?.close() }
    }

    /// Whether the user has left.
    var hasEnded: Bool { outbox.ending != nil }

    // MARK: - Opening

    /// Opens the file, and runs the operations over its base.
    ///
    /// Called under the outbox's lock.
    func open(_ contents: inout OutboxContents) throws {
        let records =
            try contents.records
            ?? RecordsFile(
                folder: environment.folder,
                schema: environment.schema,
                isReader: environment.isCompanion,
                report: { [environment] in environment.report($0, RecordsFile.meaning) }
            )
        contents.records = records
        if environment.isCompanion {
            records.cache.clear()
            let versions = [try records.version(), try outbox.file.version()]
            seen.withLock { $0 = versions }
        }
        try rebase(&contents, on: records)
    }

    private func rebase(_ contents: inout OutboxContents, on records: RecordsFile) throws {
        let stored = try records.basePosition()
        contents.base = RecordsFile.Base(file: records, space: stored?.space ?? 0)
        contents.revision += 1
        try contents.state.restart(
            at: stored?.position ?? 0,
            of: stored?.epoch,
            isWhole: stored?.isWhole ?? false,
            with: contents.rows.values.sorted { $0.sequence < $1.sequence }.map(operation),
            over: contents.base
        )
    }

    /// Decodes the operation of a row.
    func operation(_ row: OutboxFile.Row) -> Replay.Operation {
        let mutation: any RecordMutation
        do {
            if let type = environment.schema.mutation(row.name) {
                mutation = try StoredForm.arguments.decode(type, from: row.arguments)
            } else {
                mutation = UnknownMutation(lane: row.lane)
            }
        } catch {
            mutation = UnknownMutation(lane: row.lane, fault: error.memberFault)
        }
        return Replay.Operation(sequence: row.sequence, id: row.id, mutation: mutation)
    }

    // MARK: - Other processes

    /// In a companion, reads the app's latest writes.
    func refresh() {
        do {
            let versions = try outbox.update { contents -> [Int64] in
                guard let records = contents.records else { return [] }
                return [try records.version(), try outbox.file.version()]
            }
            guard let versions, versions.isEmpty || versions != seen.withLock({ $0 }) else {
                return
            }
            if versions.isEmpty {
                try outbox.open(.record)
            } else {
                try outbox.reload(.record)
            }
            observers.changed(nil)
        } catch {
            // The app may not have created its files yet.
            environment.logger.debug(
                "The records could not be read.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    /// In a companion, the versions of the files when they were last read.
    private let seen = Mutex<[Int64]>([])

    /// Checks regularly for another process's writes, as long as records are observed.
    func watch() {
        guard environment.folder != nil else { return }
        outbox.watch { [weak self] in
            guard let self, !observers.isEmpty, !isMoved() else { return false }
            if environment.isCompanion { refresh() } else { outbox.loadForeignOperations() }
            return true
        }
    }

    // MARK: - Failures

    /// Handles a failure of the file; a damaged one is restored from the server.
    ///
    /// Called under the outbox's lock.
    func failed(_ error: any Error, _ contents: inout OutboxContents) {
        environment.logger.error(
            "The records could not be read or written.",
            metadata: ["reason": "\(error)"]
        )
        guard SQLiteFile.isDamage(error), !environment.isCompanion, !contents.isRepairing else {
            return environment.report("\(error)", RecordsFile.meaning)
        }
        contents.isRepairing = true
        contents.base = .empty  // Nothing is shown, but operations are accepted.
        Task { repair(error) }
    }

    /// Runs the body; returns `nil` after a failure of the file.
    ///
    /// Called under the outbox's lock.
    func attempt<Value>(
        _ contents: inout OutboxContents,
        _ body: (inout OutboxContents) throws -> Value
    ) -> Value? {
        do {
            return try body(&contents)
        } catch {
            failed(error, &contents)
            return nil
        }
    }

    private func repair(_ reason: any Error) {
        serial.withLock { _ in
            _ = outbox.update { contents in
                contents.isRepairing = false
                guard let records = contents.records else { return }
                do {
                    try records.begin(afresh: reason)
                    try rebase(&contents, on: records)
                } catch {
                    environment.report("\(error)", RecordsFile.meaning)
                }
            }
        }
        notify(nil)
        feed?.pull()
    }
}

// MARK: - Taking in

extension UserRecords {
    /// Receives a part of the feed; returns what is missing afterwards.
    func receive(_ received: SyncState.FeedBatch) -> SyncState.Missing {
        var batch = received
        if environment.fault == .ignoresEpochs { batch.epoch = nil }
        // Changes other than records do not wait for anything that records wait for.
        apply(system: batch.changes, isReset: batch.isReset, batch.epoch)
        batch.changes.removeAll { $0.collection == Switches.collection }
        if !hasEnded, batch.since > 0 { changedOnServer(Set(batch.changes.map(\.collection))) }
        return process { [batch] state, base in state.received(batch, over: base) }
    }

    /// Applies the changes that are not records: the balance, the quotas, the account and the
    /// switches.
    func apply(system changes: [RecordChange], isReset: Bool, _ epoch: Epoch?) {
        guard !hasEnded else { return }
        for change in changes where change.isSystem { carry(change, isReset, epoch) }
    }

    /// Receives switches of the live feed.
    func receive(switches change: RecordChange, of epoch: Epoch?) {
        if !hasEnded, change.isSystem { carry(change, false, epoch) }
    }

    /// Applies which mutations are shown only after their answer.
    func withhold(_ current: () -> Set<String>) {
        let isChanged = outbox.update { contents -> Bool in
            // Under the lock, so that of two changes the newer one stays.
            let mutations = current()
            guard contents.withheld != mutations else { return false }
            contents.withheld = mutations
            contents.revision += 1
            return true
        }
        if isChanged == true { observers.changed(nil) }
    }

    /// Receives data from the server; returns what is missing afterwards.
    func process(
        _ body: (inout SyncState, RecordsFile.Base) -> SyncState.Actions
    ) -> SyncState.Missing {
        let aftermath = serial.withLock { _ in
            let taken = outbox.update { contents -> SyncState.Actions? in
                guard contents.records != nil else { return nil }
                contents.revision += 1
                let actions = body(&contents.state, contents.base)
                if let failure = actions.failure { failed(failure, &contents) }
                return actions
            }
            return (taken ?? nil).map { carryOut($0) } ?? DeferredWork()
        }
        // This calls the app's code, so no lock is held.
        if aftermath.hasWritten { environment.durableWrites?() }
        if aftermath.hasReopened { outbox.wake() }
        return aftermath.missing
    }

    /// The work after the actions, done with no lock held.
    private struct DeferredWork {
        var missing = SyncState.Missing.nothing
        var hasWritten = false
        /// Whether acknowledged operations wait again, because the server has lost its history of
        /// them.
        var hasReopened = false
    }

    /// Performs actions in their order, and then those that follow from them.
    ///
    /// The caller holds `serial`.
    private func carryOut(_ first: SyncState.Actions) -> DeferredWork {
        var next: SyncState.Actions? = first
        var aftermath = DeferredWork()
        while let actions = next {
            next = nil
            aftermath.missing = max(aftermath.missing, actions.missing)
            for case .reopened in actions.steps { aftermath.hasReopened = true }
            defer { notifyObservers(actions) }
            do {
                try outbox.file.write(actions.steps)
            } catch StoreError.closed {
                return DeferredWork()  // The user has left in the meantime.
            } catch {
                // Otherwise a restart would show the base's changes a second time.
                environment.logger.error(
                    "The outbox could not be written, so the feed is paused.",
                    metadata: ["reason": "\(error)"]
                )
                aftermath.missing = .nothing
                return aftermath
            }
            guard let batch = actions.adopt else { continue }
            next = adopt(batch)
            let isChange = !batch.changes.isEmpty || batch.isReset
            aftermath.hasWritten = aftermath.hasWritten || (next != nil && isChange)
        }
        outbox.changed()
        return aftermath
    }

    private func notifyObservers(_ actions: SyncState.Actions) {
        let isRevealing = actions.steps.contains { step in
            if case .acknowledged = step { true } else { false }
        }
        let hasWithheld = isRevealing && outbox.read { !$0.withheld.isEmpty }
        outbox.deliverOutcomes(actions.steps)
        // An operation that was hidden is shown now.
        if hasWithheld { observers.changed(nil) }
        if actions.isEverythingChanged {
            notify(nil)
        } else if !actions.changed.isEmpty {
            notify(actions.changed)
        }
    }

    // MARK: - The base

    /// Makes a part of the feed the base.
    private func adopt(_ batch: SyncState.FeedBatch) -> SyncState.Actions? {
        guard let records = outbox.read({ $0.records }) else { return nil }
        do {
            let actions = try write(batch, to: records)
            records.checkpoint()
            if batch.isReset || batch.since == 0 { try records.sweep() }
            return actions
        } catch {
            records.rollback()
            return recover(from: error, records, batch)
        }
    }

    private func write(
        _ batch: SyncState.FeedBatch,
        to records: RecordsFile
    ) throws -> SyncState.Actions? {
        guard records.isOnDisk else {
            // In memory, readers would see the open transaction, so they wait; it does not take
            // long.
            return try outbox.update { contents in
                let space = try records.begin(batch)
                return try show(batch, in: space, of: records, &contents)
            }
        }
        let space = try records.begin(batch)
        let actions = try outbox.update { try show(batch, in: space, of: records, &$0) }
        if actions == nil { records.rollback() }
        return actions
    }

    private func show(
        _ batch: SyncState.FeedBatch,
        in space: Int64,
        of records: RecordsFile,
        _ contents: inout OutboxContents
    ) throws -> SyncState.Actions {
        try records.commit()
        if batch.isReset || batch.since == 0 {
            records.cache.clear()
        } else {
            records.cache.forget(batch.changes.map { RecordKey($0.collection, $0.id) })
        }
        contents.base.space = space
        contents.revision += 1
        return try contents.state.adopted(batch, over: contents.base)
    }

    /// Continues in memory, or with a fresh file.
    private func recover(
        from error: any Error,
        _ records: RecordsFile,
        _ batch: SyncState.FeedBatch
    ) -> SyncState.Actions? {
        let isWhole = outbox.update { contents -> Bool? in
            guard records.isOnDisk, !SQLiteFile.isDamage(error) else {
                failed(error, &contents)
                return nil
            }
            return attempt(&contents) { try leaveDisk(records, because: error, &$0) }
        }
        switch isWhole ?? nil {
        case true?: return adopt(batch)
        case false?:
            notify(nil)
            feed?.pull()
            return nil
        case nil: return nil
        }
    }

    /// Continues in memory; returns whether all records were copied.
    ///
    /// Called under the outbox's lock.
    private func leaveDisk(
        _ records: RecordsFile,
        because error: any Error,
        _ contents: inout OutboxContents
    ) throws -> Bool {
        let isWhole = try records.leaveDisk(because: error)
        // The feed, read from its start, brings the missing records.
        if !isWhole { try rebase(&contents, on: records) }
        return isWhole
    }

    /// Writes to the file outside of the base, if the user has not left.
    func writing<Value: Sendable>(
        _ body: (RecordsFile) throws -> Value
    ) throws(SanguineError) -> Value? {
        do {
            return try serial.withLock { _ in try outbox.read { $0.records }.map(body) }
        } catch is RecordsFile.RestoreDropped {
            throw .cancelled  // Another range has dropped the restore.
        } catch {
            _ = outbox.update { contents in
                if SQLiteFile.isDamage(error) {
                    failed(error, &contents)
                } else if let records = contents.records {
                    // The next attempt continues in memory.
                    _ = try? leaveDisk(records, because: error, &contents)
                }
            }
            throw .store(.writeFailed("\(error)"))
        }
    }
}

// MARK: - Restoring

extension UserRecords {
    /// The records that a page of a restore has made visible.
    enum Shown: Equatable {
        /// None: the page is hidden, or was not stored because it may contain an operation that is
        /// shown.
        case nothing
        /// The records of the page.
        case page
        /// All records that are restored so far.
        case everything
    }

    /// Writes a page of a restore.
    ///
    /// On a device without a base, its records are shown as soon as they certainly contain no
    /// operation that is not settled. Later changes that may contain one are not stored.
    ///
    /// - Parameters:
    ///   - page: The page.
    ///   - range: The range that it belongs to, with the number that it reaches.
    ///   - restore: The restore.
    ///   - mayShow: Whether its records may be shown: the newest ones are restored.
    /// - Returns: The records that are visible now.
    /// - Throws: ``SanguineError/userChanged`` if the user has left, ``SanguineError/store(_:)``.
    func write(
        _ page: RecordPage,
        _ range: RecordsFile.Range,
        of restore: RecordsFile.Restore,
        mayShow: Bool
    ) throws(SanguineError) -> Shown {
        let shown = try writing { records -> Shown? in
            do {
                return try write(page, range, of: restore, mayShow: mayShow, to: records)
            } catch {
                records.rollback()
                throw error
            }
        }
        guard let shown = shown ?? nil else { throw .userChanged }
        return shown
    }

    private func write(
        _ page: RecordPage,
        _ range: RecordsFile.Range,
        of restore: RecordsFile.Restore,
        mayShow: Bool,
        to records: RecordsFile
    ) throws -> Shown? {
        let isOnDisk = records.isOnDisk
        // In memory, readers would see the open transaction, so they wait.
        if isOnDisk { try records.begin(page, range, of: restore.space) }
        let shown = try outbox.update { contents in
            if !isOnDisk { try records.begin(page, range, of: restore.space) }
            return try commit(page, range, of: restore, mayShow: mayShow, to: records, &contents)
        }
        if shown == nil { records.rollback() } else { records.checkpointIfLong() }
        return shown
    }

    private func commit(
        _ page: RecordPage,
        _ range: RecordsFile.Range,
        of restore: RecordsFile.Restore,
        mayShow: Bool,
        to records: RecordsFile,
        _ contents: inout OutboxContents
    ) throws -> Shown {
        let wasShown = contents.base.space == restore.space
        if wasShown, range.number == RecordsFile.Range.catchingUp,
            !contents.state.outbox.isAfter(range.reached, of: restore.epoch)
        {
            records.rollback()
            return .nothing
        }
        let isShown =
            wasShown
            || mayShow && contents.state.mayShow(restoreTo: restore.head, of: restore.epoch)
        if isShown, !wasShown { try records.show(restore.space) }
        try records.commit()
        guard isShown else { return .nothing }
        let keys = page.changes.map(\.key)
        if wasShown { records.cache.forget(keys) } else { records.cache.clear() }
        contents.base.space = restore.space
        contents.revision += 1
        try contents.state.restored(keys, everything: !wasShown, over: contents.base)
        return wasShown ? .page : .everything
    }

    /// Whether the records of a restore are shown.
    func isShown(_ restore: RecordsFile.Restore) -> Bool {
        outbox.read { $0.base.space == restore.space }
    }

    /// Whether all ranges of a restore are shown, and its base is held back until it is known which
    /// operations it contains.
    func isHeld(_ restore: RecordsFile.Restore) -> Bool {
        outbox.read { $0.base.space == restore.space && $0.state.heldSpace == restore.space }
    }

    /// Drops a restore that the server can no longer complete; its records disappear.
    func dropRestore() throws(SanguineError) {
        let wasShown = try writing { records -> Bool in
            // A held batch could otherwise become the base later, but its space is deleted now.
            _ = outbox.update { $0.state.dropStaged() }
            try records.abandonRestore()
            return try outbox.update { contents -> Bool in
                guard contents.state.position == 0, contents.base.space != 0 else { return false }
                records.cache.clear()
                contents.base.space = 0
                contents.revision += 1
                try contents.state.restored([], everything: true, over: contents.base)
                return true
            } ?? false
        }
        if wasShown == true { notifyRestored(nil) }
    }

    /// Whether the visible records are a complete state of the server, though perhaps old.
    ///
    /// Without a server, nothing can be missing.
    var isWhole: Bool {
        if let feed, !feed.hasServer { return true }
        return outbox.read { $0.state.isWhole }
    }
}

extension RecordsFile {
    /// The text in the report for a failure of the file.
    static let meaning = "The records failed."
}

extension RecordChange {
    /// Whether the change is not a record, but of data that every account has once.
    fileprivate var isSystem: Bool { RecordPage.isSystem(collection) && !deleted }
}

/// Replaces an operation that this version of the app does not know: it is sent, but not shown.
private struct UnknownMutation: RecordMutation {
    static let name = "unknown"
    let lane: String
    /// The reason why its arguments cannot be decoded; `nil` if its type is not registered.
    var fault: String?

    func apply(to records: inout Records) throws {
        guard let fault else {
            throw Refusal(.mutatorUnknown, "Register the mutation's type in the configuration.")
        }
        throw Refusal(
            .invalidContent,
            "Declare a default or a migration for the mutation's arguments: \(fault)."
        )
    }
}
