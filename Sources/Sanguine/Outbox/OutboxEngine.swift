import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// Adds, shows and sends one user's operations, and resumes after a crash.
///
/// ``OutboxState`` decides what is sent and when. An ``OutboxDriver`` for each kind of operation
/// shows, sends and settles them.
///
/// Invariants:
///
/// 1. An operation is durable before it is visible, visible before it is sent, and marked as sent
///    before its request leaves.
/// 2. Nothing is added, shown, sent or written after ``end(_:)``.
/// 3. There are at most as many sends and pending retries as ``OutboxState`` allows; none after
///    ``end(_:)``.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held across an `await`, over
/// the cache or over app code other than record mutations, ``Superseding`` and the decoding of
/// operations. The outbox's and the records' files may be read and written under it.
///
/// This is a class with a lock and not an actor, because performing and reading return at once.
final class OutboxEngine: Sendable {
    typealias Shot = OneShot<Receipt.Outcome>

    struct RunningSend {
        let kind: OutboxState.Kind
        let task: Task<Void, Never>
    }

    /// A pending retry of a group.
    struct Waking {
        let task: Task<Void, Never>
        /// The time at which it is due, by the device's clock.
        let due: Timestamp
    }

    struct Guarded {
        var contents: OutboxContents
        var drivers: [OutboxState.Kind: any OutboxDriver] = [:]
        /// The kinds whose operations on disk are all loaded.
        var loaded: Set<OutboxState.Kind> = []
        var receipts: [Int64: Shot] = [:]
        /// The error of the last send of each queued operation.
        var failures: [Int64: SanguineError] = [:]
        /// The progress of each operation that is being sent with bytes, files or forms.
        var uploads: [Int64: UploadProgress] = [:]
        var sends: [UInt64: RunningSend] = [:]
        /// The pending retry of each group.
        var waking: [OutboxState.RetryGroup: Waking] = [:]
        /// Looks for writes of other processes.
        var watching: Task<Void, Never>?
        var followings: [ObservationToken] = []
        /// All operations up to this sequence number are loaded.
        var lastSequence: Int64 = 0
        /// The file's version at the last read; `nil` if there may be more to read.
        var version: Int64?
        /// The reason why the engine has ended.
        var ending: SanguineError?
    }

    let guarded: Mutex<Guarded>
    /// Fails when callers that wait for a user who has left are notified.
    private let gone = OneShot<Void>()
    let file: OutboxFile
    let environment: OutboxEnvironment

    /// Creates the engine; files are opened at the first use.
    init(_ environment: OutboxEnvironment, _ file: OutboxFile) {
        self.environment = environment
        self.file = file
        guarded = Mutex(Guarded(contents: Self.contents(environment)))
    }

    /// Sets the driver of each kind; called once, before anything else.
    func drive(_ drivers: [OutboxState.Kind: any OutboxDriver]) {
        guarded.withLock { $0.drivers = drivers }
    }

    private static func contents(_ environment: OutboxEnvironment) -> OutboxContents {
        let limits: [OutboxState.Kind: OutboxState.Limits] = [
            .record: .init(
                operations: WireLimits.pushedOperations,
                sends: RecordLimits.concurrentPushes
            ),
            .remote: .init(operations: 1, sends: RecordLimits.concurrentMutations),
            .upload: .init(operations: 1, sends: RecordLimits.concurrentUploads),
        ]
        let outbox = OutboxState(limit: RecordLimits.operations, limits)
        return OutboxContents(
            state: SyncState(schema: environment.schema, outbox: outbox, position: 0)
        )
    }

    // MARK: - Start and end

    /// Follows the app and the network, and resumes the operations of an earlier process.
    func start() {
        let (lifecycle, connectivity) = (environment.lifecycle, environment.connectivity)
        guarded.withLock { guarded in
            guarded.followings = [
                lifecycle.isForeground.follow { [weak self] in self?.lifecycleChanged() },
                connectivity.isOnline.follow { [weak self] in self?.networkChanged() },
            ]
        }
        // Reads changes that happened since the engine was created.
        readSignals()
        guard file.isUsed else { return }
        do throws(SanguineError) { try open(.remote) } catch { report(error) }
        sendQueued()
    }

