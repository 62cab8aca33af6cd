import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority

/// Stores the number of the user's messages to an account in a note.
private struct CountMessages: RecordMutation {
    static let name = "test.messages"
    let to: String

    func apply(to records: inout Records) throws {
        let found = records.keys(in: "messages", where: "to", is: .string(to))
        records.put(RecordValue(["count": .integer(Int64(found.count))]), for: .note("n"))
    }
}

/// Three accounts, of which two exchange messages.
private struct MessageWorld {
    let world: SyncWorld
    let ana: Identifier
    let ben: Identifier
    let eve: Identifier

    static let schema = RecordSchema(
        collections: [
            RecordCollection("notes"),
            RecordCollection(
                "messages",
                access: .readers,
                indexes: ["createdAt", "to", "tag"],
                blobs: ["photo"],
                owner: "from",
                readers: "to",
                unique: [["tag"]]
            ),
        ],
        mutations: [CountMessages.self]
    )

    init() async throws {
        world = try await SyncWorld { $0.schema = Self.schema }
        ana = world.account
        ben = try await world.stranger(2)
        eve = try await world.stranger(3)
    }

    /// Returns the key of a message; its id is a UUID.
    static func key(_ number: UInt64) -> RecordKey {
        RecordKey("messages", RecordID(Identifier.numbered(number)))
    }

    @discardableResult
    func send(
        _ number: UInt64,
        to readers: JSONValue,
        by account: Identifier,
        _ fields: RecordFields = [:]
    ) async throws -> ProblemCode? {
        world.clock.advance(by: .seconds(1))
        let create = CreateRecord(
            Self.key(number),
            fields.merging(["to": readers]) { first, _ in first }
        )
        return try await world.push(create, by: account)[0].problem?.code
    }

    func ids(
        _ account: Identifier,
        _ request: Authority.RecordsRequest = .init(order: "-createdAt")
    ) async throws(Problem) -> [UInt64] {
        let items = try await world.authority.records(in: "messages", for: account, request).items
        return items.map { item in
            (1...9).first { Self.key($0).id == item.id } ?? 0
        }
    }

    func canRead(_ number: UInt64, _ account: Identifier) async -> Bool {
        let id = Self.key(number).id
        return (try? await world.authority.record(id, in: "messages", for: account)) != nil
    }
}

extension Identifier {
    fileprivate var json: JSONValue { .string(description) }
}

@Suite("Readers of a record", .bounded)
struct RecordReadersTests {
    @Test func `a message is read by its sender and its receiver, and by no one else`()
        async throws
    {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        #expect(try await social.send(1, to: ben.json, by: ana) == nil)
        #expect(try await social.send(2, to: ana.json, by: ben) == nil)
        #expect(try await social.send(3, to: eve.json, by: ben) == nil)
        #expect(try await social.ids(ana) == [2, 1])
        #expect(try await social.ids(ben) == [3, 2, 1])
        #expect(try await social.ids(eve) == [3])
        // Without an order, the list begins with the oldest.
        #expect(try await social.ids(ben, .init()) == [1, 2, 3])
        #expect(try await social.ids(ben, .init(where: ["to": ben.json])) == [1])
        #expect(try await social.ids(eve, .init(where: ["to": ben.json])) == [])
        let all = (1...3).map { MessageWorld.key($0).id }
        #expect(try await social.ids(eve, .init(ids: all)) == [3])
        #expect(await social.canRead(1, ana))
        #expect(await social.canRead(1, ben))
        #expect(await !social.canRead(1, eve))
        let counted = try await social.world.authority.records(
            in: "messages",
            for: eve,
            .init(counts: true)
        )
        #expect(counted.count == ListCount(number: 1, isExact: true))
    }

    @Test func `pages of messages continue, with a cursor of the reader's own`() async throws {
        let social = try await MessageWorld()
        for number in 1...5 as ClosedRange<UInt64> {
            try await social.send(number, to: social.ben.json, by: social.ana)
        }
        var found: [UInt64] = []
        var cursor: String?
        repeat {
            let request = Authority.RecordsRequest(order: "-createdAt", limit: 2, cursor: cursor)
            found += try await social.ids(social.ben, request)
            cursor = try await social.world.authority.records(
                in: "messages",
                for: social.ben,
                request
            ).nextCursor
        } while cursor != nil
        #expect(found == [5, 4, 3, 2, 1])
    }

