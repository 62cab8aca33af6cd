import Foundation
import SanguineModel

/// One user's threads beyond their records: the calls that the feed has not brought yet, and the
/// index of words.
///
/// No mutable state itself: each part guards its own.
final class UserThreads: Sendable {
    let pending: PendingMessages
    let index: MessageIndex

    init(_ pending: PendingMessages, _ index: MessageIndex) {
        (self.pending, self.index) = (pending, index)
    }

    /// Records that these records have changed; `nil` for all.
    func changed(_ keys: Set<RecordKey>?, in records: UserRecords) {
        pending.reconcile(keys, with: records)
        index.changed(keys, in: records)
    }

    /// Records that a restore has made records of these collections visible; `nil` for all.
    func restored(_ collections: Set<String>?, in records: UserRecords) {
        guard collections?.isDisjoint(with: ThreadContents.collections) != true else { return }
        changed(nil, in: records)
    }

    /// Ends all work for the user.
    func end() {
        pending.end()
        index.end()
    }

    // MARK: - Searching

    /// Finds threads and messages by the beginnings of words.
    func search(
        _ text: String,
        in area: String?,
        limit: Int,
        of records: UserRecords
    ) async throws(SanguineError) -> ThreadSearch {
        let words = SearchWords.words(of: text, limit: MessageLimits.searchWords)
        guard !words.isEmpty, limit > 0 else { return ThreadSearch(results: [], isComplete: true) }
        records.use()
        index.use(records)
        var search = Search(words: words, area: area, limit: limit)
        search.addUnsettled(of: records, pending.all)
        var place: Int64?
        var examined = 0
        var isExhausted = false
        while !search.isFull, !isExhausted, examined < MessageLimits.searchedPlaces {
            // An app that searches while the user types cancels the search for each earlier text.
            if Task.isCancelled { throw .cancelled }
            let page = min(limit * 2, MessageLimits.mostSearchResults)
            let found = try await index.search(words, before: place, limit: page, in: records)
            search.add(found, of: records)
            examined += found.count
            place = found.last?.place
            isExhausted = found.count < page
        }
        return ThreadSearch(
            results: search.sorted,
            isComplete: index.isComplete && records.isWhole && (search.isFull || isExhausted)
        )
    }

    /// The results of a search so far.
    private struct Search {
        let words: [String]
        let area: String?
        let limit: Int
        private(set) var results: [ThreadSearch.Result] = []
        private var known: Set<RecordKey> = []

        init(words: [String], area: String?, limit: Int) {
            (self.words, self.area, self.limit) = (words, area, limit)
        }

        var isFull: Bool { results.count >= limit }

        /// The newest results, by the time of the message or of the thread's last question.
        var sorted: [ThreadSearch.Result] {
            let sorted = results.sorted { ($1.time, $1.order) < ($0.time, $0.order) }
            return Array(sorted.prefix(limit))
        }

        /// Adds what the index cannot contain: titles with pending operations, and calls that the
        /// feed has not brought yet.
        mutating func addUnsettled(of records: UserRecords, _ exchanges: [PendingExchange]) {
            let name = ChatThread.collection.name
            let renamed = records.read(at: nil) { contents in
                contents.state.replay.changes(in: name).keys.map { RecordKey(name, $0) }
            }
            for key in renamed ?? [] { add(key, of: records) }
            let threads = Dictionary(grouping: exchanges, by: \.thread)
            for (id, exchanges) in threads {
                let stored = thread(id, of: records)
                guard let thread = stored ?? ThreadContents.thread(of: exchanges) else { continue }
                for message in exchanges.flatMap({ [$0.question, $0.answer] }) {
                    add(message, in: thread)
                }
            }
        }

        /// Adds places of the index, as the records are now.
        mutating func add(_ found: [SearchFile.Found], of records: UserRecords) {
            for place in found where !isFull { add(place.key, of: records) }
        }

        private mutating func add(_ key: RecordKey, of records: UserRecords) {
            guard !known.contains(key) else { return }
            guard key.collection == ChatMessage.collection.name else {
                guard let thread = thread(key.id, of: records), let title = thread.title,
                    isInArea(thread), SearchWords.isFound(words, in: title)
                else { return }
                known.insert(key)
                return results.append(ThreadSearch.Result(thread: thread, message: nil))
            }
            guard let value = records.value(key),
                let message: ChatMessage = records.unreadable.record(value, key.id),
                let thread = thread(message.thread, of: records)
            else { return }
            add(message, in: thread)
        }

        private mutating func add(_ message: ChatMessage, in thread: ChatThread) {
            let key = RecordKey(ChatMessage.collection.name, message.id)
            guard isInArea(thread), SearchWords.isFound(words, in: message.text),
                known.insert(key).inserted
            else { return }
            results.append(ThreadSearch.Result(thread: thread, message: message))
        }

        private func isInArea(_ thread: ChatThread) -> Bool { area == nil || thread.area == area }

        private func thread(_ id: RecordID, of records: UserRecords) -> ChatThread? {
            records.value(RecordKey(ChatThread.collection.name, id))
                .flatMap { records.unreadable.record($0, id) }
        }
    }
}
