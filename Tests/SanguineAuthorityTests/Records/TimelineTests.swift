import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// A reader, and authors that it can follow.
private struct TimelineWorld {
    let world: SyncWorld
    let reader: Identifier
    let authors: [Identifier]

    static let schema = RecordSchema(collections: [
        RecordCollection(
            "posts",
            access: .everyone,
            indexes: ["createdAt"],
            owner: "author",
            timelines: [
                RecordTimeline("home", by: "author", in: "follows", naming: "followed"),
                RecordTimeline("groups", by: "group", in: "follows", naming: "followed"),
                RecordTimeline(
                    "all",
                    by: "author",
                    in: "follows",
                    naming: "followed",
                    includesOwn: true
                ),
            ]
        ),
        RecordCollection("follows", indexes: ["followed"], unique: [["followed"]]),
    ])

    init(authors count: UInt8 = 3) async throws {
        world = try await SyncWorld { $0.schema = Self.schema }
        reader = world.account
        var authors: [Identifier] = []
        for number in 0..<count { authors.append(try await world.stranger(number + 2)) }
        self.authors = authors
    }

    /// Creates a post a second after the previous one.
    func post(_ id: RecordID, by author: Int, _ fields: RecordFields = [:]) async throws {
        world.clock.advance(by: .seconds(1))
        try await world.push(CreateRecord(RecordKey("posts", id), fields), by: authors[author])
    }

    func delete(_ id: RecordID, by author: Int) async throws {
        try await world.push(DeleteRecord(RecordKey("posts", id)), by: authors[author])
    }

    @discardableResult
    func follow(_ id: RecordID, _ followed: String) async throws -> PushResult {
        try await world.push(
            CreateRecord(RecordKey("follows", id), ["followed": .string(followed)])
        )[0]
    }

    func follow(_ author: Int) async throws {
        let id = try #require(RecordID("f\(author)"))
        #expect(try await follow(id, authors[author].description).problem == nil)
    }

    func page(
        _ limit: Int = 20,
        after cursor: String? = nil,
        of timeline: String = "home",
        for account: Identifier? = nil
    ) async throws(Problem) -> (ids: [String], next: String?) {
        let page = try await world.authority.records(
            in: "posts",
            for: account ?? reader,
            .init(timeline: timeline, limit: limit, cursor: cursor)
        )
        return (page.items.map(\.id.text), page.nextCursor)
    }
}

