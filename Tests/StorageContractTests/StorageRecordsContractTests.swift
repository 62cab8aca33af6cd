import SanguineAuthority
public import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@Suite("Storage contract: records", .bounded)
struct StorageRecordsContractTests {
    private let owner = Identifier.numbered(1)
    private let list = IndexList("things", in: .numbered(1), by: "day")

    private func key(_ value: JSONValue?) throws -> IndexKey { try #require(IndexKey(value)) }

    /// Returns the entry of a record by its day.
    private func entry(_ id: String, _ day: JSONValue?) throws -> Change {
        .index(IndexEntry(list, try key(day), RecordName.sample(id).id))
    }

    private func query(
        where conditions: [String: IndexKey] = [:],
        order: String? = nil,
        isDescending: Bool = false,
        limit: Int = 100
    ) -> RecordQuery {
        RecordQuery(
            of: "things",
            in: owner,
            where: conditions,
            order: order,
            isDescending: isDescending,
            limit: limit
        )
    }

    @Test(arguments: StorageDriver.allCases)
    func `a command reads the changes of earlier commands`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let row = RecordRow.sample("a", in: owner)
            try await storage.store(.put(.record(row)), try entry("a", "mon"))
            let (list, key) = (list, try key("mon"))

            let read = Command(
                keys: [],
                reading: { _, reader throws(Problem) in
                    let found = try? reader.record(row.name)
                    let missing = try? reader.record(.sample("b"))
                    let ids = try? reader.ids(in: list, at: key, limit: 10)
                    return Decision((found, missing, ids))
                }
            )

            let (found, missing, ids) = try await storage.perform(read).get()
            #expect(found == row)
            #expect(missing == .some(nil))
            #expect(ids == [row.name.id])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `ids with one value are listed in order, up to the limit`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            for id in ["c", "a", "B", "b"] { try await storage.store(try entry(id, "mon")) }
            try await storage.store(try entry("d", "tue"), try entry("a", "tue"))
            try await storage.store(.unindex(IndexEntry(list, try key("mon"), "b")))
            let (list, key) = (list, try key("mon"))

            let read = Command(
                keys: [],
                reading: { _, reader throws(Problem) in
                    Decision((0...4).map { try? reader.ids(in: list, at: key, limit: $0) })
                }
            )

            let found = try await storage.perform(read).get()
            let all: [RecordID] = ["B", "a", "c"]
            #expect(found == (0...4).map { Array(all.prefix($0)) })
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an owner's tombstones are listed by number, up to the limit`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let dead = [7, 3, 9, 5].map { number in
                RecordRow.sample("d\(number)", of: owner, seq: Int64(number), deletedAt: .at(9))
            }
            try await storage.store(dead.map { .put(.record($0)) })
            try await storage.store(
                .put(.record(.sample("live", of: owner, seq: 1))),
                .put(.record(.sample("other", of: .numbered(2), seq: 1, deletedAt: .at(0))))
            )
            let read = Command(
                keys: [],
                reading: { [owner] _, reader throws(Problem) in
                    Decision((-1...5).map { try? reader.tombstones(of: owner, limit: $0) })
                }
            )

