import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// A cache that describes its answers.
private final class Cache {
    var state: ListCacheState

    init(limit: Int) { state = ListCacheState(limit: limit) }

    func ask(_ key: SharedPageKey, for account: Identifier, at now: Timestamp) -> String {
        switch state.ask(key, for: account, at: now) {
        case .serve(let page): "serve \(page.isOf("old") ? "old" : "new")"
        case .join(let pending): "join \(pending.number)"
        case .read(let pending): "read \(pending.number)"
        }
    }
}

@Suite("Shared pages of lists: decisions", .bounded)
struct ListCacheStateTests {
    private let ana = Identifier.numbered(1)
    private let ben = Identifier.numbered(2)
    private let start = Timestamp(millisecondsSince1970: 1_000_000)

    private func key(_ collection: String = "posts", limit: Int = 20) -> SharedPageKey {
        SharedPageKey(query: RecordQuery(of: collection, in: nil, limit: limit), fields: nil)
    }

    private func page(_ text: String) -> SharedPage {
        let item = RecordChange(
            collection: "posts",
            id: RecordID(Identifier.numbered(9)),
            seq: 0,
            value: ["text": .string(text)]
        )
        return SharedPage([item], RecordList(key().query), fields: nil)
    }

    /// Fills the cache with a page for the key.
    private func fill(_ cache: Cache, _ key: SharedPageKey, _ text: String) throws {
        guard case .read(let pending) = cache.state.ask(key, for: ben, at: start) else {
            throw Unexpected()
        }
        cache.state.ended(pending, of: key, with: page(text), at: start)
    }

    private struct Unexpected: Error {}