    @Test func `the sender can change the readers, and takes the message back by deleting it`()
        async throws
    {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        try await social.send(1, to: .array([ben.json]), by: ana)
        let both = JSONValue.array([ben.json, eve.json])
        try await social.world.push(SetFields(MessageWorld.key(1), ["to": both]))
        #expect(try await social.ids(ben) == [1])
        #expect(try await social.ids(eve) == [1])
        try await social.world.push(SetFields(MessageWorld.key(1), ["to": .array([eve.json])]))
        #expect(try await social.ids(ben) == [])
        #expect(try await social.ids(eve) == [1])
        #expect(await !social.canRead(1, ben))
        try await social.world.push(DeleteRecord(MessageWorld.key(1)))
        #expect(try await social.ids(eve) == [])
        #expect(try await social.ids(ana) == [])
    }

    @Test func `only the sender can change a message, and others do not learn of it`() async throws
    {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        try await social.send(1, to: ben.json, by: ana, ["from": eve.json])
        let key = MessageWorld.key(1)
        let sent = try await social.world.authority.record(key.id, in: "messages", for: ben)
        #expect(sent.value?["from"]?.string == ana.description)
        #expect(sent.seq == 0)
        let byBen = try await social.world.push(
            SetFields(key, ["text": "no"]),
            DeleteRecord(key),
            by: ben
        )
        #expect(byBen.map(\.problem?.code) == [.notOwner, .notOwner])
        let byEve = try await social.world.push(
            SetFields(key, ["text": "no"]),
            DeleteRecord(key),
            by: eve
        )
        #expect(byEve.map(\.problem?.code) == [.notFound, nil])
        #expect(try await social.ids(ben) == [1])
        #expect(try await social.send(1, to: eve.json, by: eve) == .notOwner)
    }

    @Test func `unique values are compared with the sender's own messages only`() async throws {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        #expect(try await social.send(1, to: ben.json, by: ana, ["tag": "a"]) == nil)
        #expect(try await social.send(2, to: ben.json, by: ana, ["tag": "a"]) == .recordExists)
        #expect(try await social.send(3, to: ben.json, by: eve, ["tag": "a"]) == nil)
    }

    @Test func `a mutation looks up the user's own messages only, as on the device`() async throws {
        let social = try await MessageWorld()
        let (ana, ben) = (social.ana, social.ben)
        try await social.send(1, to: ben.json, by: ana)
        try await social.send(2, to: ben.json, by: ben)
        try await social.world.push(CountMessages(to: ben.description), by: ben)
        let note = try await social.world.authority.record("n", in: "notes", for: ben)
        #expect(note.value?["count"] == 1)
    }

