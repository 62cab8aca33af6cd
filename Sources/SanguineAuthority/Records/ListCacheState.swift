import SanguineModel

/// A page of a list that many accounts read.
struct SharedPage: Sendable {
    /// The items as a JSON array.
    var items: [UInt8]
    /// The position after which the list continues; `nil` at its end.
    var next: RecordPosition?
    /// The number of records of the whole list, if it was asked for.
    var count: ListCount?
    /// A hash of the above.
    private let hash: String

    /// Creates the page of the found items, with their requested members.
    init(_ items: [RecordChange], _ found: RecordList, fields: Set<String>?) {
        let values = fields.map { fields in JSONValue.array(items.map { $0.keeping(fields) }) }
        self.items = values.map { ResponseEncoder.encode($0) } ?? ResponseEncoder.encode(items)
        next = found.next
        count = found.count.map { ListCount(number: $0.number, isExact: $0.isExact) }
        let rest = count.map { "\($0.number)\($0.isExact)" } ?? ""
        hash = WireResponse.tag(of: self.items + rest.utf8).filter { $0 != "\"" }
    }

    /// Returns the body of the response, with a cursor that only its account can use.
    func body(cursor: String?) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(items.count + 256)
        body += "{".utf8
        if let count { body += "\"count\":".utf8 + ResponseEncoder.encode(count) + ",".utf8 }
        body += "\"hasMore\":\(cursor != nil),\"items\":".utf8
        body += items
        // A cursor is Base64URL, which needs no escaping.
        if let cursor { body += ",\"nextCursor\":\"\(cursor)\"".utf8 }
        body += "}".utf8
        return body
    }

    /// Returns the entity tag of the body.
    ///
    /// It depends on the cursor, because another account must not continue with this one's.
    func tag(cursor: String?) -> String { "\"\(hash)\(cursor.map { "-\($0.suffix(12))" } ?? "")\"" }
}

/// A page as the cache finds it: what is read, and which of its members.
struct SharedPageKey: Hashable, Sendable {
    var query: RecordQuery
    var fields: Set<String>?

    /// An estimate of the memory in bytes for a text or a key, besides its content.
    private static let overheadBytes = 64

    /// An estimate of the key's memory in bytes, most of which the request determines.
    var size: Int {
        let overhead = Self.overheadBytes
        var size = fields?.reduce(0) { $0 + $1.utf8.count + overhead } ?? 0
        for (field, key) in query.conditions {
            size += field.utf8.count + key.bytes.count + 2 * overhead
        }
        size += query.search?.prefix.count ?? 0
        size += query.after?.key?.bytes.count ?? 0
        return size
    }
}

/// Decides which reads of lists are answered from memory, and which of them share a read.
///
/// A reader after a commit waits for a read that contains it. A page that misses the commit is
/// served only while an earlier read is in progress, for a short time, never to an account to which
/// the commit was acknowledged, and not after it was announced. See ``CollectionVersions``.
///
/// Invariants:
/// 1. `bytes` is the size of all pages with their keys, and at most ``limit``.
/// 2. A page is replaced only by one that was read later.
struct ListCacheState: Sendable {
    /// The time for which a page that misses a commit may be served after it was read.
    static let staleSeconds = 5
    /// The size of a page besides its items and its key, in bytes.
    static let overheadBytes = 400

    /// A page, and the moment of its read.
    private struct Held: Sendable {
        var page: SharedPage
        var asOf: UInt64
        var readAt: Timestamp
        /// The number of the last use.
        var use: UInt64
        let size: Int

        /// Whether the page may be served although it misses a commit.
        func isRecent(at now: Timestamp) -> Bool {
            readAt <= now && now - readAt < .seconds(ListCacheState.staleSeconds)
        }
    }

    /// A read in progress.
    struct PendingRead: Hashable, Sendable {
        var number: UInt64
        var asOf: UInt64
    }

    /// The answer to a reader.
    enum Step: Sendable {
        /// Serve the page.
        case serve(SharedPage)
        /// Wait for the read in progress.
        case join(PendingRead)
        /// Start the read, and wait for it.
        case read(PendingRead)
    }

    /// What has happened since the start.
    struct Counts: Hashable, Sendable {
        /// Reads that were answered with a current page.
        var hits: UInt64 = 0
        /// Reads that were answered with a page that missed a commit.
        var stale: UInt64 = 0
        /// Reads of the storage.
        var misses: UInt64 = 0
        /// Reads that waited for another one's read.
        var shared: UInt64 = 0
        /// The size of the pages in memory, in bytes.
        var bytes = 0
    }

    var versions = CollectionVersions()
    private(set) var counts = Counts()
    /// The maximum size of all pages, in bytes.
    let limit: Int

    private var pages: [SharedPageKey: Held] = [:]
    private var uses: UInt64 = 0
    private var pendingReads: [SharedPageKey: PendingRead] = [:]
    private var lastRead: UInt64 = 0

    init(limit: Int) { self.limit = limit }

    /// Answers a reader.
    mutating func ask(
        _ key: SharedPageKey,
        for account: Identifier,
        at now: Timestamp
    ) -> Step {
        let collection = key.query.collection
        let (held, pending) = (pages[key], pendingReads[key])
        if let held, versions.isCurrent(held.asOf, collection) {
            use(key)
            counts.hits += 1
            return .serve(held.page)
        }
        guard let pending else { return .read(begin(key)) }
        if let held, !versions.isCurrent(pending.asOf, collection), held.isRecent(at: now),
            versions.isEnough(held.asOf, collection, for: account)
        {
            use(key)
            counts.stale += 1
            return .serve(held.page)
        }
        if versions.isEnough(pending.asOf, collection, for: account) {
            counts.shared += 1
            return .join(pending)
        }
        return .read(begin(key))
    }

    /// Ends a read; `nil` if it failed.
    mutating func ended(
        _ pending: PendingRead,
        of key: SharedPageKey,
        with page: SharedPage?,
        at now: Timestamp
    ) {
        if pendingReads[key] == pending { pendingReads[key] = nil }
        guard let page else { return }
        uses += 1
        let size = page.items.count + key.size + Self.overheadBytes
        let held = Held(page: page, asOf: pending.asOf, readAt: now, use: uses, size: size)
        guard held.size <= limit / 4, pages[key].map({ $0.asOf <= held.asOf }) ?? true else {
            return
        }
        remove(key)
        pages[key] = held
        counts.bytes += held.size
        if counts.bytes > limit { makeRoom() }
        assert(counts.bytes <= limit)
    }

    /// Removes the least recently used pages, a quarter at once, because finding them is slow.
    private mutating func makeRoom() {
        for (key, _) in pages.sorted(by: { $0.value.use < $1.value.use }) {
            guard counts.bytes > limit / 4 * 3 else { return }
            remove(key)
        }
    }

    private mutating func begin(_ key: SharedPageKey) -> PendingRead {
        counts.misses += 1
        lastRead += 1
        let pending = PendingRead(number: lastRead, asOf: versions.last)
        pendingReads[key] = pending
        return pending
    }

    private mutating func use(_ key: SharedPageKey) {
        uses += 1
        pages[key]?.use = uses
    }

    private mutating func remove(_ key: SharedPageKey) {
        if let old = pages.removeValue(forKey: key) { counts.bytes -= old.size }
    }
}
