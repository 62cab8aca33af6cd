import Foundation
import SanguineModel

/// The move of a guest's records and files to an account.
///
/// Invariants:
/// 1. Each moved record has a number of its own in the account's feed, so that a page of the feed
///    can end after any of them.
/// 2. `feed` counts the account's records, tombstones and bytes as they will be stored.
/// 3. A thread that both sides have becomes one thread: the guest's messages follow those of the
///    account, so that no two messages have one position.
struct RecordMerge {
    /// The number of records that are read at a time.
    private static let page = 512
    private static let ofThreads = [ChatThread.collection.name, ChatMessage.collection.name]

    private let guest: Identifier
    private let account: Identifier
    private let schema: RecordSchema
    private let reader: any RecordReader

    /// The head of the account's feed, after the records so far.
    private(set) var head: Int64
    /// The totals of the account.
    private(set) var feed: FeedRow
    /// The changes to store, in order.
    private(set) var changes: [Change] = []
    /// The number of records that were moved.
    private(set) var records = 0
    /// The number of files that were moved.
    private(set) var blobs = 0
    /// The number of messages in each thread that a message of the same call replaced.
    private var replaced: [RecordID: Int] = [:]
    /// The numbers of records that refer to others.
    private(set) var tallies: RecordTallies
    /// The records that both sides have.
    private(set) var conflicts: [MergePreview.Conflict] = []

    init(
        of guest: Identifier,
        into account: Identifier,
        _ feed: FeedRow,
        head: Int64,
        schema: RecordSchema,
        reader: any RecordReader
    ) {
        self.guest = guest
        self.account = account
        self.feed = feed
        self.head = head
        self.schema = schema
        self.reader = reader
        tallies = RecordTallies(schema)
    }

    /// Moves the records, and removes the guest's tombstones.
    ///
    /// - Throws: the storage's error.
    mutating func moveRecords() throws {
        var last: Int64 = 0
        // After their messages, which they count.
        var threads: [RecordRow] = []
        while true {
            let rows = try reader.liveRecords(of: guest, after: last, limit: Self.page)
            for row in rows {
                if row.name.collection == ChatThread.collection.name {
                    threads.append(row)
                } else {
                    try move(row)
                }
            }
            guard rows.count == Self.page, let seq = rows.last?.seq else { break }
            last = seq
        }
        for row in threads { try move(row) }
        for row in try reader.tombstones(of: guest, limit: .max) {
            changes.append(.delete(.record(row.name)))
        }
    }

    /// Moves the files; a file that the account has as well is counted once.
    mutating func moveBlobs(_ rows: [BlobRow], known: [BlobRow]) {
        let known = Set(known.map(\.id))
        for var row in rows {
            changes.append(.delete(.blob(guest, row.id)))
            guard !known.contains(row.id) else { continue }
            row.account = account
            changes.append(.put(.blob(row)))
            feed.bytes += row.storedBytes
            blobs += 1
        }
    }

    private mutating func move(_ row: RecordRow) throws {
        let collection = schema.collection(row.name.collection)
        var new = row
        new.owner = account
        if row.name.scope != nil {
            new.name = RecordName(row.name.collection, in: account, row.name.id)
        }
        let old = new.name == row.name ? nil : try reader.record(new.name)
        var unindexed = entries(of: row, in: collection)
        if try leaves(row, in: collection) {
            changes += unindexed.map(Change.unindex) + [.delete(.record(row.name))]
            return
        }
        if new.name != row.name { changes.append(.delete(.record(row.name))) }
        new.value = try signed(try placed(row), in: collection)
        if let old {
            // A thread that the account has deleted continues with the guest's messages.
            let isRevived = !old.isLive && Self.ofThreads.contains(row.name.collection)
            let isKept = isRevived || guestWins(row, over: old, by: collection?.onMerge ?? .newer)
            conflicts.append(
                MergePreview.Conflict(
                    collection: row.name.collection,
                    id: row.name.id,
                    kept: isKept ? .guest : .account
                )
            )
            count(isKept ? old : row)
            if let collection {
                let dropped = (isKept ? old : row).liveFields
                try tallies.count(collection, from: dropped, to: nil, reader)
            }
            if let joined = try joined(row, old, isKept: isKept) {
                new = isKept ? new : old
                new.value = joined
            } else if !isKept {
                changes += unindexed.map(Change.unindex)
                return
            }
            if old.isLive { unindexed.formUnion(entries(of: old, in: collection)) }
        }
        head += 1
        (new.seq, new.through) = (head, head)
        let indexed = entries(of: new, in: collection)
        changes += unindexed.subtracting(indexed).map(Change.unindex)
        changes.append(.put(.record(new)))
        changes += indexed.map(Change.index)
        feed.count(new, replacing: old)
        records += 1
    }

