import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// An authority with posts, likes, follows and profiles.
private struct SocialWorld {
    let world: SyncWorld
    let ana: Identifier
    let ben: Identifier

    static let schema = RecordSchema(collections: [
        RecordCollection("posts", access: .everyone, indexes: ["createdAt"], owner: "author"),
        RecordCollection(
            "likes",
            access: .everyone,
            indexes: ["post"],
            owner: "author",
            unique: [["post", "author"]],
            counts: [RecordCounter(by: "post", in: "posts", as: "likes")]
        ),
        RecordCollection(
            "follows",
            access: .everyone,
            indexes: ["author", "followed"],
            owner: "author",
            unique: [["author", "followed"]]
        ),
        RecordCollection("profiles", access: .everyone, search: ["name"]),
    ])

    init() async throws {
        world = try await SyncWorld { $0.schema = Self.schema }
        ana = world.account
        ben = try await world.stranger()
        try await world.push(CreateRecord(.post("p1"), ["text": "one"]))
    }

    func like(
        _ id: RecordID,
        _ post: String = "p1",
        by account: Identifier
    ) async throws
        -> ProblemCode?
    {
        let create = CreateRecord(RecordKey("likes", id), ["post": .string(post)])
        return try await world.push(create, by: account)[0].problem?.code
    }

    func unlike(_ id: RecordID, by account: Identifier) async throws {
        try await world.push(DeleteRecord(RecordKey("likes", id)), by: account)
    }

    /// The number of likes of a post in a lookup, a lookup by ids, and a list.
    func likes(_ post: RecordID = "p1") async throws -> [Int64?] {
        let one = try await world.authority.record(post, in: "posts", for: ben)
        let byID = try await world.authority.records(in: "posts", for: ben, .init(ids: [post]))
        let shared = try await world.authority.sharedRecords(
            in: "posts",
            for: ana,
            .init(),
            fields: nil
        )
        let body = try JSONValue(stored: try #require(shared).body)
        guard case .array(let items)? = body["items"] else { return [] }
        let item = items.first { $0["id"]?.string == post.text }
        return [
            one.value?["likes"]?.integer, byID.items.first?.value?["likes"]?.integer,
            item?["value"]?["likes"]?.integer,
        ]
    }
}

@Suite("Relations of records", .bounded)
struct RelationTests {
    @Test func `a like and an unlike are counted in their commits, for every reader at once`()
        async throws
    {
        let social = try await SocialWorld()
        #expect(try await social.likes() == [0, 0, 0])
        #expect(try await social.like("l1", by: social.ana) == nil)
        #expect(try await social.likes() == [1, 1, 1])
        #expect(try await social.like("l2", by: social.ben) == nil)
        social.world.clock.advance(by: .seconds(ListCacheState.staleSeconds))
        #expect(try await social.likes() == [2, 2, 2])
        try await social.unlike("l1", by: social.ana)
        #expect(try await social.likes() == [1, 1, 1])
        // Nothing is left to count.
        try await social.unlike("l1", by: social.ana)
        #expect(try await social.likes() == [1, 1, 1])
    }

    @Test func `an account likes a post once, from however many devices`() async throws {
        let social = try await SocialWorld()
        #expect(try await social.like("l1", by: social.ana) == nil)
        #expect(try await social.like("l2", by: social.ana) == .recordExists)
        #expect(try await social.likes() == [1, 1, 1])
        // After an unlike, it can like the post again.
        try await social.unlike("l1", by: social.ana)
        #expect(try await social.like("l3", by: social.ana) == nil)
        #expect(try await social.likes() == [1, 1, 1])
    }

    @Test func `two likes in one push are compared with each other`() async throws {
        let social = try await SocialWorld()
        let fields: RecordFields = ["post": "p1"]
        let results = try await social.world.push(
            CreateRecord(RecordKey("likes", "l1"), fields),
            CreateRecord(RecordKey("likes", "l2"), fields),
            DeleteRecord(RecordKey("likes", "l1")),
            CreateRecord(RecordKey("likes", "l3"), fields)
        )
        #expect(results.map(\.status) == [.applied, .refused, .applied, .applied])
        #expect(try await social.likes() == [1, 1, 1])
    }

    @Test func `the server sets the owner of a record and ignores the client's`() async throws {
        let social = try await SocialWorld()
        let forged: RecordFields = [
            "post": "p1", "author": .string(social.ana.description),
        ]
        try await social.world.push(CreateRecord(RecordKey("likes", "l1"), forged), by: social.ben)
        let like = try await social.world.authority.record("l1", in: "likes", for: social.ana)
        #expect(like.value?["author"]?.string == social.ben.description)
        try await social.world.push(
            SetFields(RecordKey("likes", "l1"), ["author": "someone"]),
            by: social.ben
        )
        let later = try await social.world.authority.record("l1", in: "likes", for: social.ana)
        #expect(later.value?["author"]?.string == social.ben.description)
    }

    @Test func `a like of a missing post is refused`() async throws {
        let social = try await SocialWorld()
        #expect(try await social.like("l1", "nothing", by: social.ana) == .notFound)
    }

    @Test func `a post's own member does not replace the number, and a deleted post has none`()
        async throws
    {
        let social = try await SocialWorld()
        try await social.world.push(SetFields(.post("p1"), ["likes": 1_000]))
        #expect(try await social.like("l1", by: social.ben) == nil)
        social.world.clock.advance(by: .seconds(ListCacheState.staleSeconds))
        #expect(try await social.likes() == [1, 1, 1])
        try await social.world.push(DeleteRecord(.post("p1")))
        try await social.world.push(CreateRecord(.post("p1"), [:]))
        #expect(try await social.likes() == [0, 0, 0])
        try await social.unlike("l1", by: social.ben)
        #expect(try await social.likes() == [0, 0, 0])
    }

