import Foundation
import SanguineModel
import Synchronization

/// Restores a long feed from its start: several ranges at once, the newest first, into a separate
/// space on disk.
///
/// The ranges end at the head of the first page. Changes and deletions that happen while they are
/// read have later numbers, and are read after each round of ranges, and at the end. A page
/// contributes only the numbers of its range, so a later change is never overwritten by an older
/// page. The progress of each range is stored with its records, so that a crash costs one page of
/// each.
///
/// On a device without records, the restored ones are shown once the newest have arrived, as an
/// incomplete base; see ``SyncState/mayShow(restoreTo:of:)``. Otherwise the space becomes the base
/// when it is complete.
///
/// At most ``RecordLimits/restoreRanges`` pages are in memory.
///
/// Mutable state: `state`, protected by its mutex.
final class FeedRestore: Sendable {
    private struct Progress {
        /// The restored part; `nil` if no restore was necessary so far.
        var part: Double?
        var hasEnded = false
        var round = RecordLimits.restoreRoundRanges
    }

    /// The ranges that one attempt fetches.
    ///
    /// Mutable state: `plan`, `catchingUp` and `changes`, each protected by its mutex.
    private final class Run: Sendable {
        let restore: RecordsFile.Restore
        let ask: FeedRequests.Ask
        let plan: Mutex<RestorePlan>
        /// The range after the beginning, with the number that the shown records have reached.
        let catchingUp: Mutex<RecordsFile.Range>
        let changes = Mutex(RestoreChanges())
        let turn = Turn()

        init(_ restore: RecordsFile.Restore, _ ask: FeedRequests.Ask, round: Int) {
            (self.restore, self.ask) = (restore, ask)
            plan = Mutex(RestorePlan(restore, round: round))
            catchingUp = Mutex(restore.catchingUp ?? .init(number: 0, low: 0, high: 0, reached: 0))
        }
    }

    private let records: UserRecords
    private let requests: FeedRequests?
    private let state = Mutex(Progress())

    init(_ records: UserRecords, _ requests: FeedRequests?) {
        (self.records, self.requests) = (records, requests)
    }

    /// Sets the number of ranges after which the changes since the beginning are fetched.
    ///
    /// - Parameter ranges: The number. Default: ``RecordLimits/restoreRoundRanges``.
    func setRound(_ ranges: Int) { state.withLock { $0.round = ranges } }

    /// Returns a restore that an earlier process, or a failure, left unfinished.
    func unfinished() throws(SanguineError) -> RecordsFile.Restore? {
        try records.writing { try $0.restore() } ?? nil
    }

    /// Begins a restore with the first page.
    func begin(
        with answer: PullAnswer
    ) throws(SanguineError) -> RecordsFile.Restore {
        let head = max(answer.head, answer.next)
        let ranges = [
            RecordsFile.Range(
                number: RecordsFile.Range.catchingUp,
                low: answer.horizon ?? 0,  // Stored here, for later requests.
                high: head,
                reached: head
            ),
            RecordsFile.Range(number: 1, low: 0, high: answer.next, reached: answer.next),
        ]
        let restore = try records.writing { [outbox = records.outbox] file in
            // The space of a held batch is deleted now.
            _ = outbox.update { $0.state.dropStaged() }
            let page = RecordPage(answer.changes)
            return try file.beginRestore(ranges, of: answer.epoch, with: page)
        }
        guard let restore else { throw .userChanged }
        records.apply(system: answer.changes, isReset: answer.reset, answer.epoch)
        return restore
    }

    /// Lets one range write at a time; ranges that wait block no thread.
    private actor Turn {
        func perform(
            _ body: @Sendable () throws(SanguineError) -> Void
        ) throws(SanguineError) {
            try body()
        }
    }

    /// The way in which a range ended.
    private enum Ending {
        case done
        /// The server can no longer complete the restore: it was dropped.
        case abandoned
        case failed(SanguineError)
    }

    /// Restores the missing parts; returns whether the feed must be pulled.
    func go(
        on restore: RecordsFile.Restore,
        _ ask: FeedRequests.Ask
    ) async throws(SanguineError) -> Bool {
        let run = Run(restore, ask, round: state.withLock { $0.round })
        set(progress: run.plan.withLock { $0.part })
        repeat {
            run.plan.withLock { $0.beginRound() }
            guard try await fillRanges(run), try await refresh(run) else { return true }
        } while !run.plan.withLock { $0.isDone }
        return records.isShown(restore) ? complete(run) : try await catchUp(restore)
    }

