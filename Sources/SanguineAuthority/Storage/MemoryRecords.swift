import SanguineModel

/// The records of a storage in memory.
///
/// As a reader it knows records only; ``MemoryReader`` adds the other rows.
///
/// Invariants:
/// 1. `owned` has the names of exactly those records in `rows` that the account owns.
struct MemoryRecords: RecordReader {
    private(set) var rows: [RecordName: RecordRow] = [:]
    private var owned: [Identifier: Set<RecordName>] = [:]
    private(set) var lists: [IndexList: Set<IndexEntry>] = [:]

    func record(_ name: RecordName) -> RecordRow? { rows[name] }

    func ids(in list: IndexList, at key: IndexKey, limit: Int) -> [RecordID] {
        let found = (lists[list] ?? []).filter { $0.key == key }.map(\.id)
        return Array(found.sorted().prefix(max(0, limit)))
    }

    func tombstones(of account: Identifier, limit: Int) -> [RecordRow] {
        let dead = (owned[account] ?? []).compactMap { rows[$0] }.filter { !$0.isLive }
        return Array(dead.sorted { $0.seq < $1.seq }.prefix(max(0, limit)))
    }

    func records(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int,
        bytes: Int
    ) -> [RecordRow] {
        var room = max(1, bytes)
        let live = rows.values.filter { $0.name.collection == collection && $0.isLive }
        return live.filter { row in position.map { $0 < IndexBuild.Position(row.name) } ?? true }
            .sorted { IndexBuild.Position($0.name) < IndexBuild.Position($1.name) }
            .prefix(max(0, limit))
            .prefix { row in
                defer { room -= row.value.count }
                return room > 0
            }
    }

    func scopes(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int
    ) -> [Identifier?] {
        let used = lists.filter { $0.key.collection == collection && !$0.value.isEmpty }
        let scopes = Set(used.map { IndexBuild.Position($0.key.scope) })
        return scopes.filter { scope in
            position.map { IndexBuild.Position($0.scope) < scope } ?? true
        }
        .sorted().prefix(max(0, limit)).map(\.scope)
    }

    func liveRecords(of account: Identifier, after seq: Int64, limit: Int) -> [RecordRow] {
        let live = (owned[account] ?? []).compactMap { rows[$0] }
            .filter { $0.isLive && $0.seq > seq }
        return Array(live.sorted { $0.seq < $1.seq }.prefix(max(0, limit)))
    }

    func ownedRows(of account: Identifier) -> OwnedRows { OwnedRows() }

    func document(_ kind: DocumentKind, id: String) -> DocumentRow? { nil }

    func hasOperation(_ account: Identifier, key: String) -> Bool { false }

    func hasBlob(_ account: Identifier, _ id: BlobID) -> Bool { false }

    func entries(in list: IndexList, limit: Int) -> [IndexEntry] {
        Array((lists[list] ?? []).prefix(max(0, limit)))
    }

    /// Sets or removes a record; all changes of records go through this method.
    mutating func set(_ name: RecordName, to row: RecordRow?) {
        if let old = rows[name] { owned[old.owner]?.remove(name) }
        if let row { owned[row.owner, default: []].insert(name) }
        rows[name] = row
    }

    mutating func index(_ entry: IndexEntry) { lists[entry.list, default: []].insert(entry) }

    mutating func unindex(_ entry: IndexEntry) { lists[entry.list]?.remove(entry) }

    /// Returns a part of the feed, and whether more follows.
    func feed(_ query: FeedQuery) -> (records: [RecordRow], hasMore: Bool) {
        var due: [RecordRow] = []
        for name in owned[query.account] ?? [] {
            guard let row = rows[name], row.seq > query.after else { continue }
            if row.isLive || !query.liveOnly { due.append(row) }
        }
        due.sort { $0.seq < $1.seq }
        var cut = query.cut
        let page = due.prefix { cut.takes(seq: $0.seq, through: $0.through, $0.value.count) }
        return (Array(page), page.count < due.count)
    }

    /// Returns a part of the list.
    func records(_ query: RecordQuery) -> RecordList {
        if let timeline = query.timeline { return page(query, timeline) }
        var list = RecordList(query)
        for position in positions(query) {
            guard list.looksFurther() else { break }
            let row = rows[query.name(of: position.id)]
            let needed = query.entriesNeeded(by: position.id)
            let belongs = needed.allSatisfy { lists[$0.list]?.contains($0) ?? false }
            list.add(belongs && row?.isLive == true ? row : nil, at: position)
        }
        if query.countLimit > 0 { list.count = count(query) }
        return list
    }

    private func page(_ query: RecordQuery, _ timeline: RecordQuery.Timeline) -> RecordList {
        let followed = (lists[timeline.follows] ?? []).map(\.key).sorted().suffix(timeline.limit)
        var merge = TimelineMerge(after: query.after, Array(followed), own: timeline.own)
        let source = IndexList(query.collection, in: query.scope, by: timeline.list)
        let entries = lists[source] ?? []
        func add(_ author: Int, after position: RecordPosition? = nil) {
            let (key, id) = merge.start(of: author, after: position)
            let earlier = entries.filter { entry in
                guard entry.key == key, let id else { return entry.key < key }
                return entry.id < id
            }
            let next = earlier.max { ($0.key, $0.id) < ($1.key, $1.id) }
            if let next { merge.add(next.key, next.id, of: author) }
        }
        for author in merge.authors { add(author) }
        var list = RecordList(query)
        while let head = merge.next(), list.looksFurther() {
            let row = rows[query.name(of: head.position.id)]
            list.add(row?.isLive == true ? row : nil, at: head.position)
            add(head.author, after: head.position)
        }
        return list
    }

    private func count(_ query: RecordQuery) -> RecordCount {
        var whole = query
        whole.after = nil
        var count = RecordCount(query)
        for position in positions(whole) {
            guard count.looksFurther() else { break }
            let needed = query.entriesNeeded(by: position.id)
            count.add(belongs: needed.allSatisfy { lists[$0.list]?.contains($0) ?? false })
        }
        return count
    }

    private func positions(_ query: RecordQuery) -> [RecordPosition] {
        var found: [RecordPosition] = []
        if let (list, key) = query.path {
            for entry in lists[list] ?? [] where key == nil || entry.key == key {
                found.append(RecordPosition(entry.key, entry.id))
            }
        } else {
            for (name, row) in rows
            where name.collection == query.collection && name.scope == query.scope && row.isLive {
                found.append(RecordPosition(nil, name.id))
            }
        }
        found.removeAll { !query.isWithin($0) }
        if let after = query.after {
            found.removeAll { query.isDescending ? $0 >= after : $0 <= after }
        }
        found.sort { query.isDescending ? $1 < $0 : $0 < $1 }
        return found
    }

    /// Returns tombstones of records that were deleted before the moment, oldest first.
    func tombstones(before moment: Timestamp, limit: Int) -> [RecordRow] {
        var found: [(at: Timestamp, row: RecordRow)] = []
        for row in rows.values {
            if let at = row.deletedAt, at < moment { found.append((at, row)) }
        }
        found.sort { ($0.at, $0.row.name) < ($1.at, $1.row.name) }
        return found.prefix(max(0, limit)).map(\.row)
    }
}
