import Foundation
import SanguineModel
import Synchronization

/// Restores a long feed from its start: several ranges at once, into a separate space on disk.
///
/// The ranges end at the head of the first page. Changes and deletions that happen while they are
/// read have later numbers, and are read afterwards, when the restore catches up. Only when it has
/// reached the end is the space complete, and becomes the base. The progress of each range is
/// stored with its records, so that a crash costs one page of each.
///
/// Mutable state: `state`, protected by its mutex.
final class FeedRestore: Sendable {
    private struct Progress {
        var part = 1.0
        var hasEnded = false
    }

    private let records: UserRecords
    private let requests: FeedRequests?
    private let state = Mutex(Progress())

    init(_ records: UserRecords, _ requests: FeedRequests?) {
        (self.records, self.requests) = (records, requests)
    }

    /// The number of the range that stands for catching up.
    private static let catchingUp = 0

    /// A page of a range, without its changes: they are written to the file as received.
    private struct RangePage: FeedPage {
        let next: Int64
        let hasMore: Bool
        let reset: Bool

        static func decoded(from response: TransportResponse) throws(SanguineError) -> RangePage {
            try WireCoding.decode(RangePage.self, from: response)
        }
    }

    /// Returns a restore that an earlier process, or a failure, left unfinished.
    func unfinished() throws(SanguineError) -> RecordsFile.Restore? {
        try records.writing { try $0.restore() } ?? nil
    }

    /// Begins a restore with the first page.
    func begin(
        with answer: PullAnswer
    ) throws(SanguineError) -> RecordsFile.Restore {
        applySwitches(answer)
        let head = max(answer.head, answer.next)
        let length = head / RecordLimits.restoreRangeNumbers
        let count = Int64(min(max(1, length), Int64(RecordLimits.restoreRanges)))
        var ranges = [
            RecordsFile.Range(
                number: Self.catchingUp,
                low: answer.horizon ?? 0,  // Stored here, for later requests.
                high: head,
                reached: head
            )
        ]
        for number in 1...count {
            let low = head / count * (number - 1)
            let high = number == count ? head : head / count * number
            ranges.append(.init(number: Int(number), low: low, high: high, reached: low))
        }
        ranges[1].reached = answer.next
        let restore = try records.writing { [ranges] records in
            let page = RecordPage(answer.changes)
            return try records.beginRestore(ranges, of: answer.epoch, with: page)
        }
        guard let restore else { throw .userChanged }
        return restore
    }

    /// Applies switches at once: they do not wait for the records.
    private func applySwitches(_ answer: PullAnswer) {
        for change in answer.changes where change.collection == Switches.collection {
            records.receive(switches: change, of: answer.epoch)
        }
    }

    /// Lets one range write at a time; ranges that wait block no thread.
    private actor Turn {
        func take(
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
        let open = restore.ranges.filter { $0.number != Self.catchingUp && !$0.isDone }
        progress(restore.ranges)
        let turn = Turn()
        let (isAbandoned, failure) = await withTaskGroup(of: Ending.self) { group in
            for range in open {
                group.addTask { [self] in await fill(range, of: restore, ask, turn) }
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
        if isAbandoned { return true }
        if let failure { throw failure }
        return try await catchUp(restore)
    }

    private func fill(
        _ range: RecordsFile.Range,
        of restore: RecordsFile.Restore,
        _ ask: FeedRequests.Ask,
        _ turn: Turn
    ) async -> Ending {
        var range = range
        do throws(SanguineError) {
            let reader = try pageReader()
            while !range.isDone {
                let answer = try await page(RangePage.self, since: range.reached, ask, restore)
                let page = answer.value
                guard !page.reset else {
                    try abandon()
                    return .abandoned
                }
                range.reached = page.hasMore ? max(page.next, range.reached + 1) : range.high
                let changes = try read(answer.response.body, with: reader)
                try await turn.take { [self, range] () throws(SanguineError) in
                    try write { try $0.write(changes, range, of: restore.space) }
                }
            }
            return .done
        } catch {
            return .failed(error)
        }
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

    private func pageReader() throws(SanguineError) -> RecordPageReader {
        do { return try RecordPageReader() } catch { throw .store(.readFailed("\(error)")) }
    }

    private func read(
        _ body: Data,
        with reader: RecordPageReader
    ) throws(SanguineError) -> RecordPage {
        do {
            return try reader.read(body)
        } catch let fault as RecordPage.Unreadable {
            throw .decoding("PullAnswer: \(fault.reason)")
        } catch {
            throw .store(.readFailed("\(error)"))
        }
    }

    private func catchUp(_ restore: RecordsFile.Restore) async throws(SanguineError) -> Bool {
        guard var range = restore.ranges.first(where: { $0.number == Self.catchingUp }) else {
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
            applySwitches(answer)
            range.reached = answer.next
            try write { [range] in
                try $0.write(RecordPage(answer.changes), range, of: restore.space)
            }
            guard !answer.hasMore else { continue }
            var batch = FeedRequests.batch(of: answer, to: now)
            batch.changes = []  // They are already there, with all others.
            batch.isReset = true
            batch.staged = restore.space
            let missing = records.receive(batch)
            set(progress: 1)
            return missing != .nothing
        }
    }

    private func write(_ body: (RecordsFile) throws -> Void) throws(SanguineError) {
        guard try records.writing(body) != nil else { throw .userChanged }
        if let ranges = try unfinished()?.ranges { progress(ranges) }
    }

    /// Drops a restore that the server can no longer complete.
    private func abandon() throws(SanguineError) {
        _ = try records.writing { [outbox = records.outbox] file in
            // A held batch could otherwise become the base later, but its space is deleted now.
            _ = outbox.update { $0.state.dropStaged() }
            try file.abandonRestore()
        }
        set(progress: 1)  // The next pull may need no restore.
    }

    // MARK: - Progress

    private func progress(_ ranges: [RecordsFile.Range]) {
        let ranges = ranges.filter { $0.number != Self.catchingUp }
        let whole = ranges.reduce(0) { $0 + max(1, $1.high - $1.low) }
        let done = ranges.reduce(0) { $0 + min($1.reached, $1.high) - $1.low }
        // The last part is for catching up.
        set(progress: 0.99 * Double(done) / Double(max(1, whole)))
    }

    private func set(progress part: Double) {
        state.withLock { state in
            // A user's progress is private: it does not change after their end.
            guard !state.hasEnded else { return }
            state.part = part
        }
    }

    /// The restored part of a long feed, from 0 to 1.
    var part: Double { state.withLock { $0.part } }

    /// Stops recording progress: the user is gone.
    func end() { state.withLock { $0.hasEnded = true } }
}