    /// Fetches the ranges of a round; returns `false` if the restore was dropped.
    private func fillRanges(_ run: Run) async throws(SanguineError) -> Bool {
        let (isAbandoned, failure) = await withTaskGroup(of: Ending.self) { group in
            for _ in 0..<RecordLimits.restoreRanges {
                group.addTask { [self] in await fill(run) }
            }
            var isAbandoned = false
            var first: SanguineError?
            for await ending in group {
                switch ending {
                case .done: continue
                case .abandoned: isAbandoned = true
                case .failed(let failure): first = first ?? failure
                }
                group.cancelAll()
            }
            return (isAbandoned, first)
        }
        notify(of: run.changes.withLock { $0.rest() })
        if isAbandoned { return false }
        if let failure { throw failure }
        return true
    }

    /// Fetches the changes since the beginning while more ranges follow, if the records are shown;
    /// returns `false` if the restore was dropped.
    ///
    /// No range is fetched at the same time, so no page that the server read earlier can be stored
    /// after a deletion. Pages that may contain an operation that is shown are left for the end.
    private func refresh(_ run: Run) async throws(SanguineError) -> Bool {
        guard !run.plan.withLock({ $0.isDone }), records.isShown(run.restore) else { return true }
        while true {
            var range = run.catchingUp.withLock { $0 }
            let since = range.reached
            let answer = try await page(PullAnswer.self, since: since, run.ask, run.restore).value
            guard !answer.reset else {
                try abandon()
                return false
            }
            range.reached = max(answer.next, since)
            records.apply(system: answer.changes, isReset: false, run.restore.epoch)
            let page = RecordPage(answer.changes)
            let shown = try records.write(page, range, of: run.restore, mayShow: false)
            guard shown != .nothing else { return true }
            run.catchingUp.withLock { [range] in $0 = range }
            notify(of: run.changes.withLock { $0.stored(page, shown) })
            guard answer.hasMore, range.reached > since else { return true }
        }
    }

    /// Fetches ranges until none is left.
    private func fill(_ run: Run) async -> Ending {
        do throws(SanguineError) {
            while var range = run.plan.withLock({ $0.next() }) {
                while !range.isDone {
                    guard try await fillPage(of: &range, run) else { return .abandoned }
                }
            }
            return .done
        } catch {
            return .failed(error)
        }
    }

    /// Fetches and stores one page of a range; returns `false` if the restore was dropped.
    private func fillPage(
        of range: inout RecordsFile.Range,
        _ run: Run
    ) async throws(SanguineError) -> Bool {
        let start = range.reached
        let answer = try await page(ReceivedPage.self, since: start, run.ask, run.restore).value
        guard !answer.reset else {
            try abandon()
            return false
        }
        let next = answer.hasMore ? max(answer.next, start + 1) : range.high
        range.reached = min(next, range.high)
        // What follows belongs to other ranges, or to the changes since the beginning.
        let changes = answer.page.through(range.high)
        records.apply(system: changes.systemChanges, isReset: false, run.restore.epoch)
        try await run.turn.perform { [self, range] () throws(SanguineError) in
            try write(changes, range, from: start, run)
        }
        return true
    }

    private func write(
        _ page: RecordPage,
        _ range: RecordsFile.Range,
        from start: Int64,
        _ run: Run
    ) throws(SanguineError) {
        let isNewest = range.isDone && range.high == run.restore.head
        let mayShow = isNewest || run.plan.withLock { $0.hasNewest }
        let shown = try records.write(page, range, of: run.restore, mayShow: mayShow)
        let part = run.plan.withLock { plan in
            plan.stored(range, from: start, changes: page.changes.count)
            return plan.part
        }
        set(progress: part)
        notify(of: run.changes.withLock { $0.stored(page, shown) })
    }

    /// Notifies the observers of restored records.
    private func notify(of change: RestoreChanges.Change) {
        switch change {
        case .nothing: break
        case .collections(let names): records.notifyRestored(names)
        case .everything: records.notifyRestored(nil)
        }
    }

    /// Makes the shown records a base that lacks only the changes since the last ones that were
    /// stored; returns whether the feed must be pulled.
    private func complete(_ run: Run) -> Bool {
        let (restore, reached) = (run.restore, run.catchingUp.withLock { $0.reached })
        let answer = PullAnswer(
            changes: [],
            next: reached,
            head: reached + 1,  // It is unknown whether there are more.
            hasMore: true,
            horizon: restore.horizon,
            epoch: restore.epoch
        )
        let since = records.outbox.read { $0.state.pullPosition }
        return adopt(restore, SyncState.FeedBatch(answer, since: since))
    }