            let found = try await storage.perform(read).get()
            let all = dead.sorted { $0.seq < $1.seq }
            #expect(found == (-1...5).map { Array(all.prefix(max(0, $0))) })
            // A record that exists again, and one that was dropped, are no tombstones.
            try await storage.store(
                .put(.record(.sample("d3", of: owner, seq: 10))),
                .delete(.record(.sample("d5")))
            )
            let left = try await storage.perform(read).get().last
            #expect(left == [all[2], all[3]])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the feed contains an owner's records after a number, in order`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await storage.store(
                .put(.record(.sample("c", in: owner, of: owner, seq: 3))),
                .put(.record(.sample("a", of: owner, seq: 1))),
                .put(.record(.sample("b", in: owner, of: owner, seq: 2, deletedAt: .at(0)))),
                .put(.record(.sample("d", of: .numbered(2), seq: 2))),
                .put(.balance(.sample(owner, head: 3)))
            )

            let all = try await storage.feed(
                FeedQuery(of: owner, after: 0, limit: 9, keys: [.balance(owner)])
            )
            let live = try await storage.feed(
                FeedQuery(of: owner, after: 1, limit: 9, liveOnly: true)
            )

            #expect(all.records.map(\.name.id) == ["a", "b", "c"] && !all.hasMore)
            #expect(all.loaded.balance(owner)?.head == 3)
            #expect(live.records.map(\.name.id) == ["c"] && !live.hasMore)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the feed is cut by number of records or bytes, but not within a group`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            for (number, through) in [(1, 3), (2, 3), (3, 3), (4, 4), (5, 5)] {
                let row = RecordRow.sample(
                    "r\(number)",
                    of: owner,
                    seq: Int64(number),
                    through: Int64(through),
                    value: "{\"a\":1}"
                )
                try await storage.store(.put(.record(row)))
            }
            func counts(_ query: FeedQuery) async throws -> (Int, Bool) {
                let slice = try await storage.feed(query)
                return (slice.records.count, slice.hasMore)
            }

            #expect(try await counts(FeedQuery(of: owner, after: 0, limit: 1)) == (3, true))
            #expect(try await counts(FeedQuery(of: owner, after: 0, limit: 4)) == (4, true))
            #expect(try await counts(FeedQuery(of: owner, after: 0, limit: 5)) == (5, false))
            let least = FeedQuery(of: owner, after: 0, limit: 1, bytes: 1, least: 4)
            #expect(try await counts(least) == (4, true))
            #expect(
                try await counts(FeedQuery(of: owner, after: 2, limit: 9, bytes: 8)) == (2, true)
            )
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a sweep drops old tombstones and keeps the largest number`(
        driver: StorageDriver
    ) async throws {
        let before = FeedRow(account: owner, records: 7, tombstones: 5, bytes: 750, horizon: 2)
        try await driver.withEmptyStorage { storage in
            try await storage.store(
                .put(.feed(before)),
                .put(.record(.sample("a", of: owner, seq: 4, deletedAt: .at(1)))),
                .put(.record(.sample("b", of: owner, seq: 3, deletedAt: .at(2)))),
                .put(.record(.sample("c", of: owner, seq: 9, deletedAt: .at(5)))),
                .put(.record(.sample("d", of: .numbered(2), seq: 8, deletedAt: .at(1)))),
                .put(.record(.sample("e", of: owner, seq: 1)))
            )
            let horizon = SweepHorizon(
                answers: .at(0),
                sessions: .at(0),
                holds: .at(0),
                tombstones: .at(5)
            )

            #expect(try await storage.sweep(horizon, limit: 100) == 3)

            let left = try await storage.feed(
                FeedQuery(of: owner, after: 0, limit: 9, keys: [.feed(owner), .feed(.numbered(2))])
            )
            #expect(left.records.map(\.name.id) == ["e", "c"])
            let feed = FeedRow(account: owner, records: 7, tombstones: 3, bytes: 550, horizon: 4)
            #expect(left.loaded.feed(owner) == feed)
            #expect(left.loaded.feed(.numbered(2)) == FeedRow(account: .numbered(2), horizon: 8))
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `values are ordered like JSON scalars`(driver: StorageDriver) async throws {
        let values: [JSONValue?] = [
            nil, .null, false, true, .number(-.greatestFiniteMagnitude), .integer(.min),
            .integer(.min + 1), -2, .number(-1.5), 0, .number(.leastNonzeroMagnitude), 1,
            .number(1.5), 2,
            .integer(1 << 53), .integer(1 << 53 + 1), .integer(.max - 1), .integer(.max),
            .number(1e300), "", "\u{1}", "1", "B", "a", "b", "é", "🩸",
        ]
        try await driver.withEmptyStorage { storage in
            var random = SplitMix64(seed: 1)
            for (index, value) in values.enumerated().shuffled(using: &random) {
                let id = "r\(index)"
                try await storage.store(
                    .put(.record(.sample(id, in: owner, of: owner, seq: Int64(index)))),
                    try entry(id, value)
                )
            }

            let up = try await storage.records(query(order: "day"))
            let down = try await storage.records(query(order: "day", isDescending: true))

            #expect(up.records.map(\.seq) == values.indices.map { Int64($0) })
            #expect(down.records == up.records.reversed())
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `equal numbers are found with and without a fraction`(
        driver: StorageDriver
    ) async throws {
        let days: [(RecordID, JSONValue)] = [
            ("a", 1), ("b", .number(1)), ("c", 0), ("d", .number(-0.0)), ("e", .number(1.5)),
        ]
        try await driver.withEmptyStorage { storage in
            for (id, day) in days {
                try await storage.store(
                    .put(.record(.sample(id.text, in: owner, of: owner))),
                    try entry(id.text, day)
                )
            }
            for (day, expected) in [
                (1, ["a", "b"]), (.number(1), ["a", "b"]), (0, ["c", "d"]),
                (.number(-0.0), ["c", "d"]),
            ] as [(JSONValue, [RecordID])] {
                let page = try await storage.records(query(where: ["day": try key(day)]))
                #expect(page.records.map(\.name.id) == expected)
            }
        }
    }

    @Test(arguments: StorageDriver.allCases, 1...6)
    func `pages of any size return a complete list in any order, under any condition`(
        driver: StorageDriver,
        seed: Int
    ) async throws {
        var random = SplitMix64(seed: UInt64(seed))
        var rows: [(row: RecordRow, day: Int64, tag: Int64)] = []
        for number in 0..<40 {
            let row = RecordRow.sample(
                "r\(number)",
                in: owner,
                of: owner,
                seq: Int64(number),
                deletedAt: number % 9 == 0 ? .at(0) : nil
            )
            let day = Int64.random(in: 0..<4, using: &random)
            rows.append((row, day, .random(in: 0..<3, using: &random)))
        }
        try await driver.withEmptyStorage { storage in
            for (row, day, tag) in rows {
                try await storage.store(.put(.record(row)))
                guard row.deletedAt == nil else { continue }
                let tags = IndexList("things", in: owner, by: "tag")
                try await storage.store(
                    .index(IndexEntry(list, try key(.integer(day)), row.name.id)),
                    .index(IndexEntry(tags, try key(.integer(tag)), row.name.id))
                )
            }
            let live = rows.filter { $0.row.deletedAt == nil }
                .sorted { $0.row.name.id < $1.row.name.id }
            let byDay = live.sorted { ($0.day, $0.row.name.id) < ($1.day, $1.row.name.id) }
            let one = try key(1)
            for (query, expected) in [
                (query(), live),
                (query(order: "day"), byDay),
                (query(order: "day", isDescending: true), byDay.reversed()),
                (query(where: ["tag": one]), live.filter { $0.tag == 1 }),
                (query(where: ["tag": one], order: "day"), byDay.filter { $0.tag == 1 }),
                (
                    query(where: ["day": one, "tag": one]),
                    live.filter { ($0.day, $0.tag) == (1, 1) }
                ),
                (
                    query(where: ["day": one], order: "day", isDescending: true),
                    byDay.reversed().filter { $0.day == 1 }
                ),
            ] {
                var query = query
                query.limit = .random(in: 1...9, using: &random)
                query.looks = .random(in: 1...20, using: &random)
                query.bytes = .random(in: 1...20, using: &random)
                var found: [RecordRow] = []
                repeat {
                    let page = try await storage.records(query)
                    #expect(page.records.count <= query.limit)
                    found += page.records
                    query.after = page.next
                } while query.after != nil
                #expect(found == expected.map(\.row), "seed \(seed)")
            }
        }
    }
}

extension RecordID: ExpressibleByStringLiteral {
    /// Creates an id from a literal.
    public init(stringLiteral text: String) {
        guard let id = RecordID(text) else { preconditionFailure("'\(text)' is not a record id.") }
        self = id
    }
}

/// The contract of every storage driver for counting lists of records.
@Suite("Storage contract: counts of records", .bounded)
struct StorageCountsContractTests {
    private let owner = Identifier.numbered(1)

    private func store(_ storage: any Storage) async throws {
        let byDay = IndexList("things", in: owner, by: "day")
        let byKind = IndexList("things", in: owner, by: "kind")
        for number in 1...9 {
            let name = "r\(number)"
            let day = try #require(IndexKey(number < 6 ? "mon" : "tue"))
            let kind = try #require(IndexKey(number % 2 == 0 ? "even" : "odd"))
            try await storage.store(
                .put(.record(.sample(name, in: owner, of: owner, seq: Int64(number)))),
                .index(IndexEntry(byDay, day, RecordName.sample(name).id)),
                .index(IndexEntry(byKind, kind, RecordName.sample(name).id))
            )
        }
    }

    private func query(_ limit: Int, _ change: (inout RecordQuery) -> Void) -> RecordQuery {
        var query = RecordQuery(of: "things", in: owner, limit: 2)
        query.countLimit = limit
        change(&query)
        return query
    }

    @Test(arguments: StorageDriver.allCases)
    func `a list is counted from its beginning, up to the limit`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await store(storage)
            let monday = try #require(IndexKey("mon"))
            let odd = try #require(IndexKey("odd"))
            func count(_ limit: Int, _ change: (inout RecordQuery) -> Void) async throws -> String {
                let found = try await storage.records(query(limit, change))
                guard let count = found.count else { return "none" }
                return "\(count.isExact ? "" : "at least ")\(count.number)"
            }
            let position = RecordPosition(nil, RecordName.sample("r7").id)
            let counts = [
                try await count(0) { _ in },
                try await count(100) { _ in },
                try await count(100) { $0.after = position },
                try await count(9) { _ in },
                try await count(8) { _ in },
                try await count(100) { $0.conditions = ["day": monday] },
                try await count(100) { $0.conditions = ["day": monday, "kind": odd] },
                try await count(100) { query in
                    query.conditions = ["kind": odd]
                    query.order = "day"
                    query.looks = 4
                },
            ]
            let expected = ["none", "9", "9", "9", "at least 8", "5", "3", "at least 2"]
            #expect(counts == expected)
        }
    }
}

/// The contract of every storage driver for lists of the records of followed authors.
@Suite("Storage contract: timelines", .bounded)
struct StorageTimelinesContractTests {
    private struct Post: Hashable {
        var id: RecordID
        var author: Int
        var moment: Int
    }

    private let reader = Identifier.numbered(1)

    private func author(_ number: Int) throws -> RecordID {
        // One id begins with another one.
        try #require(RecordID(String(repeating: "a", count: number + 1)))
    }

    private func store(_ post: Post, _ storage: any Storage) async throws {
        let key = TimelineMerge.key(of: try author(post.author), at: "m\(post.moment)")
        try await storage.store(
            .put(.record(.sample(post.id.text, in: nil, of: reader, seq: Int64(post.moment)))),
            .index(IndexEntry(IndexList("things", in: nil, by: "by~timeline"), key, post.id))
        )
    }

    @Test(arguments: StorageDriver.allCases, 1...6 as ClosedRange<UInt64>)
    func `pages of a timeline together are the followed authors' records, newest first`(
        driver: StorageDriver,
        seed: UInt64
    ) async throws {
        try await driver.withEmptyStorage { storage in
            var random = SplitMix64(seed: seed)
            let follows = IndexList("follows", in: reader, by: "followed")
            var posts: [Post] = []
            for number in 0..<30 {
                let id = try #require(RecordID("r\(number)"))
                let post = Post(
                    id: id,
                    author: .random(in: 0..<5, using: &random),
                    moment: .random(in: 1...9, using: &random)
                )
                posts.append(post)
                try await store(post, storage)
            }
            // A value that is no id is ignored, as is one that is followed twice.
            for (number, value) in [0, 2, 2, 4].enumerated() {
                let key = try #require(IndexKey(.string(try author(value).text)))
                let id = try #require(RecordID("f\(number)"))
                try await storage.store(.index(IndexEntry(follows, key, id)))
            }
            for value in ["no id", nil, 7] as [JSONValue?] {
                let key = try #require(IndexKey(value))
                try await storage.store(.index(IndexEntry(follows, key, "other")))
            }
            var query = RecordQuery(of: "things", in: nil, isDescending: true, limit: 1)
            query.timeline = RecordQuery.Timeline(in: "by~timeline", of: follows, limit: 100)
            let expected = posts.filter { [0, 2, 4].contains($0.author) }
                .sorted { ($1.moment, $1.id) < ($0.moment, $0.id) }
            var found: [RecordID] = []
            repeat {
                query.limit = .random(in: 1...4, using: &random)
                let page = try await storage.records(query)
                #expect(page.records.count <= query.limit)
                found += page.records.map(\.name.id)
                query.after = page.next
            } while query.after != nil
            #expect(found == expected.map(\.id), "seed \(seed)")
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a timeline reads a limited number of entries to find the authors`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let follows = IndexList("follows", in: reader, by: "followed")
            for number in 0..<3 {
                let id = try #require(RecordID("r\(number)"))
                try await store(Post(id: id, author: number, moment: number), storage)
                let key = try #require(IndexKey(.string(try author(number).text)))
                try await storage.store(.index(IndexEntry(follows, key, id)))
            }
            var query = RecordQuery(of: "things", in: nil, isDescending: true, limit: 10)
            // An author that is named separately is read in addition.
            for (number, count) in [(0, 3), (2, 3), (3, 4)] {
                let own = try author(number)
                if number == 3 {
                    try await store(Post(id: "own", author: number, moment: number), storage)
                }
                query.timeline = RecordQuery.Timeline(
                    in: "by~timeline",
                    of: follows,
                    limit: 100,
                    own: own
                )
                #expect(try await storage.records(query).records.count == count)
            }
            for limit in 0...4 {
                query.timeline = RecordQuery.Timeline(in: "by~timeline", of: follows, limit: limit)
                #expect(try await storage.records(query).records.count == min(limit, 3))
            }
        }
    }
}