    @Test func `a current page is served, and readers share a read`() throws {
        let cache = Cache(limit: 100_000)
        #expect(cache.ask(key(), for: ana, at: start) == "read 1")
        #expect(cache.ask(key(), for: ben, at: start) == "join 1")
        let pending = ListCacheState.PendingRead(number: 1, asOf: 0)
        cache.state.ended(pending, of: key(), with: page("old"), at: start)
        #expect(cache.ask(key(), for: ana, at: start + .seconds(3_600)) == "serve old")
        #expect(
            cache.state.counts.hits == 1 && cache.state.counts.misses == 1
                && cache.state.counts.shared == 1
        )
    }

    @Test func `after a commit, all readers share a read that contains it`() throws {
        let cache = Cache(limit: 100_000)
        try fill(cache, key(), "old")
        cache.state.versions.committed(["posts"], by: [ana])

        #expect(cache.ask(key(), for: ben, at: start) == "read 2")
        #expect(cache.ask(key(), for: ben, at: start) == "join 2")
        #expect(cache.ask(key(), for: ana, at: start) == "join 2")
        cache.state.ended(.init(number: 2, asOf: 1), of: key(), with: page("new"), at: start)
        #expect(cache.ask(key(), for: ana, at: start) == "serve new")
        #expect(cache.ask(key(), for: ben, at: start) == "serve new")
    }

    /// Returns a cache with an old page that is being read while commits happen.
    private func busy() throws -> Cache {
        let cache = Cache(limit: 100_000)
        try fill(cache, key(), "old")
        cache.state.versions.committed(["posts"], by: [ana])
        #expect(cache.ask(key(), for: ben, at: start) == "read 2")
        cache.state.versions.committed(["posts"], by: [ana])
        return cache
    }

    @Test func `another reader gets the old page while an earlier read is in progress`() throws {
        let cache = try busy()
        #expect(cache.ask(key(), for: ben, at: start) == "serve old")
        #expect(cache.ask(key(), for: ana, at: start) == "read 3")
        #expect(cache.state.counts.stale == 1)
    }

    @Test func `a commit that was announced is in every later page`() throws {
        let cache = try busy()
        cache.state.versions.announce(["likes", "posts"])
        #expect(cache.ask(key(), for: ben, at: start) == "read 3")
        // A later commit is not announced yet.
        cache.state.versions.committed(["posts"], by: [ana])
        cache.state.ended(.init(number: 3, asOf: 2), of: key(), with: page("new"), at: start)
        #expect(cache.ask(key(), for: ben, at: start) == "read 4")
        cache.state.versions.committed(["posts"], by: [ana])
        #expect(cache.ask(key(), for: ben, at: start) == "serve new")
    }

    @Test func `a read that began before the commit is not enough for its writer`() throws {
        let cache = Cache(limit: 100_000)
        guard case .read(let early) = cache.state.ask(key(), for: ben, at: start) else {
            throw Unexpected()
        }
        cache.state.versions.committed(["posts"], by: [ana])
        #expect(cache.ask(key(), for: ben, at: start) == "join 1")
        #expect(cache.ask(key(), for: ana, at: start) == "read 2")
        cache.state.ended(.init(number: 2, asOf: 1), of: key(), with: page("new"), at: start)
        // The earlier read ends later and must not replace the newer page.
        cache.state.ended(early, of: key(), with: page("old"), at: start)
        #expect(cache.ask(key(), for: ana, at: start) == "serve new")
    }

    @Test func `a page that misses a commit is served for a short time only`() throws {
        let cache = try busy()
        let late = start + .seconds(ListCacheState.staleSeconds)
        #expect(cache.ask(key(), for: ben, at: late) == "join 2")
    }

    @Test func `a commit of another collection changes nothing`() throws {
        let cache = Cache(limit: 100_000)
        try fill(cache, key(), "old")
        cache.state.versions.committed(["profiles"], by: [ana])
        #expect(cache.ask(key(), for: ana, at: start) == "serve old")
    }

    @Test func `after a commit with an unknown outcome, everyone waits for a new page`() throws {
        let cache = Cache(limit: 100_000)
        try fill(cache, key(), "old")
        cache.state.versions.anythingChanged()
        #expect(cache.ask(key(), for: ben, at: start) == "read 2")
    }

    @Test func `a writer that is no longer known by name is treated as the last one`() {
        var versions = CollectionVersions()
        versions.committed(["posts"], by: [ana])
        let asOf = versions.last
        for number in 3...UInt64(2 * CollectionVersions.accounts + 3) {
            versions.committed(["posts"], by: [Identifier.numbered(number)])
        }
        #expect(!versions.isEnough(0, "posts", for: ana))
        #expect(!versions.isEnough(asOf, "posts", for: ben))
        #expect(versions.isEnough(versions.last, "posts", for: ben))
    }

    @Test func `pages stay within their limit, and the least recently used ones leave`() throws {
        let cache = Cache(limit: 10_000)
        for limit in 1...100 {
            try fill(cache, key(limit: limit), "old")
            #expect(cache.state.counts.bytes <= 10_000)
            #expect(cache.ask(key(limit: 1), for: ben, at: start) == "serve old")
        }
        #expect(cache.ask(key(limit: 2), for: ben, at: start).hasPrefix("read"))
    }

    @Test func `the members and values that requests name count as well`() throws {
        let cache = Cache(limit: 100_000)
        let names = Set((0..<200).map { "member\($0)" })
        let keys = (1...100).map { limit in
            var key = key(limit: limit)
            if limit.isMultiple(of: 2) {
                key.fields = names
            } else {
                let value = IndexKey(.string(String(repeating: "x", count: 200)))
                for name in names.prefix(50) { key.query.conditions[name] = value }
            }
            return key
        }
        for key in keys { try fill(cache, key, "old") }
        // Each key takes more than 10,000 bytes.
        let held = keys.filter { cache.ask($0, for: ben, at: start).hasPrefix("serve") }
        #expect(1...10 ~= held.count)
    }

    @Test func `a failed read is not stored`() throws {
        let cache = Cache(limit: 100_000)
        guard case .read(let pending) = cache.state.ask(key(), for: ben, at: start) else {
            throw Unexpected()
        }
        cache.state.ended(pending, of: key(), with: nil, at: start)
        #expect(cache.ask(key(), for: ben, at: start) == "read 2")
    }
}

extension SharedPage {
    fileprivate func isOf(_ text: String) -> Bool {
        String(decoding: items, as: UTF8.self).contains(text)
    }
}

@Suite("Shared pages of lists", .bounded)
struct ListCacheTests {
    private func ids(
        _ world: SyncWorld,
        _ request: Authority.RecordsRequest = .init(order: "-createdAt"),
        by account: Identifier
    ) async throws -> [String] {
        let found = try await world.authority.sharedRecords(
            in: "posts",
            for: account,
            request,
            fields: ["id"]
        )
        let body = try #require(found).body
        guard case .array(let items)? = try JSONValue(stored: body)["items"] else { return [] }
        return items.compactMap { $0["id"]?.string }
    }