    /// Makes the restored records the base; returns whether the feed must be pulled.
    ///
    /// - Parameters:
    ///   - restore: The restore.
    ///   - last: The last page, which says how far the records reach. Its changes are stored.
    /// - Returns: Whether the feed must be pulled.
    private func adopt(_ restore: RecordsFile.Restore, _ last: SyncState.FeedBatch) -> Bool {
        var batch = last
        batch.changes = []
        batch.isReset = true
        batch.staged = restore.space
        return records.receive(batch) != .nothing
    }

    private func page<Page: FeedPage>(
        _ page: Page.Type,
        since: Int64,
        _ ask: FeedRequests.Ask,
        _ restore: RecordsFile.Restore
    ) async throws(SanguineError) -> ServerCall.Answer<Page> {
        guard let requests else { throw .notConfigured("'server'") }
        return try await requests.page(
            page,
            since: FeedMark(epoch: restore.epoch, number: since),
            ask,
            horizon: restore.horizon
        )
    }

    private func catchUp(_ restore: RecordsFile.Restore) async throws(SanguineError) -> Bool {
        guard var range = restore.catchingUp else {
            try abandon()
            return true
        }
        while true {
            // Each page asks about the operations open at that time: the last page decides.
            let now = records.outbox.read { FeedRequests.Ask($0.state) }
            let answer = try await page(PullAnswer.self, since: range.reached, now, restore).value
            guard !answer.reset else {
                try abandon()
                return true
            }
            range.reached = answer.next
            records.apply(system: answer.changes, isReset: false, restore.epoch)
            let page = RecordPage(answer.changes)
            _ = try records.write(page, range, of: restore, mayShow: false)
            guard !answer.hasMore else { continue }
            hasCaughtUp()
            return adopt(restore, FeedRequests.batch(of: answer, to: now))
        }
    }

    /// Drops a restore that the server can no longer complete.
    private func abandon() throws(SanguineError) { try records.dropRestore() }

    // MARK: - Progress

    /// Shows the progress of a restore that an earlier process left unfinished.
    func resume() {
        guard let restore = try? unfinished() else { return }
        set(progress: RestorePlan(restore).part)
    }

    /// Records that the feed was read to its end.
    func hasCaughtUp() {
        let isNew = state.withLock { state in
            guard !state.hasEnded, state.part.map({ $0 < 1 }) ?? false else { return false }
            state.part = 1
            return true
        }
        if isNew { records.observers.changed(in: [RestoreProgress.collection]) }
    }

    private func set(progress restored: Double) {
        let part = restored * RestoreProgress.beforeCatchingUp
        let isNew = state.withLock { state in
            // A user's progress is private: it does not change after their end.
            guard !state.hasEnded else { return false }
            let last = state.part ?? 0
            // A restore that starts over continues the progress of the dropped one.
            state.part = last < 1 ? max(last, part) : part
            return state.part != last
        }
        if isNew { records.observers.changed(in: [RestoreProgress.collection]) }
    }

    /// The restored part of a long feed, from 0 to 1; `nil` if no restore was necessary so far.
    var part: Double? { state.withLock { $0.part } }

    /// Whether a restore is in progress, or was interrupted.
    var isUnfinished: Bool { part.map { $0 < 1 } ?? false }

    /// The progress for the app.
    var progress: RestoreProgress {
        let (isWhole, position) = records.outbox.read { ($0.state.isWhole, $0.state.position) }
        let part = part
        guard !isWhole, requests != nil else {
            return RestoreProgress(fraction: part ?? 1, isComplete: true)
        }
        let most = RestoreProgress.beforeCatchingUp
        return RestoreProgress(
            fraction: min(most, part ?? (position > 0 ? most : 0)),
            isComplete: false
        )
    }

    /// Stops recording progress: the user is gone.
    func end() { state.withLock { $0.hasEnded = true } }
}

/// Collects the changes that observers must be notified of while a restore shows its records.
///
/// Observers read their records again, so they are notified when the shown records have grown by a
/// quarter, and not after each page.
private struct RestoreChanges {
    enum Change {
        case nothing
        /// Records of these collections.
        case collections(Set<String>)
        case everything
    }

    private var shown = 0
    private var notified = 0
    private var collections: Set<String> = []

    /// Records that a page was stored; returns the changes to notify observers of.
    mutating func stored(_ page: RecordPage, _ shown: UserRecords.Shown) -> Change {
        self.shown += page.changes.count
        switch shown {
        case .nothing: return .nothing
        case .everything:
            (notified, collections) = (self.shown, [])
            return .everything
        case .page:
            for change in page.changes { collections.insert(change.key.collection) }
            return self.shown - notified >= notified / 4 ? rest() : .nothing
        }
    }

    /// Returns the changes that observers have not been notified of.
    mutating func rest() -> Change {
        guard !collections.isEmpty else { return .nothing }
        defer { (notified, collections) = (shown, []) }
        return .collections(collections)
    }
}