    @Test func `a file of a message is read by its readers only`() async throws {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        let authority = social.world.authority
        let facts = try await authority.addBlob(SampleFile.png.bytes(filler: 9), to: ana).facts
        let id = try #require(BlobID(facts.id))
        #expect(
            try await social.send(1, to: ben.json, by: ana, ["photo": .string(facts.id)]) == nil
        )
        #expect(try await authority.readableBlob(id, by: ana).id == id)
        #expect(try await authority.readableBlob(id, by: ben).id == id)
        func read() async throws(Problem) -> BlobRow {
            try await authority.readableBlob(id, by: eve)
        }
        #expect(await problem(read)?.code == .notFound)
        #expect(
            try await social.send(2, to: eve.json, by: eve, ["photo": .string(facts.id)])
                == .invalidContent
        )
        try await social.world.push(DeleteRecord(MessageWorld.key(1)))
        let gone = await problem { () throws(Problem) in
            try await authority.readableBlob(id, by: ben)
        }
        #expect(gone?.code == .notFound)
    }

    @Test func `a commit is reported to its readers, and to those that it removes`() async throws {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        let reported = Mutex<[Set<Identifier>]>([])
        social.world.authority.onLists { changed in
            reported.withLock { $0.append(changed.readers["messages"] ?? []) }
        }
        try await social.send(1, to: ben.json, by: ana)
        try await social.world.push(SetFields(MessageWorld.key(1), ["text": "Hello."]))
        try await social.world.push(SetFields(MessageWorld.key(1), ["to": eve.json]))
        try await social.world.push(DeleteRecord(MessageWorld.key(1)))
        try await social.world.push(CreateRecord(.note("n"), [:]))
        #expect(
            reported.withLock { $0 } == [[ana, ben], [ana, ben], [ana, ben, eve], [ana, eve]]
        )
    }

    @Test func `invalid readers and ids are refused`() async throws {
        let social = try await MessageWorld()
        let (ana, ben) = (social.ana, social.ben)
        let numbers = 1...UInt64(WireLimits.readersPerRecord + 1)
        let many = numbers.map { Identifier.numbered($0).json }
        let invalid: [JSONValue] = [
            "ben", 7, .array([ben.json, "ben"]), .array([ben.json, ben.json]), .array(many),
        ]
        for readers in invalid {
            #expect(try await social.send(1, to: readers, by: ana) == .invalidContent)
        }
        let valid: [JSONValue] = [.null, .array([]), .array(Array(many.dropLast()))]
        for readers in valid {
            #expect(try await social.send(1, to: readers, by: ana) == nil)
            try await social.world.push(DeleteRecord(MessageWorld.key(1)))
        }
        let guessed = CreateRecord(RecordKey("messages", "ana:ben"), ["to": ben.json])
        #expect(
            try await social.world.push(guessed).map(\.problem?.code) == [.invalidContent]
        )
    }

    @Test func `an index that is declared later contains the messages of each reader`()
        async throws
    {
        let social = try await MessageWorld()
        let (ana, ben, eve) = (social.ana, social.ben, social.eve)
        try await social.send(1, to: ben.json, by: ana, ["mood": "good"])
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(collections: [
            RecordCollection(
                "messages",
                access: .readers,
                indexes: ["createdAt", "mood"],
                owner: "from",
                readers: "to"
            )
        ])
        let authority = Authority(
            storage: social.world.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: social.world.clock
        )
        await authority.findIncompleteIndexes()
        let request = Authority.RecordsRequest(where: ["mood": "good"])
        let early = await problem { () throws(Problem) in
            try await authority.records(in: "messages", for: ben, request)
        }
        #expect(early?.code == .overloaded)
        while try await !authority.buildIndexes().isEmpty {}
        for (account, count) in [(ana, 1), (ben, 1), (eve, 0)] {
            let found = try await authority.records(in: "messages", for: account, request)
            #expect(found.items.count == count)
        }
    }

    @Test func `invalid declarations of readers are reported`() {
        let valid = MessageWorld.schema.collection("messages")
        #expect(valid?.fault == nil && MessageWorld.schema.faults == [])
        let at = ["createdAt"]
        let counter = RecordCounter(by: "post", in: "posts", as: "messages")
        let invalid = [
            RecordCollection("a", readers: "to"),
            RecordCollection("a", access: .readers, indexes: at, owner: "from"),
            RecordCollection("a", access: .readers, indexes: at, readers: "to"),
            RecordCollection("a", access: .readers, owner: "from", readers: "to"),
            RecordCollection("a", access: .readers, indexes: at, owner: "to", readers: "to"),
            RecordCollection(
                "a",
                access: .readers,
                indexes: at,
                owner: "from",
                readers: "to",
                search: ["text"]
            ),
            RecordCollection(
                "a",
                access: .readers,
                indexes: at,
                owner: "from",
                readers: "to",
                counts: [counter]
            ),
            RecordCollection(
                "a",
                access: .readers,
                indexes: at,
                blobs: [.publicly("photo")],
                owner: "from",
                readers: "to"
            ),
        ]
        for collection in invalid { #expect(collection.fault != nil, "\(collection)") }
    }
}