    private func post(_ number: Int) throws -> RecordKey {
        RecordKey("posts", try #require(RecordID("p\(number)")))
    }

    @Test func `an acknowledged write is in the next page of every account`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        for number in 1...20 {
            try await world.push(CreateRecord(try post(number), ["tag": 1]))
            #expect(try await ids(world, by: world.account).count == number)
            #expect(try await ids(world, by: stranger).count == number)
        }
        try await world.push(DeleteRecord(.post("p20")))
        #expect(try await ids(world, by: stranger).count == 19)
    }

    @Test func `many readers of an unchanged list cost one read`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.post("p1"), ["tag": 1]))
        let before = world.authority.listCacheCounts.misses
        for _ in 0..<50 {
            _ = try await ids(world, by: world.account)
            _ = try await ids(world, by: stranger)
        }
        #expect(world.authority.listCacheCounts.misses == before + 1)
        #expect(world.authority.listCacheCounts.hits >= 99)
    }

    @Test func `each account gets a cursor of its own to shared items`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.post("p1"), [:]), CreateRecord(.post("p2"), [:]))
        var cursors: [String] = []
        var tags: Set<String> = []
        for account in [world.account, stranger] {
            let found = try await world.authority.sharedRecords(
                in: "posts",
                for: account,
                .init(limit: 1),
                fields: nil
            )
            let page = try #require(found)
            tags.insert(page.tag)
            let body = try JSONValue(stored: page.body)
            let cursor = try #require(body["nextCursor"]?.string)
            #expect(body["hasMore"] == true)
            cursors.append(cursor)
            let next = Authority.RecordsRequest(limit: 1, cursor: cursor)
            #expect(try await ids(world, next, by: account) == ["p2"])
        }
        #expect(Set(cursors).count == 2 && tags.count == 2)
        let refusal = await problem { () throws(Problem) in
            try await world.authority.sharedRecords(
                in: "posts",
                for: stranger,
                .init(limit: 1, cursor: cursors[0]),
                fields: nil
            )
        }
        #expect(refusal?.code == .malformedRequest)
    }

    @Test func `private lists are not shared`() async throws {
        let world = try await SyncWorld()
        let found = try await world.authority.sharedRecords(
            in: "notes",
            for: world.account,
            .init(),
            fields: nil
        )
        #expect(found == nil)
    }

    @Test func `a public answer holds only what the owner wrote`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.note("a"), [:]), CreateRecord(.note("b"), [:]))
        try await world.push(CreateRecord(.post("p1"), ["tag": 1]))
        let found = try await world.authority.sharedRecords(
            in: "posts",
            for: stranger,
            .init(),
            fields: nil
        )
        let body = try #require(found).body
        let item = try #require(try JSONValue(stored: body)["items"]?.elements.first)
        #expect(item["seq"] == 0)
        #expect(Set(item.names) == ["collection", "deleted", "id", "seq", "value"])
        #expect(Set(item["value"]?.names ?? []) == ["createdAt", "tag"])
        let text = String(decoding: body, as: UTF8.self)
        #expect(!text.contains(world.account.description))
        let one = try await world.authority.record("p1", in: "posts", for: stranger)
        #expect(one.seq == 0 && one.through == nil)
        let byID = try await world.authority.records(
            in: "posts",
            for: stranger,
            .init(ids: ["p1"])
        )
        #expect(byID.items.map(\.seq) == [0])
    }

    @Test func `a list is counted only when asked for, up to a limit`() async throws {
        let world = try await SyncWorld()
        for number in 0..<30 {
            try await world.push(
                CreateRecord(try post(number), ["tag": .integer(Int64(number % 3))])
            )
        }
        func count(_ request: Authority.RecordsRequest) async throws -> ListCount? {
            try await world.authority.records(in: "posts", for: world.account, request).count
        }
        #expect(try await count(.init()) == nil)
        #expect(
            try await count(.init(limit: 1, counts: true)) == ListCount(number: 30, isExact: true)
        )
        #expect(
            try await count(.init(where: ["tag": 1], order: "-createdAt", limit: 1, counts: true))
                == ListCount(number: 10, isExact: true)
        )
        let refusal = await problem { () throws(Problem) in
            try await world.authority.records(
                in: "posts",
                for: world.account,
                .init(ids: ["p1"], counts: true)
            )
        }
        #expect(refusal?.code == .malformedRequest)
    }
}

extension JSONValue {
    fileprivate var names: [String] {
        if case .object(let members) = self { Array(members.keys) } else { [] }
    }

    fileprivate var elements: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }
}
