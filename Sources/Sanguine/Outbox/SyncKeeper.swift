import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// One user's records, outbox and feed put to work: takes operations in, shows them, sends them,
/// and takes in what the authority says.
///
/// ``SyncState`` decides; this performs what its effects say, in their order. In an app's companion
/// (a widget, say) the same object reads and takes operations in, and leaves the network to the
/// app.
///
/// Nothing is opened, and nothing asked of the server, before somebody uses records, or an earlier
/// process has left operations.
///
/// Invariants:
///
/// 1. An operation is durable before it is visible, and marked as sent before it leaves.
/// 2. Nothing is taken in, sent or written after ``end(_:)``. A pull asks for a token first, so a
///    base is an account's, never nobody's.
/// 3. At most one pull and ``RecordLimits/pushFlights`` pushes are under way, no two of one lane,
///    and one wait before each; none after ``end(_:)``.
/// 4. No lock is held over `await`, or over code of the app other than mutators, which are pure.
///
/// Mutable state: `guarded`, by its mutex. And what the base is: it changes under `serial`, which
/// is held while a part of the feed is written, and under `guarded` for the moment in which it
/// becomes visible; so readers wait for the disk no longer than that. Lock order: `serial`, then
/// `guarded`, then the databases.
///
/// A class with locks and not an actor, because ``perform(_:)`` and reading answer at once.
final class SyncKeeper: Sendable {
    /// What goes on in a task of its own, for all who want it.
    struct Run {
        let number: UInt64
        let outcome = OneShot<Void>()
        var task: Task<Void, Never>?
    }

    /// All pushes under way, for those who want to know of their end.
    struct Sending {
        let outcome = OneShot<Void>()
        var flights: [UInt64: Task<Void, Never>] = [:]
        var failure: SanguineError?
        /// The last flight that had taken off when that was noted.
        var lastBefore: UInt64 = 0
    }

    struct Guarded {
        var state: SyncState
        var records: RecordsFile?
        var base = RecordsFile.Base.empty
        /// Operations as they lie on disk, by sequence number.
        var rows: [Int64: OutboxFile.Row] = [:]
        var receipts: [Int64: OneShot<Receipt.Outcome>] = [:]
        /// Counts changes of what is visible.
        var revision: UInt64 = 0
        /// Every operation up to here is known.
        var lastSequence: Int64 = 0
        /// The operation that was taken in last, in this process.
        var lastTaken: Int64 = 0
        /// What the files' versions were when they were read.
        var versions: [Int64] = []
        var isOpen = false
        /// Whether the outbox could not be opened, so that nothing is taken in.
        var isOutboxMissing = false
        var isForeground: Bool
        var isOnline: Bool
        var isActive = false
        var isLive = false
        /// Why nothing is done any more.
        var ending: SanguineError?
        var isRepairing = false
        var sending: Sending?
        var puller: Run?
        var mustPullAgain = false
        var pullFailures = 0
        var runs: UInt64 = 0
        /// Waits for the next push, the next pull, and the next look at the files.
        var waking: Task<Void, Never>?
        var polling: Task<Void, Never>?
        var watching: Task<Void, Never>?
        var followings: [SignalFollowing] = []
        var live: LiveFeed?
        var restored = 1.0
    }

    let guarded: Mutex<Guarded>
    let serial = Mutex(())
    let environment: SyncEnvironment
    let network: SyncNetwork?
    let outbox: OutboxFile
    let observers: RecordObservers
    let unreadable: UnreadableRecords

    /// Creates the keeper; `network` is `nil` in a companion, and where there is no server.
    init(
        environment: SyncEnvironment,
        outbox: OutboxFile,
        observers: RecordObservers,
        network: SyncNetwork?
    ) {
        self.environment = environment
        self.network = network
        self.outbox = outbox
        self.observers = observers
        unreadable = UnreadableRecords(logger: environment.logger)
        guarded = Mutex(
            Guarded(
                state: Self.freshState(environment, position: 0),
                isForeground: network?.lifecycle.isForeground.value ?? true,
                isOnline: network?.connectivity.isOnline.value ?? true
            )
        )
    }