@Suite("Timelines", .bounded)
struct TimelineTests {
    @Test func `a timeline has the posts of followed authors only, newest first`() async throws {
        let social = try await TimelineWorld()
        for (number, author) in [0, 1, 2, 1, 0, 2, 2].enumerated() {
            try await social.post(try #require(RecordID("p\(number)")), by: author)
        }
        #expect(try await social.page().ids == [])
        try await social.follow(0)
        try await social.follow(1)
        #expect(try await social.page().ids == ["p4", "p3", "p1", "p0"])
        try await social.delete("p3", by: 1)
        #expect(try await social.page().ids == ["p4", "p1", "p0"])
        // Other accounts have timelines of their own.
        #expect(try await social.page(for: social.authors[0]).ids == [])
        try await social.world.push(DeleteRecord(RecordKey("follows", "f0")))
        #expect(try await social.page().ids == ["p1"])
    }

    @Test func `pages neither repeat nor lose posts when others are written or deleted in between`()
        async throws
    {
        let social = try await TimelineWorld()
        try await social.follow(0)
        try await social.follow(1)
        for number in 0..<9 {
            try await social.post(try #require(RecordID("p\(number)")), by: number % 3)
        }
        let first = try await social.page(2)
        #expect(first.ids == ["p7", "p6"])
        // Newer posts, the deletion of the post at the cursor, and another author.
        try await social.post("p9", by: 0)
        try await social.delete("p6", by: 0)
        try await social.follow(2)
        let second = try await social.page(3, after: first.next)
        #expect(second.ids == ["p5", "p4", "p3"])
        let third = try await social.page(20, after: second.next)
        #expect(third.ids == ["p2", "p1", "p0"] && third.next == nil)
        #expect(try await social.page(2).ids == ["p9", "p8"])
    }

    @Test func `posts of one moment are ordered by id, across authors`() async throws {
        let social = try await TimelineWorld()
        for author in 0..<3 {
            try await social.follow(author)
            for name in ["a", "b"] {
                let id = try #require(RecordID("\(name)\(author)"))
                try await social.world.push(
                    CreateRecord(RecordKey("posts", id), [:]),
                    by: social.authors[author]
                )
            }
        }
        var ids: [String] = []
        var cursor: String?
        repeat {
            let page = try await social.page(1, after: cursor)
            ids += page.ids
            cursor = page.next
        } while cursor != nil
        #expect(ids == ["b2", "b1", "b0", "a2", "a1", "a0"])
    }

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `random timelines have the posts that a search of all posts finds`(
        seed: UInt64
    ) async throws {
        var random = SplitMix64(seed: seed)
        let social = try await TimelineWorld(authors: 5)
        var posts: [(id: String, author: Int)] = []
        var followed: Set<Int> = []
        for step in 0..<40 {
            let author = Int.random(in: 0..<5, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0 where !followed.contains(author):
                try await social.follow(author)
                followed.insert(author)
            case 1 where followed.contains(author):
                let id = try #require(RecordID("f\(author)"))
                try await social.world.push(DeleteRecord(RecordKey("follows", id)))
                followed.remove(author)
            case 2 where !posts.isEmpty:
                let removed = posts.remove(at: Int.random(in: 0..<posts.count, using: &random))
                try await social.delete(try #require(RecordID(removed.id)), by: removed.author)
            default:
                try await social.post(try #require(RecordID("p\(step)")), by: author)
                posts.insert(("p\(step)", author), at: 0)
            }
        }
        let limit = Int.random(in: 1...4, using: &random)
        var ids: [String] = []
        var cursor: String?
        repeat {
            let page = try await social.page(limit, after: cursor)
            #expect(page.ids.count <= limit)
            ids += page.ids
            cursor = page.next
        } while cursor != nil
        #expect(ids == posts.filter { followed.contains($0.author) }.map(\.id), "seed \(seed)")
    }

    @Test func `a timeline can follow another member than the owner`() async throws {
        let social = try await TimelineWorld()
        try await social.post("p1", by: 0, ["group": "birds"])
        try await social.post("p2", by: 1, ["group": "fish"])
        try await social.post("p3", by: 2, ["group": "birds"])
        try await social.post("p4", by: 2)
        try await social.follow("f1", "birds")
        #expect(try await social.page(of: "groups").ids == ["p3", "p1"])
        #expect(try await social.page(of: "home").ids == [])
        try await social.world.push(
            SetFields(RecordKey("posts", "p1"), ["group": "fish"]),
            by: social.authors[0]
        )
        #expect(try await social.page(of: "groups").ids == ["p3"])
    }

    @Test func `a timeline can include the reader's own posts, once and without following`()
        async throws
    {
        let social = try await TimelineWorld()
        for (number, author) in [0, 1, 2, 0].enumerated() {
            try await social.post(try #require(RecordID("p\(number)")), by: author)
        }
        let (ana, ben) = (social.authors[0], social.authors[1])
        #expect(try await social.page(of: "all", for: ana).ids == ["p3", "p0"])
        #expect(try await social.page(for: ana).ids == [])
        // The accounts that ana follows: ben, and herself.
        for (id, followed) in [("f1", ben), ("f2", ana)] as [(RecordID, Identifier)] {
            let fields: RecordFields = ["followed": .string(followed.description)]
            try await social.world.push(CreateRecord(RecordKey("follows", id), fields), by: ana)
        }
        let first = try await social.page(2, of: "all", for: ana)
        #expect(first.ids == ["p3", "p1"])
        #expect(try await social.page(2, after: first.next, of: "all", for: ana).ids == ["p0"])
        // The timeline of an account without follows.
        #expect(try await social.page(of: "all", for: social.authors[2]).ids == ["p2"])
        #expect(try await social.page(of: "all").ids == [])
    }

    @Test func `a timeline's cursor is refused for other accounts and other lists`() async throws {
        let social = try await TimelineWorld()
        try await social.follow(0)
        for id in ["p1", "p2"] as [RecordID] { try await social.post(id, by: 0) }
        let cursor = try #require(try await social.page(1).next)
        let others = [("home", social.authors[0]), ("groups", social.reader)]
        for (timeline, account) in others {
            let refusal = await problem { () throws(Problem) in
                try await social.page(after: cursor, of: timeline, for: account)
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    @Test func `an account follows at most as many as its timeline lists`() async throws {
        let social = try await TimelineWorld(authors: 1)
        let limit = WireLimits.followedAuthors
        for start in stride(from: 0, to: limit - 1, by: 100) {
            let operations = try (start..<min(start + 100, limit - 1)).map { number in
                let id = try #require(RecordID("n\(number)"))
                return try PushedOperation.sample(
                    CreateRecord(
                        RecordKey("follows", id),
                        ["followed": .string("a\(number)")]
                    ),
                    sequence: Int64(number) + 1
                )
            }
            let answer = try await social.world.push(operations)
            #expect(answer.results.allSatisfy { $0.problem == nil })
        }
        let results = try await social.world.push(
            CreateRecord(RecordKey("follows", "last"), ["followed": "b"]),
            CreateRecord(RecordKey("follows", "more"), ["followed": "c"]),
            DeleteRecord(RecordKey("follows", "last")),
            CreateRecord(RecordKey("follows", "again"), ["followed": "d"])
        )
        #expect(results.map(\.problem?.code) == [nil, .storageFull, nil, nil])
        // A record that is changed needs no room.
        let changed = try await social.world.push(
            SetFields(RecordKey("follows", "again"), ["followed": "e"])
        )
        #expect(changed.map(\.problem?.code) == [nil])
    }

    @Test(arguments: [
        Authority.RecordsRequest(where: ["createdAt": "a"], timeline: "home"),
        .init(order: "createdAt", timeline: "home"), .init(timeline: "home", counts: true),
        .init(ids: ["p1"], timeline: "home"), .init(timeline: "nothing"),
        .init(timeline: ""),
    ])
    func `an invalid request of a timeline is refused`(
        request: Authority.RecordsRequest
    ) async throws {
        let social = try await TimelineWorld(authors: 1)
        let refusal = await problem { () throws(Problem) in
            try await social.world.authority.records(in: "posts", for: social.reader, request)
        }
        #expect(refusal?.code == .malformedRequest)
    }

    @Test func `a timeline is not shared, and waits for its indexes`() async throws {
        let before = try await SyncWorld {
            $0.schema = RecordSchema(collections: [
                RecordCollection(
                    "posts",
                    access: .everyone,
                    indexes: ["createdAt"],
                    owner: "author"
                ), RecordCollection("follows"),
            ])
        }
        let me = before.account.description
        try await before.push(CreateRecord(.post("p1"), [:]))
        try await before.push(
            CreateRecord(RecordKey("follows", "f1"), ["followed": .string(me)])
        )
        var settings = AuthoritySettings()
        settings.schema = TimelineWorld.schema
        let authority = Authority(
            storage: before.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: before.clock
        )
        await authority.findIncompleteIndexes()
        let request = Authority.RecordsRequest(timeline: "home")
        func list() async throws(Problem) -> [RecordID] {
            try await authority.records(in: "posts", for: before.account, request).items.map(\.id)
        }
        #expect(await problem(list)?.code == .overloaded)
        while try await !authority.buildIndexes().isEmpty {}
        #expect(try await list() == ["p1"])
        let shared = try await authority.sharedRecords(
            in: "posts",
            for: before.account,
            request,
            fields: nil
        )
        #expect(shared == nil)
    }

    @Test func `invalid declarations of timelines are reported`() {
        let home = RecordTimeline("home", by: "author", in: "follows", naming: "followed")
        let own = RecordTimeline(
            "home",
            by: "group",
            in: "follows",
            naming: "followed",
            includesOwn: true
        )
        let dotted = RecordTimeline("home", by: "a.b", in: "follows", naming: "followed")
        let invalid = [
            RecordCollection("posts", timelines: [home]),
            RecordCollection("posts", access: .everyone, timelines: [home]),
            RecordCollection(
                "posts",
                access: .everyone,
                indexes: ["createdAt"],
                timelines: [home, home]
            ),
            RecordCollection(
                "posts",
                access: .everyone,
                indexes: ["createdAt"],
                timelines: [dotted]
            ),
            RecordCollection(
                "posts",
                access: .everyone,
                indexes: ["createdAt"],
                owner: "author",
                timelines: [own]
            ),
        ]
        for collection in invalid { #expect(collection.fault != nil, "\(collection)") }
        let posts = RecordCollection(
            "posts",
            access: .everyone,
            indexes: ["createdAt"],
            timelines: [home]
        )
        for follows in [RecordCollection("follows"), RecordCollection("others")] {
            #expect(RecordSchema(collections: [posts, follows]).faults.count == 1)
        }
        #expect(TimelineWorld.schema.faults == [])
    }
}
