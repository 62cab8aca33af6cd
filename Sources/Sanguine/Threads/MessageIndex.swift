import Foundation
import Logging
import SanguineModel
import Synchronization

/// Keeps the words of one user's messages and titles, and finds them.
///
/// The index follows the records in small steps in the background, from the moment at which it is
/// first used. It is only a hint: each result is read from the records again, so a search never
/// returns a text that is no longer there, or that belongs to another user.
///
/// At its first use in a process, all records are compared with the index by the feed's numbers of
/// their last changes, and only those that differ are read. Afterwards, changed records are indexed
/// one by one. After a failure, the index is incomplete until a search has compared all again.
///
/// Mutable state: the progress of the comparison, isolated to the actor; `waiting`, protected by
/// its mutex, which is never held during a call; and `opened`, whose mutex is held while the file
/// is opened, so that no file is made after the end.
actor MessageIndex {
    private struct Waiting {
        var isUsed = false
        var isRunning = false
        var hasEnded = false
        /// Whether all records must be compared with the index.
        var mustCompare = false
        var isComparing = false
        /// The changed records.
        var keys: Set<RecordKey> = []

        /// Whether all of the user's messages can be found.
        var isComplete: Bool { isUsed && !mustCompare && !isComparing && keys.isEmpty }
        var mustRun: Bool { isUsed && !hasEnded && (mustCompare || isComparing || !keys.isEmpty) }

        /// Removes and returns the changed records of one step, so that few texts are in memory.
        mutating func nextBatch() -> Set<RecordKey> {
            let some = Set(keys.prefix(MessageLimits.indexStep))
            keys.subtract(some)
            return some
        }
    }

    private struct Opened {
        var file: SearchFile?
        var hasEnded = false
    }

    /// The position of a comparison.
    private struct Comparison {
        var collection = 0
        var id: RecordID?
    }

    /// There are no records that can be indexed now.
    private struct RecordsMissing: Error {}

    private static let collections = [ChatThread.collection.name, ChatMessage.collection.name]

    nonisolated private let waiting = Mutex(Waiting())
    private let folder: URL?
    private let report: @Sendable (String) -> Void
    nonisolated private let opened = Mutex(Opened())
    private var comparison = Comparison()
    /// Whether a damaged index was replaced; it is not done twice.
    private var wasReplaced = false

    /// Creates the index; its file is opened at the first use.
    init(folder: URL?, report: @escaping @Sendable (String) -> Void) {
        self.folder = folder
        self.report = report
    }

    /// Whether records are being indexed.
    nonisolated var isRunning: Bool { waiting.withLock { $0.isRunning } }

    /// Whether all of the user's messages can be found.
    nonisolated var isComplete: Bool { waiting.withLock { $0.isComplete } }

    /// Records that these records have changed; `nil` for all.
    nonisolated func changed(_ keys: Set<RecordKey>?, in records: UserRecords) {
        let isAny = waiting.withLock { waiting in
            guard waiting.isUsed, !waiting.hasEnded else { return false }
            guard let keys else {
                waiting.mustCompare = true
                return true
            }
            let own = keys.filter { Self.collections.contains($0.collection) }
            waiting.keys.formUnion(own)
            if waiting.keys.count > MessageLimits.waitingForIndex {
                (waiting.keys, waiting.mustCompare) = ([], true)
            }
            return !own.isEmpty
        }
        if isAny { run(records) }
    }

    /// Begins to index the records.
    nonisolated func use(_ records: UserRecords) {
        let isFirst = waiting.withLock { waiting in
            guard !waiting.isUsed else { return false }
            (waiting.isUsed, waiting.mustCompare) = (true, true)
            return true
        }
        if isFirst { run(records) }
    }

    /// Ends all work; the user's folder may be removed afterwards.
    nonisolated func end() {
        waiting.withLock { $0.hasEnded = true }
        let file = opened.withLock { opened in
            opened.hasEnded = true
            return opened.file.take()
        }
        file?.close()
    }

    nonisolated private func run(_ records: UserRecords) {
        let mustStart = waiting.withLock { waiting in
            guard waiting.mustRun, !waiting.isRunning else { return false }
            waiting.isRunning = true
            return true
        }
        guard mustStart else { return }
        Task(priority: .utility) { [weak records] in
            while let records, await step(records) { await giveTurn() }
        }
    }

    // MARK: - Indexing

    /// Indexes some records; returns whether there is more to do.
    private func step(_ records: UserRecords) -> Bool {
        let keys = waiting.withLock { waiting -> Set<RecordKey>? in
            guard waiting.mustRun else {
                waiting.isRunning = false
                return nil
            }
            let some = waiting.nextBatch()
            if some.isEmpty, waiting.mustCompare {
                (waiting.mustCompare, waiting.isComparing) = (false, true)
                comparison = Comparison()
            }
            return some
        }
        guard let keys else { return false }
        do {
            let file = try openFile()
            if keys.isEmpty {
                try compare(records, file)
            } else {
                try index(Array(keys), records, file)
            }
        } catch is RecordsMissing {
            stop()
        } catch {
            failed(error)
        }
        return true
    }

    /// Indexes the changed records as soon as a search needs them.
    private func indexChanges(_ records: UserRecords) throws {
        while true {
            let keys = waiting.withLock { $0.nextBatch() }
            guard !keys.isEmpty else { return }
            try index(Array(keys), records, try openFile())
        }
    }

    private func index(
        _ keys: [RecordKey],
        _ records: UserRecords,
        _ file: SearchFile
    ) throws {
        var left = keys[...]
        while !left.isEmpty {
            let read = try Self.read(left, in: records)
            left = left.dropFirst(read.count)
            try file.replace(
                read.compactMap { $1.map(Self.place) },
                removing: read.filter { $1 == nil }.map(\.0)
            )
        }
    }

    /// Reads the first of these records, as many as may be in memory at once.
    private static func read(
        _ keys: ArraySlice<RecordKey>,
        in records: UserRecords
    ) throws -> [(RecordKey, NumberedRecord?)] {
        try newest(of: records) { base in
            var bytes = 0
            var read: [(RecordKey, NumberedRecord?)] = []
            for key in keys {
                let record = try base.numbered(key)
                read.append((key, record))
                bytes += record?.bytes ?? 0
                if bytes >= MessageLimits.indexStepBytes { break }
            }
            return read
        }
    }

    private static func newest<Value>(
        of records: UserRecords,
        _ body: (RecordsFile.Base) throws -> Value
    ) throws -> Value {
        let value = try records.readNewest { contents in
            let base = contents.base
            return try body(base)
        }
        guard let value else { throw RecordsMissing() }
        return value
    }

    private func compare(_ records: UserRecords, _ file: SearchFile) throws {
        let collection = Self.collections[comparison.collection]
        let (after, limit) = (comparison.id, MessageLimits.indexStep)
        let page = try Self.newest(of: records) { base in
            try base.numbers(of: collection, after: after, limit: limit)
        }
        let last = page.count < limit ? nil : page.last?.id
        var gone = try file.numbers(in: collection, after: after, through: last, limit: 2 * limit)
        // Those beyond the limit are looked at again, when the first ones are removed.
        let isPartial = gone.count == 2 * limit
        let changed = page.filter { gone.removeValue(forKey: $0.id) != $0.number }.map(\.id)
        if !gone.isEmpty {
            try file.replace([], removing: gone.keys.map { RecordKey(collection, $0) })
        }
        try index(changed.map { RecordKey(collection, $0) }, records, file)
        guard !isPartial else { return }
        if let last {
            comparison.id = last
        } else {
            comparison = Comparison(collection: comparison.collection + 1)
            if comparison.collection == Self.collections.count {
                waiting.withLock { $0.isComparing = false }
                comparison = Comparison()
            }
        }
    }

    private static func place(_ record: NumberedRecord) -> SearchFile.Place {
        var (text, time) = ("", Timestamp(millisecondsSince1970: 0))
        switch record.key.collection {
        case ChatThread.collection.name:
            guard let thread = try? record.value.record(ChatThread.self, id: record.key.id)
            else { break }
            (text, time) = (thread.title ?? "", thread.lastMessageAt)
        default:
            guard let message = try? record.value.record(ChatMessage.self, id: record.key.id)
            else { break }
            (text, time) = (message.text, message.createdAt)
        }
        return SearchFile.Place(
            key: record.key,
            number: record.number,
            time: time,
            words: SearchWords.words(of: text)
        )
    }

    // MARK: - Searching

    /// Returns places of records that contain all words, the newest first.
    ///
    /// - Parameters:
    ///   - words: The beginnings of words, at least one.
    ///   - place: The place after the first result; `nil` for the newest one.
    ///   - limit: The maximum number of results.
    ///   - records: The user's records.
    /// - Returns: The places.
    /// - Throws: ``SanguineError/store(_:)``.
    func search(
        _ words: [String],
        before place: Int64?,
        limit: Int,
        in records: UserRecords
    ) throws(SanguineError) -> [SearchFile.Found] {
        if waiting.withLock({ $0.hasEnded }) { throw .userChanged }
        do {
            if place == nil { try indexChanges(records) }
            return try openFile().search(words, before: place, limit: limit)
        } catch is RecordsMissing {
            stop()
            return []
        } catch {
            failed(error)
            throw .store(.readFailed("\(error)"))
        }
    }

    // MARK: - File

    private func openFile() throws -> SearchFile {
        try opened.withLock { opened in
            if opened.hasEnded { throw StoreError.closed }
            if let file = opened.file { return file }
            let file = try SearchFile(folder: folder, report: report)
            opened.file = file
            return file
        }
    }

    /// Replaces a damaged index; after any other failure, the next search tries again.
    private func failed(_ error: any Error) {
        let (file, hasEnded) = opened.withLock { ($0.file.take(), $0.hasEnded) }
        file?.close()
        guard !hasEnded else { return }
        report("The index of messages could not be read or written. (\(error))")
        let isReplaced = !wasReplaced && SQLiteFile.isDamage(error)
        if isReplaced, let folder { SearchFile.remove(from: folder) }
        wasReplaced = wasReplaced || isReplaced
        stop(mustCompare: isReplaced)
    }

    /// Stops indexing; without a comparison now, the next search begins with one.
    private func stop(mustCompare: Bool = false) {
        waiting.withLock { waiting in
            waiting.keys = []
            (waiting.isComparing, waiting.mustCompare) = (false, mustCompare)
            if !mustCompare { waiting.isUsed = false }
        }
    }
}
