import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// One user's operations put to work: takes them in, has them shown, sends them, and goes on after
/// a death.
///
/// ``OutboxState`` decides what is sent when. An ``OutboxDriver`` for each kind of operation says
/// what it is to show, send and settle one.
///
/// Invariants:
///
/// 1. An operation is durable before it is visible, visible before it is sent, and marked as sent
///    before it leaves.
/// 2. Nothing is taken in, shown, sent or written after ``end(_:)``.
/// 3. Flights, and waits before their next try, are as many as ``OutboxState`` allows; none after
///    ``end(_:)``.
///
/// Mutable state: `guarded`, by its mutex, never held over `await`, over the cache or over code of
/// the app other than record mutations, ``Superseding`` and the decoding of operations. The
/// outbox's and the records' files may be read and written under it.
///
/// A class with a lock and not an actor, because performing and reading answer at once.
final class OutboxEngine: Sendable {
    typealias Shot = OneShot<Receipt.Outcome>

    struct Flying {
        let kind: OutboxState.Kind
        let task: Task<Void, Never>
    }

    struct Guarded {
        var contents: OutboxContents
        var drivers: [OutboxState.Kind: any OutboxDriver] = [:]
        /// The kinds of which all that is on disk is known.
        var loaded: Set<OutboxState.Kind> = []
        var receipts: [Int64: Shot] = [:]
        /// What the last sending of each that waits has failed with.
        var failures: [Int64: SanguineError] = [:]
        /// How much of each that is on its way has been sent, if it sends bytes, files or forms.
        var uploads: [Int64: UploadProgress] = [:]
        var flights: [UInt64: Flying] = [:]
        /// Waits for the next try of a group.
        var waking: [OutboxState.RetryGroup: Task<Void, Never>] = [:]
        /// Looks for what another process writes.
        var watching: Task<Void, Never>?
        var followings: [ObservationToken] = []
        /// Every operation up to here is known.
        var lastSequence: Int64 = 0
        /// What the file's version was when it was read.
        var version: Int64?
        /// Why nothing is done any more.
        var ending: SanguineError?
    }

    let guarded: Mutex<Guarded>
    /// Fails when those who wait for a user who has left are told.
    private let gone = OneShot<Void>()
    let file: OutboxFile
    let environment: OutboxEnvironment

    /// Creates the engine; nothing is opened before it is used.
    init(_ environment: OutboxEnvironment, _ file: OutboxFile) {
        self.environment = environment
        self.file = file
        guarded = Mutex(Guarded(contents: Self.contents(environment)))
    }

    /// Says how operations are shown, sent and settled; once, before anything else.
    func drive(_ drivers: [OutboxState.Kind: any OutboxDriver]) {
        guarded.withLock { $0.drivers = drivers }
    }

    private static func contents(_ environment: OutboxEnvironment) -> OutboxContents {
        let limits: [OutboxState.Kind: OutboxState.Limits] = [
            .mutator: .init(
                operations: WireLimits.pushedOperations,
                flights: RecordLimits.pushFlights
            ),
            .mutation: .init(operations: 1, flights: RecordLimits.mutationFlights),
        ]
        let outbox = OutboxState(limit: RecordLimits.operations, limits)
        return OutboxContents(
            state: SyncState(schema: environment.schema, outbox: outbox, position: 0)
        )
    }

    // MARK: - Life

    /// Follows the app and the network, and goes on with what an earlier process left.
    func start() {
        let (lifecycle, connectivity) = (environment.lifecycle, environment.connectivity)
        guarded.withLock { guarded in
            guarded.followings = [
                lifecycle.isForeground.follow { [weak self] in self?.lifecycleChanged() },
                connectivity.isOnline.follow { [weak self] in self?.networkChanged() },
            ]
        }
        // What has changed since the engine was created.
        readSignals()
        guard file.isUsed else { return }
        do throws(SanguineError) { try open(.mutation) } catch { report(error) }
        kick()
    }