    @Test func `an account follows another one once`() async throws {
        let social = try await SocialWorld()
        let followed: RecordFields = ["followed": .string(social.ben.description)]
        let results = try await social.world.push(
            CreateRecord(RecordKey("follows", "f1"), followed),
            CreateRecord(RecordKey("follows", "f2"), followed)
        )
        #expect(results.map(\.status) == [.applied, .refused])
        let byBen = try await social.world.push(
            CreateRecord(RecordKey("follows", "f2"), followed),
            by: social.ben
        )
        #expect(byBen.map(\.status) == [.applied])
        let followers = try await social.world.authority.records(
            in: "follows",
            for: social.ana,
            .init(where: ["followed": .string(social.ben.description)])
        )
        #expect(followers.items.map(\.id) == ["f1", "f2"])
    }

    @Test func `what is declared later applies to stored records once they are indexed`()
        async throws
    {
        let before = try await SyncWorld {
            $0.schema = RecordSchema(collections: [
                RecordCollection("likes", access: .everyone), RecordCollection("posts"),
            ])
        }
        let fields: RecordFields = ["post": "p1", "author": "a", "name": "One"]
        try await before.push(CreateRecord(RecordKey("likes", "l1"), fields))
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(collections: [
            RecordCollection(
                "likes",
                access: .everyone,
                unique: [["post", "author"]],
                search: ["name"]
            )
        ])
        let authority = Authority(
            storage: before.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: before.clock
        )
        await authority.findIncompleteIndexes()
        #expect(authority.incompleteIndexes.all.count { $0.collection == "likes" } == 2)
        func search() async throws(Problem) -> [RecordID] {
            let request = Authority.RecordsRequest(search: ["name": "on"])
            return try await authority.records(in: "likes", for: before.account, request).items
                .map(\.id)
        }
        #expect(await problem(search)?.code == .overloaded)
        let operation = try PushedOperation.sample(
            CreateRecord(RecordKey("likes", "l2"), fields),
            sequence: 2
        )
        let request = PushRequest(device: "a-device-of-mine", operations: [operation])
        let early = await problem { () throws(Problem) in
            try await authority.push(before.account, request)
        }
        #expect(early?.code == .overloaded && early?.retryAfter != nil)

        #expect(try await authority.buildIndexes().isEmpty)
        #expect(authority.indexesBuilding == 0 && authority.indexLooks >= 2)
        #expect(try await search() == ["l1"])
        let later = try await authority.push(before.account, request)
        #expect(later.results.map(\.problem?.code) == [.recordExists])
    }

    @Test func `a name is found by its beginning, regardless of case and accents`() async throws {
        let social = try await SocialWorld()
        let names = ["Ána", "ANABEL", "Ånna", "Ben", "an  other", "\u{141}ukasz"]
        for (number, name) in names.enumerated() {
            let id = try #require(RecordID("n\(number)"))
            try await social.world.push(
                CreateRecord(RecordKey("profiles", id), ["name": .string(name)])
            )
        }
        func found(_ text: String, limit: Int = 100) async throws -> [String] {
            var names: [String] = []
            var cursor: String?
            repeat {
                let page = try await social.world.authority.records(
                    in: "profiles",
                    for: social.ben,
                    .init(search: ["name": text], limit: limit, cursor: cursor)
                )
                names += page.items.compactMap { $0.value?["name"]?.string }
                cursor = page.nextCursor
            } while cursor != nil
            return names
        }
        #expect(try await found("an") == ["an  other", "Ána", "ANABEL", "Ånna"])
        #expect(try await found("AN", limit: 1) == ["an  other", "Ána", "ANABEL", "Ånna"])
        #expect(try await found("ana") == ["Ána", "ANABEL"])
        #expect(try await found("an o") == ["an  other"])
        #expect(try await found("luk") == ["\u{141}ukasz"])
        #expect(try await found("zoe") == [])
        for request in [
            Authority.RecordsRequest(search: ["about": "a"]), .init(search: ["name": " "]),
            .init(order: "name", search: ["name": "a"]),
            .init(search: ["name": String(repeating: "a", count: WireLimits.searchedBytes + 1)]),
        ] {
            let refusal = await problem { () throws(Problem) in
                try await social.world.authority.records(
                    in: "profiles",
                    for: social.ben,
                    request
                )
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    @Test(arguments: [
        ("  Éa\t b ", "ea b "), ("STRASSE", "strasse"), ("Stra\u{DF}e", "strasse"),
        ("\u{130}i", "ii"), ("\u{3A3}\u{3C2}", "\u{3C3}\u{3C3}"), ("", ""),
    ])
    func `text is folded for searches`(text: String, folded: String) {
        #expect(text.folded == folded)
    }

    @Test func `invalid declarations are reported`() {
        let collections = [
            RecordCollection("a", owner: ""), RecordCollection("a", unique: [[]]),
            RecordCollection("a", unique: [["x", "x"]]), RecordCollection("a", search: ["x", "x"]),
            RecordCollection("a", indexes: ["x~y"]), RecordCollection("a", blobs: ["x~unique"]),
            RecordCollection("a", blobs: ["x"], owner: "x"),
            RecordCollection("a", counts: [RecordCounter(by: "", in: "b", as: "n")]),
        ]
        for collection in collections { #expect(collection.fault != nil, "\(collection)") }
        let uncounted = RecordSchema(collections: [
            RecordCollection("a", counts: [RecordCounter(by: "b", in: "notes", as: "n")]),
            RecordCollection("notes"),
        ])
        #expect(uncounted.faults.count == 1)
        #expect(SocialWorld.schema.faults == [])
    }
}