    /// Cancels all sends and retries.
    ///
    /// Operations stay on disk, and the outbox's file stays open.
    ///
    /// - Returns: A closure that notifies waiting callers, and the records' file, which is still
    ///   open.
    func end(_ reason: SanguineError) -> (tell: @Sendable () -> Void, records: RecordsFile?) {
        let (tasks, receipts, records) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            defer {
                let revision = guarded.contents.revision
                guarded = Guarded(contents: Self.contents(environment), ending: guarded.ending)
                guarded.contents.revision = revision + 1
            }
            let tasks = guarded.sends.values.map(\.task) + guarded.waking.values.map(\.task)
            return (
                tasks + [guarded.watching].compactMap(\.self), Array(guarded.receipts.values),
                guarded.contents.records
            )
        }
        for task in tasks { task.cancel() }
        let tell: @Sendable () -> Void = { [gone] in
            gone.resolve(.failure(reason))
            for receipt in receipts { receipt.resolve(.failure(reason)) }
        }
        return (tell, records)
    }

    /// Throws the reason why the engine has ended, once the next user is current.
    func checkPresence() async throws(SanguineError) {
        if ending != nil { try await gone.value() }
    }

    /// The reason why the engine has ended; `nil` while its user is current.
    var ending: SanguineError? { guarded.withLock { $0.ending } }

    /// Resumes sending with a new token.
    ///
    /// The first sign-in also loads operations of the user's earlier sessions.
    func signedIn(isFirst: Bool) {
        guarded.withLock { guarded in
            for kind in OutboxState.Kind.allCases {
                guarded.contents.state.outbox.set(.signIn(kind), false)
            }
        }
        if isFirst { loadMore() }
        wake()
    }

    /// Resumes sending after the app's own backend has answered 401.
    func resume() {
        guarded.withLock { $0.contents.state.outbox.set(.signIn(.remote), false) }
        wake()
    }

    // MARK: - Access

    /// Changes the guarded contents; returns `nil` if the engine has ended.
    func update<Value, Failure: Error>(
        _ body: (inout OutboxContents) throws(Failure) -> Value
    ) throws(Failure) -> Value? {
        try guarded.withLock { guarded throws(Failure) in
            guard guarded.ending == nil else { return nil }
            return try body(&guarded.contents)
        }
    }

    /// Reads the guarded contents, which are empty after the engine has ended.
    func read<Value, Failure: Error>(
        _ body: (borrowing OutboxContents) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try guarded.withLock { guarded throws(Failure) in try body(guarded.contents) }
    }

    /// Notifies callers of the outcomes of operations and forgets operations that are over.
    func deliverOutcomes(_ steps: [OutboxState.Step]) {
        let now = environment.clock.now()
        logEnds(steps)
        let ended = guarded.withLock { guarded in
            steps.reduce(into: [(Shot, Receipt.Outcome)]()) { ended, step in
                guarded.apply(step).map { ended.append($0) }
                if case .deferred(let sequence, _, _) = step {
                    wait(for: sequence, at: now, &guarded)
                }
            }
        }
        for (receipt, outcome) in ended { receipt.resolve(.success(outcome)) }
    }

    /// Logs which operations are over, while their rows are known.
    private func logEnds(_ steps: [OutboxState.Step]) {
        guard let log = environment.metrics?.steps else { return }
        for step in steps {
            switch step {
            case .removed(let sequences):
                let rows = read { contents in sequences.compactMap { contents.rows[$0] } }
                for row in rows { log.log(.settled, .operation(row.name, row.id)) }
            case .refused(let sequence, let problem):
                guard let row = read({ $0.rows[sequence] }) else { continue }
                let code = SanguineError.problem(problem).metricsCode
                log.log(.refused, .operation(row.name, row.id), code: code)
            case .sending, .acknowledged, .reopened, .deferred: continue
            }
        }
    }

    /// Notifies the outbox's observers that it may have changed.
    func changed() { environment.notifier.changed() }

    func report(_ error: any Error) {
        guard ending == nil else { return }
        environment.report("\(error)", "The outbox could not be read or written.")
    }

    // MARK: - Loading

    /// Loads all operations of a kind from disk, if they are not loaded yet.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if they cannot be read.
    func open(_ kind: OutboxState.Kind) throws(SanguineError) {
        // Other operations are held until the files that they name are uploaded.
        if kind != .upload, guarded.withLock({ $0.drivers[.upload] != nil }) { try open(.upload) }
        let shown = try guarded.withLock { guarded throws(SanguineError) -> [Shown]? in
            if let ending = guarded.ending { throw ending }
            guard !guarded.loaded.contains(kind) else { return nil }
            return try load(kind, &guarded)
        }
        if let shown { show(shown) }
    }

    private func load(
        _ kind: OutboxState.Kind,
        _ guarded: inout Guarded
    ) throws(SanguineError) -> [Shown] {
        guard let driver = guarded.drivers[kind] else { return [] }
        do {
            try driver.open(&guarded.contents)
            // The version first, so that rows which another process adds in between are found
            // later.
            let (version, last) = (try file.version(), try file.lastSequence())
            let shown = try file.rows(kind).map { admit($0, driver, &guarded) }
            // Other processes add only record mutations, so the version matters for these only.
            if kind == .record {
                guarded.version = version
                guarded.lastSequence = max(guarded.lastSequence, last)
            }
            guarded.loaded.insert(kind)
            return shown
        } catch {
            throw .store(.readFailed("\(error)"))
        }
    }

    private func admit(
        _ row: OutboxFile.Row,
        _ driver: any OutboxDriver,
        _ guarded: inout Guarded
    ) -> Shown {
        var row = row
        if row.phase == .queued {
            do throws(SanguineError) {
                let resolved = try resolveFiles(in: row, &guarded)
                // If this fails, the next start does the same.
                if !resolved.isSame(as: row) { try? file.write([], rewriting: [resolved]) }
                row = resolved
            } catch {
                // Refused in memory only: it must not be sent, and the user decides.
                row.phase = .refused(error.asProblem ?? .localFileIsGone)
            }
        }
        return admit(row, &guarded) { driver.admit($0, to: &$1) }
    }

    /// Adds an operation that is on disk; returns the closure that shows it.
    func admit(
        _ row: OutboxFile.Row,
        _ guarded: inout Guarded,
        _ admit: (OutboxFile.Row, inout OutboxContents) -> Shown
    ) -> Shown {
        if row.sequence == guarded.lastSequence + 1 { guarded.lastSequence = row.sequence }
        let shown = admit(row, &guarded.contents)
        holdForFiles(row, &guarded)
        guard guarded.contents.state.outbox.items[row.sequence]?.isArriving == true else {
            return shown
        }
        return { [weak self] in
            shown()
            self?.arrived(row)
        }
    }

    /// Marks an operation as shown, or hides it if it was discarded in the meantime.
    private func arrived(_ row: OutboxFile.Row) {
        let hide = guarded.withLock { guarded -> Shown? in
            guarded.contents.state.outbox.arrived(row.sequence)
            guard guarded.contents.state.outbox.items[row.sequence] == nil else { return nil }
            return guarded.drivers[row.kind]?.discard([row.sequence], from: &guarded.contents)
        }
        hide?()
    }

    private func show(_ shown: [Shown]) {
        for show in shown { show() }
        changed()
        sendQueued()
    }

    /// Loads operations that an earlier session of the same user left behind.
    func loadMore() {
        guard file.isUsed else { return }
        do throws(SanguineError) { try open(.remote) } catch { return report(error) }
        let shown = guarded.withLock { guarded -> [Shown] in
            guard guarded.ending == nil else { return [] }
            do {
                if guarded.loaded.contains(.upload) {
                    guarded.contents.storedFiles.learn(try file.storedFiles())
                }
                return try more(&guarded, after: 0, of: guarded.loaded)
            } catch {
                environment.report("\(error)", "The outbox could not be read or written.")
                return []
            }
        }
        if !shown.isEmpty { show(shown) }
    }

    /// Loads operations that are on disk only, as long as there is room.
    private func more(
        _ guarded: inout Guarded,
        after sequence: Int64,
        of kinds: Set<OutboxState.Kind>
    ) throws -> [Shown] {
        var shown: [Shown] = []
        for row in try file.rows(after: sequence)
        where kinds.contains(row.kind) && guarded.contents.rows[row.sequence] == nil {
            guard let driver = guarded.drivers[row.kind] else { continue }
            guard !guarded.contents.state.outbox.isFull else {
                guarded.version = nil  // There is more; see `notice`.
                break
            }
            shown.append(admit(row, driver, &guarded))
        }
        return shown
    }

    // MARK: - Other processes

    /// Loads operations that another process has added.
    func loadForeignOperations() {
        let shown = guarded.withLock { notice(&$0) }
        if !shown.isEmpty { show(shown) }
    }

    /// Loads operations that another process has added; returns closures that show them without a
    /// lock.
    func notice(_ guarded: inout Guarded) -> [Shown] {
        // A full outbox looks again when there is room.
        guard guarded.ending == nil, guarded.loaded.contains(.record),
            !guarded.contents.state.outbox.isFull
        else { return [] }
        do {
            let version = try file.version()
            guard version != guarded.version else { return [] }
            // Without a known version, earlier rows may still have to be loaded.
            let known = guarded.version == nil ? 0 : guarded.lastSequence
            guarded.version = version
            let last = try file.lastSequence()
            let shown = try more(&guarded, after: known, of: guarded.loaded)
            if guarded.version != nil { guarded.lastSequence = max(guarded.lastSequence, last) }
            return shown
        } catch {
            environment.report("\(error)", "The outbox could not be read or written.")
            return []
        }
    }

    /// Loads all operations of a kind again after another process has changed them.
    ///
    /// None may be in progress in this process.
    func reload(_ kind: OutboxState.Kind) throws(SanguineError) {
        let shown = try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            let (records, revision) = (guarded.contents.records, guarded.contents.revision)
            guarded.contents = Self.contents(environment)
            (guarded.contents.records, guarded.contents.revision) = (records, revision + 1)
            guarded.lastSequence = 0
            return try load(kind, &guarded)
        }
        show(shown)
    }

    /// Looks for writes of other processes at intervals until the closure returns `false`.
    func watch(_ look: @escaping @Sendable () -> Bool) {
        guarded.withLock { guarded in
            guard guarded.watching == nil, guarded.ending == nil else { return }
            guarded.watching = Task { [weak self, delay = environment.delay] in
                while (try? await delay.sleep(for: RecordLimits.companionInterval)) != nil {
                    guard look() else { break }
                }
                guard !Task.isCancelled, let self else { return }
                self.guarded.withLock { $0.watching = nil }
                // A write may have arrived in that moment.
                if look() { watch(look) }
            }
        }
    }

    // MARK: - Signals

    /// Reads the state of the network, stores it and returns it.
    @discardableResult
    private func readSignals() -> Bool {
        // Read under the lock, so that the last reader is also the last writer.
        guarded.withLock { guarded in
            let isOnline = environment.connectivity.isOnline.value
            guarded.contents.state.outbox.set(.offline, !isOnline)
            return isOnline
        }
    }

    private func lifecycleChanged() {
        guard environment.lifecycle.isForeground.value else { return file.checkpointLog() }
        loadForeignOperations()
        becameActive()
    }

    private func networkChanged() { if readSignals() { becameActive() } }

    private func becameActive() {
        wake()
        for driver in guarded.withLock({ $0.drivers }).values { driver.becameActive() }
    }
}

extension OutboxEngine.Guarded {
    /// Applies a step; returns the receipt and the outcome to deliver, if the operation has one.
    fileprivate mutating func apply(
        _ step: OutboxState.Step
    ) -> (OutboxEngine.Shot, Receipt.Outcome)? {
        switch step {
        case .acknowledged(let sequence, _, _):
            return receipts.removeValue(forKey: sequence).map { ($0, .applied) }
        case .refused(let sequence, let problem):
            return receipts.removeValue(forKey: sequence).map { ($0, .refused(problem)) }
        case .deferred(let sequence, let since, let problem):
            failures[sequence] = .problem(problem)
            contents.rows[sequence]?.deferredSince = Timestamp(millisecondsSince1970: since)
            return nil
        case .removed(let sequences):
            for sequence in sequences { (contents.rows[sequence], failures[sequence]) = (nil, nil) }
            return nil
        case .sending, .reopened: return nil
        }
    }
}