    /// Ends all that is under way; operations stay on disk, and the outbox's file open.
    ///
    /// - Returns: What tells those who wait, and the records' file, which is still open.
    func end(_ reason: SanguineError) -> (tell: @Sendable () -> Void, records: RecordsFile?) {
        let (tasks, receipts, records) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            defer {
                let revision = guarded.contents.revision
                guarded = Guarded(contents: Self.contents(environment), ending: guarded.ending)
                guarded.contents.revision = revision + 1
            }
            let tasks = guarded.flights.values.map(\.task) + guarded.waking.values
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

    /// Throws why nothing is done any more, once the next user is there.
    func checkPresence() async throws(SanguineError) {
        if ending != nil { try await gone.value() }
    }

    /// Why nothing is done any more; `nil` while the user is there.
    var ending: SanguineError? { guarded.withLock { $0.ending } }

    /// There is a token again; the first time operations of an earlier stay may have come, too.
    func signedIn(isFirst: Bool) {
        guarded.withLock { guarded in
            for kind in OutboxState.Kind.allCases {
                guarded.contents.state.outbox.set(.signIn(kind), false)
            }
        }
        if isFirst { loadMore() }
        wake()
    }

    /// Sends again what a 401 of the app's own backend has stopped.
    func resume() {
        guarded.withLock { $0.contents.state.outbox.set(.signIn(.mutation), false) }
        wake()
    }

    // MARK: - One change

    /// Changes what the lock guards; `nil` once the user is gone.
    func change<Value, Failure: Error>(
        _ body: (inout OutboxContents) throws(Failure) -> Value
    ) throws(Failure) -> Value? {
        try guarded.withLock { guarded throws(Failure) in
            guard guarded.ending == nil else { return nil }
            return try body(&guarded.contents)
        }
    }

    /// Reads what the lock guards; nothing is left of it once the user is gone.
    func read<Value, Failure: Error>(
        _ body: (borrowing OutboxContents) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try guarded.withLock { guarded throws(Failure) in try body(guarded.contents) }
    }

    /// Tells those who wait what has become of operations, and forgets those that are over.
    func tell(_ steps: [OutboxState.Step]) {
        let ended = guarded.withLock { guarded in
            steps.reduce(into: [(Shot, Receipt.Outcome)]()) { ended, step in
                guarded.take(step).map { ended.append($0) }
                if case .deferred(let sequence, _, _) = step { wait(for: sequence, &guarded) }
            }
        }
        for (receipt, outcome) in ended { receipt.resolve(.success(outcome)) }
    }

    /// Tells those who follow the outbox that it may have changed.
    func changed() { environment.news.changed() }

    func report(_ error: any Error) {
        if ending == nil { environment.report("\(error)", "The outbox failed.") }
    }

    // MARK: - Loading

    /// Makes sure that all operations of a kind that are on disk are known.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if they cannot be read.
    func open(_ kind: OutboxState.Kind) throws(SanguineError) {
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
            // The numbers first: what another process adds in between is then looked for.
            let (version, last) = (try file.version(), try file.lastSequence())
            let shown = try file.rows(kind).map { admit($0, driver, &guarded) }
            // Another process adds record mutations alone: that they are known is what these say.
            if kind == .mutator {
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
        admit(row, &guarded) { driver.admit($0, to: &$1) }
    }

    /// Takes an operation in that is on disk; returns what shows it.
    func admit(
        _ row: OutboxFile.Row,
        _ guarded: inout Guarded,
        _ admit: (OutboxFile.Row, inout OutboxContents) -> Shown
    ) -> Shown {
        if row.sequence == guarded.lastSequence + 1 { guarded.lastSequence = row.sequence }
        let shown = admit(row, &guarded.contents)
        guard guarded.contents.state.outbox.items[row.sequence]?.isArriving == true else {
            return shown
        }
        return { [weak self] in
            shown()
            self?.arrived(row)
        }
    }

    /// An operation is shown, unless it was discarded meanwhile.
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
        kick()
    }

    /// Takes in what an earlier stay of the same user has left.
    func loadMore() {
        guard file.isUsed else { return }
        do throws(SanguineError) { try open(.mutation) } catch { return report(error) }
        let shown = guarded.withLock { guarded -> [Shown] in
            guard guarded.ending == nil else { return [] }
            do {
                return try more(&guarded, after: 0, of: guarded.loaded)
            } catch {
                environment.report("\(error)", "The outbox failed.")
                return []
            }
        }
        if !shown.isEmpty { show(shown) }
    }

    /// Takes in what is on disk and not known, as far as there is room.
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
                guarded.version = nil  // There is more, see `notice`.
                break
            }
            shown.append(admit(row, driver, &guarded))
        }
        return shown
    }

    // MARK: - Other processes

    /// Takes in what another process has added to the outbox.
    func look() {
        let shown = guarded.withLock { notice(&$0) }
        if !shown.isEmpty { show(shown) }
    }

    /// What another process has added, to be shown under no lock.
    func notice(_ guarded: inout Guarded) -> [Shown] {
        // What there is no room for is looked for when there is some.
        guard guarded.ending == nil, guarded.loaded.contains(.mutator),
            !guarded.contents.state.outbox.isFull
        else { return [] }
        do {
            let version = try file.version()
            guard version != guarded.version else { return [] }
            // Some of before are still to be taken in, if it is not known how far that has come.
            let known = guarded.version == nil ? 0 : guarded.lastSequence
            guarded.version = version
            let last = try file.lastSequence()
            let shown = try more(&guarded, after: known, of: guarded.loaded)
            if guarded.version != nil { guarded.lastSequence = max(guarded.lastSequence, last) }
            return shown
        } catch {
            environment.report("\(error)", "The outbox failed.")
            return []
        }
    }

    /// Reads all of a kind anew: another process has changed it, in this one nothing is under way.
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

    /// Looks for what another process wrote, every now and then, until the body returns `false`.
    func watch(_ look: @escaping @Sendable () -> Bool) {
        guarded.withLock { guarded in
            guard guarded.watching == nil, guarded.ending == nil else { return }
            guarded.watching = Task { [weak self, delay = environment.delay] in
                while (try? await delay.sleep(for: RecordLimits.companionInterval)) != nil {
                    guard look() else { break }
                }
                guard !Task.isCancelled, let self else { return }
                self.guarded.withLock { $0.watching = nil }
                // Somebody may have come in that moment.
                if look() { watch(look) }
            }
        }
    }

    // MARK: - Signals

    /// Takes in, and returns, what the network says now.
    @discardableResult
    private func readSignals() -> Bool {
        // Read under the lock, so that the last one to read is the last one to write.
        guarded.withLock { guarded in
            let isOnline = environment.connectivity.isOnline.value
            guarded.contents.state.outbox.set(.offline, !isOnline)
            return isOnline
        }
    }

    private func lifecycleChanged() {
        guard environment.lifecycle.isForeground.value else { return file.tidyUp() }
        look()
        isBack()
    }

    private func networkChanged() { if readSignals() { isBack() } }

    private func isBack() {
        wake()
        for driver in guarded.withLock({ $0.drivers }).values { driver.isBack() }
    }
}

extension OutboxEngine.Guarded {
    /// Forgets an operation that is over; returns whom to tell what.
    fileprivate mutating func take(
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