    /// Goes on with what an earlier process left.
    func start() { if outbox.isThere { activate() } }

    /// Ends all that is under way; operations stay on disk, and the outbox's file open.
    ///
    /// - Returns: What tells those who wait.
    func end(_ reason: SanguineError) -> @Sendable () -> Void {
        closeLive()
        let (receipts, sending, puller, tasks, records) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            guarded.followings = []
            defer {
                guarded.state = Self.freshState(environment, position: 0)
                guarded.base = .empty
                guarded.records = nil
                guarded.rows = [:]
                guarded.receipts = [:]
                guarded.revision += 1
                (guarded.sending, guarded.puller) = (nil, nil)
                (guarded.waking, guarded.polling, guarded.watching) = (nil, nil, nil)
            }
            return (
                Array(guarded.receipts.values), guarded.sending, guarded.puller,
                [guarded.waking, guarded.polling, guarded.watching], guarded.records
            )
        }
        for task in tasks { task?.cancel() }
        puller?.task?.cancel()
        for flight in sending?.flights.values ?? [:].values { flight.cancel() }
        // A page that is being written comes wholly before.
        serial.withLock { _ in records?.close() }
        let outcomes = [sending?.outcome, puller?.outcome].compactMap { $0 }
        return {
            for outcome in outcomes { outcome.resolve(.failure(reason)) }
            for receipt in receipts { receipt.resolve(.failure(reason)) }
        }
    }

    /// How much of a long feed is restored, now and after each change.
    func restoreProgress() -> AsyncStream<Double> {
        guarded.withLock { environment.restores.stream(from: $0.restored) }
    }

    /// How much of a long feed is restored, from 0 to 1.
    var restored: Double { guarded.withLock { $0.restored } }

    /// Whether somebody uses records.
    var isActive: Bool { guarded.withLock { $0.isActive } }

    // MARK: - Opening

    /// Opens what is needed, if it is not open yet.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if there are no records, or no outbox: without the
    ///   outbox records are read all the same.
    func open(_ guarded: inout Guarded) throws(SanguineError) {
        if let ending = guarded.ending { throw ending }
        guard !guarded.isOpen || guarded.isOutboxMissing else { return }
        do {
            let records =
                try guarded.records
                ?? RecordsFile(
                    folder: environment.folder,
                    schema: environment.schema,
                    isReader: environment.isCompanion,
                    report: environment.report
                )
            guarded.records = records
            guarded.isOpen = true
            guarded.isOutboxMissing = true
            try load(&guarded, from: records)
            guarded.isOutboxMissing = false
        } catch {
            throw .store(.readFailed("\(error)"))
        }
    }

    /// Reads position and operations.
    private func load(_ guarded: inout Guarded, from records: RecordsFile) throws {
        guarded.versions = environment.isCompanion ? [try records.version()] : []
        let place = try records.place()
        guarded.base = RecordsFile.Base(file: records, space: place?.space ?? 0)
        guarded.state = Self.freshState(environment, position: place?.position ?? 0)
        guarded.rows = [:]
        guarded.revision += 1
        guarded.versions.append(try outbox.version())
        if !guarded.isOnline { guarded.state.set(.offline, true) }
        // The number first: what another process adds in between is then looked for.
        let last = try outbox.lastSequence()
        let rows = try outbox.rows(.mutator)
        var settled: [OutboxState.Record] = []
        for row in rows { settled += try take(row, in: &guarded).records }
        guarded.lastSequence = max(last, rows.last?.sequence ?? 0)
        if !environment.isCompanion { try outbox.write(settled) }
    }

    /// Takes an operation in that is on disk; its mutator is decoded if it was not rehearsed.
    func take(
        _ row: OutboxFile.Row,
        rehearsed rehearsal: Replay.Rehearsal? = nil,
        in guarded: inout Guarded
    ) throws -> SyncState.Effects {
        guarded.rows[row.sequence] = row
        if row.sequence == guarded.lastSequence + 1 { guarded.lastSequence = row.sequence }
        let operation = Replay.Operation(
            sequence: row.sequence,
            id: row.id,
            mutator: rehearsal?.mutator ?? mutator(of: row)
        )
        var item = OutboxState.Item(
            id: row.id,
            sequence: row.sequence,
            lane: row.lane,
            phase: row.phase
        )
        item.mayBeDone = row.mayBeDone
        guarded.revision += 1
        let effects = try guarded.state.add(
            operation,
            as: item,
            rehearsed: rehearsal,
            over: guarded.base
        )
        if guarded.state.outbox.items[row.sequence] == nil { guarded.rows[row.sequence] = nil }
        return effects
    }

    /// What another process has added to the outbox, or changed in either file.
    ///
    /// - Returns: Whether there was anything.
    func notice(_ guarded: inout Guarded) -> Bool {
        if environment.isCompanion, !guarded.isOpen, guarded.isActive {
            // The app had not made its files yet.
            do throws(SanguineError) { try open(&guarded) } catch { return false }
            return true
        }
        guard guarded.isOpen, let records = guarded.records else { return false }
        do {
            if environment.isCompanion {
                let versions = [try records.version(), try outbox.version()]
                guard versions != guarded.versions else { return false }
                records.cache.clear()
                try load(&guarded, from: records)
                return true
            }
            let version = try outbox.version()
            guard [version] != guarded.versions else { return false }
            guarded.versions = [version]
            let last = try outbox.lastSequence()
            let rows = try outbox.rows(.mutator, after: guarded.lastSequence)
            for row in rows where guarded.rows[row.sequence] == nil {
                guard !guarded.state.outbox.isFull else {
                    guarded.versions = []  // There is more, for when there is room.
                    return true
                }
                _ = try take(row, in: &guarded)
            }
            guarded.lastSequence = max(last, rows.last?.sequence ?? 0)
            return !rows.isEmpty
        } catch {
            failed(error, &guarded)
            return false
        }
    }

    private func mutator(of row: OutboxFile.Row) -> any Mutator {
        guard let type = environment.schema.mutator(row.name),
            let mutator = try? JSONDecoder().decode(type, from: row.arguments)
        else { return UnknownMutator(lane: row.lane) }
        return mutator
    }

    static func freshState(_ environment: SyncEnvironment, position: Int64) -> SyncState {
        SyncState(
            schema: environment.schema,
            outbox: OutboxState(
                limit: RecordLimits.operations,
                batch: WireLimits.pushedOperations,
                parallel: RecordLimits.pushFlights
            ),
            position: position
        )
    }

    // MARK: - Failures

    /// Takes note of a failure of the records' file; a damaged one is restored from the server.
    func failed(_ error: any Error, _ guarded: inout Guarded) {
        guard guarded.ending == nil else { return }
        environment.logger.error("The records failed.", metadata: ["reason": "\(error)"])
        guard SQLiteFile.isDamage(error), !environment.isCompanion, !guarded.isRepairing else {
            return environment.report("\(error)")
        }
        guarded.isRepairing = true
        guarded.base = .empty  // Nothing of it is shown, and operations are taken in.
        Task { repair(error) }
    }

    private func repair(_ reason: any Error) {
        serial.withLock { _ in
            guarded.withLock { guarded in
                guarded.isRepairing = false
                guard let records = guarded.records, guarded.ending == nil else { return }
                do {
                    try records.begin(afresh: reason)
                    try load(&guarded, from: records)
                } catch {
                    environment.report("\(error)")
                }
            }
        }
        observers.changed(nil)
        pull()
    }
}

/// Stands for an operation that this version of the app does not know: it is sent, and not shown.
private struct UnknownMutator: Mutator {
    static let name = "unknown"
    let lane: String

    func apply(to records: inout Records) throws {
        throw Refusal(.mutatorUnknown, "Declare the mutator in the client's schema.")
    }
}
