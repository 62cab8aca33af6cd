import Foundation
import SanguineModel

/// A page of an account's feed: records and system records, ordered by their numbers.
struct FeedPage: Sendable {
    /// One change, with its value as JSON.
    struct Entry: Sendable {
        var collection: String
        var id: RecordID
        var seq: Int64
        var through: Int64
        var value: [UInt8]?
    }

    var entries: [Entry] = []
    var next: Int64
    var head: Int64
    var hasMore = false
    var isReset: Bool
    var horizon: Int64
    var epoch: Epoch
    var operations: [PushResult]?

    /// Selects the entries of the page.
    ///
    /// - Parameters:
    ///   - slice: The records.
    ///   - system: The system records with numbers greater than the query's.
    ///   - cut: The limits of the page.
    ///   - least: The number through which all changes were read; the cut takes all of them.
    ///   - head: The newest number of the feed.
    ///   - horizon: The largest feed number of a forgotten deletion.
    ///   - epoch: The epoch of the numbers.
    ///   - begunAt: The head at which a reader began its first full read; 0 for any other reader.
    ///   - isReset: Whether the reader must delete its records first.
    init(
        _ slice: FeedSlice,
        _ system: [Entry],
        cut: FeedCut,
        least: Int64,
        head: Int64,
        horizon: Int64,
        epoch: Epoch,
        begunAt: Int64,
        isReset: Bool
    ) {
        self.head = head
        self.epoch = epoch
        self.isReset = isReset
        next = head
        var cut = cut
        // More records may follow the last one of the slice, but all up to `least` were read.
        let known = slice.hasMore ? max(least, slice.records.last?.through ?? 0) : .max
        let all = (slice.records.map(Entry.init) + system.filter { $0.seq <= known })
            .sorted { $0.seq < $1.seq }
        for entry in all {
            guard cut.takes(seq: entry.seq, through: entry.through, entry.value?.count ?? 0) else {
                hasMore = true
                break
            }
            entries.append(entry)
        }
        hasMore = hasMore || slice.hasMore
        // The reader never received records that were deleted before it began.
        self.horizon = hasMore ? max(horizon, begunAt) : horizon
        // The number itself may have no entry.
        if hasMore { next = max(entries.last?.through ?? 0, least) }
    }

    /// Adds a change that takes no number of the feed and no room of the page.
    mutating func lead(with entry: Entry?) {
        if let entry { entries.insert(entry, at: 0) }
    }

    /// Returns the page as a message.
    func answer() throws(Problem) -> PullAnswer {
        var changes: [RecordChange] = []
        for entry in entries {
            var value: JSONValue?
            if let json = entry.value {
                value = try? JSONValue(stored: json)
                guard value != nil else { throw .unreadableRecord }
            }
            changes.append(entry.change(value))
        }
        return PullAnswer(
            changes: changes,
            next: next,
            head: head,
            hasMore: hasMore,
            reset: isReset,
            horizon: horizon > 0 ? horizon : nil,
            epoch: epoch,
            operations: operations
        )
    }

    /// Returns the page as JSON, with the values as they are stored.
    func json() -> [UInt8] {
        var frame = PullAnswer(changes: [], next: next, head: head, hasMore: hasMore)
        frame.reset = isReset
        frame.horizon = horizon > 0 ? horizon : nil
        frame.epoch = epoch
        frame.operations = operations
        var bytes = Array("{\"changes\":[".utf8)
        for (index, entry) in entries.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes += entry.json
        }
        // The encoded answer begins with the same member, which is empty.
        bytes += ResponseEncoder.encode(frame).dropFirst("{\"changes\":[".utf8.count)
        return bytes
    }
}

extension FeedPage.Entry {
    init(_ row: RecordRow) {
        collection = row.name.collection
        id = row.name.id
        seq = row.seq
        through = row.through
        value = row.isLive ? row.value : nil
    }

    init(system collection: String, _ id: RecordID, seq: Int64, _ value: [UInt8]) {
        self.collection = collection
        self.id = id
        self.seq = seq
        through = seq
        self.value = value
    }

    func change(_ value: JSONValue?) -> RecordChange {
        RecordChange(
            collection: collection,
            id: id,
            seq: seq,
            through: through == seq ? nil : through,
            deleted: value == nil,
            value: value
        )
    }

    // Collections and ids contain no characters that JSON escapes.
    var json: [UInt8] {
        var text = """
            {"collection":"\(collection)","deleted":\(value == nil),"id":"\(id)","seq":\(seq)
            """
        if through != seq { text += ",\"through\":\(through)" }
        guard let value else { return Array(text.utf8) + [UInt8(ascii: "}")] }
        return Array(text.utf8) + Array(",\"value\":".utf8) + value + [UInt8(ascii: "}")]
    }
}