    /// Returns the value with the account as its owner, if the collection names it in a member.
    private func signed(_ value: [UInt8], in collection: RecordCollection?) throws -> [UInt8] {
        guard let member = collection?.owner,
            let signed = try? RecordValue(json: Data(value))
                .setting(member, to: .string(account.description)).json()
        else { return value }
        return Array(signed)
    }

    /// Whether the account has a record that the guest's would repeat, such as a like of the same
    /// post, so that only the account's remains.
    private mutating func leaves(
        _ row: RecordRow,
        in collection: RecordCollection?
    ) throws -> Bool {
        guard let collection, !collection.unique.isEmpty else { return false }
        var signed = row
        signed.owner = account
        signed.value = try self.signed(row.value, in: collection)
        let own = entries(of: signed, in: collection).filter { StoredIndex.isUnique($0.list) }
        let holders = try own.flatMap { try reader.ids(in: $0.list, at: $0.key, limit: 2) }
        guard holders.contains(where: { $0 != row.name.id }) else { return false }
        try tallies.count(collection, from: row.liveFields, to: nil, reader)
        tallies.remove(row.name.id, of: collection.name)
        return true
    }

    /// Returns the value of a record of the guest, with a place behind the account's messages if it
    /// is a message of a thread that the account has as well.
    private func placed(_ row: RecordRow) throws -> [UInt8] {
        guard row.name.collection == ChatMessage.collection.name else { return row.value }
        let value = RecordValue(json: Data(row.value))
        guard let message = try? value.record(ChatMessage.self, id: row.name.id) else {
            return row.value
        }
        let name = RecordName(ChatThread.collection.name, in: account, message.thread)
        guard let thread = try reader.record(name), thread.isLive,
            let last = try? RecordValue(json: Data(thread.value))
                .record(ChatThread.self, id: message.thread).lastPosition
        else { return row.value }
        let position = last + message.position
        let order = ChatMessage.order(of: message.thread, at: position)
        return Array(
            try value.setting("position", to: .integer(Int64(position)))
                .setting(ChatMessage.byOrder.field, to: .string(order)).json()
        )
    }

    /// Counts a message that is not kept.
    private mutating func count(_ row: RecordRow) {
        guard row.name.collection == ChatMessage.collection.name, row.isLive,
            let message = try? RecordValue(json: Data(row.value))
                .record(ChatMessage.self, id: row.name.id)
        else { return }
        replaced[message.thread, default: 0] += 1
    }

    /// Returns the value of a thread that consists of those of both sides; `nil` for other records.
    ///
    /// The title, the area and the settings are those of one side; but a title of the user replaces
    /// one that a function made.
    private func joined(
        _ row: RecordRow,
        _ old: RecordRow,
        isKept: Bool
    ) throws -> [UInt8]? {
        guard row.name.collection == ChatThread.collection.name, old.isLive else { return nil }
        let (theirs, own) = (RecordValue(json: Data(row.value)), RecordValue(json: Data(old.value)))
        let both = [theirs, own].compactMap { try? $0.record(ChatThread.self, id: row.name.id) }
        guard both.count == 2 else { return nil }
        var value = isKept ? theirs : own
        let (kept, other) = isKept ? (both[0], both[1]) : (both[1], both[0])
        if let title = other.title, kept.titleSource != .own, other.titleSource == .own {
            value = try value.setting("title", to: .string(title))
                .setting("titleSource", to: .string(ChatThread.TitleSource.own.rawValue))
        }
        let messages = both.reduce(-replaced[row.name.id, default: 0]) { $0 + $1.messages }
        let last = both.reduce(0) { $0 + $1.lastPosition }
        let at = max(both[0].lastMessageAt, both[1].lastMessageAt)
        return Array(
            try value.setting("messages", to: .integer(Int64(messages)))
                .setting("lastPosition", to: .integer(Int64(last)))
                .setting(ChatThread.byLastMessage.field, to: at.json).json()
        )
    }

    private func guestWins(
        _ row: RecordRow,
        over old: RecordRow,
        by rule: RecordCollection.MergeRule
    ) -> Bool {
        switch rule {
        case .newer: row.updatedAt > old.updatedAt
        case .account: false
        case .guest: true
        }
    }

    /// Returns the entries of a record in all indexes; one that is not JSON has no members.
    private func entries(
        of row: RecordRow,
        in collection: RecordCollection?
    ) -> Set<IndexEntry> {
        guard let collection, !collection.storedIndexes.isEmpty else { return [] }
        let fields = (try? RecordValue(json: Data(row.value)).fields()) ?? [:]
        return collection.entries(of: row.name.id, owner: row.owner, fields)
    }
}
