import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

private struct Person: SyncedRecord {
    static let collection = RecordCollection("profiles", access: .everyone, indexes: ["name"])
    static let name = RecordField<Person, String>("name")
    static let about = RecordField<Person, String>("about")
    static let byName = RecordIndex<Person, String>("name")
    let id: RecordID
    var name: String
    var about: String?
}

private struct Badge: SyncedRecord {
    static let collection = RecordCollection(
        "badges",
        access: .everyone,
        counts: [RecordCounter(by: "profile", in: "profiles", as: "badges")]
    )
    let id: RecordID
    var profile: RecordID
}

private struct Post: SyncedRecord {
    static let home = RecordTimeline("home", by: "author", in: "follows", naming: "followed")
    static let collection = RecordCollection(
        "posts",
        access: .everyone,
        indexes: ["createdAt"],
        owner: "author",
        timelines: [home]
    )
    let id: RecordID
    var text: String
}

private struct Follow: SyncedRecord {
    static let collection = RecordCollection("follows", indexes: ["followed"])
    let id: RecordID
    var followed: RecordID
}

/// Records of all users, read from the server.
@Suite("Published records", .bounded)
struct PublishedRecordsTests {
    private static let schema = RecordSchema(
        Person.self,
        Badge.self,
        Post.self,
        Follow.self
    )

    private func fixture() throws -> (RecordsFixture, SanguineClient) {
        let fixture = RecordsFixture(schema: Self.schema)
        let other = fixture.authority.addAccount()
        for name in ["ana", "ben", "cleo"] {
            let profile = Person(id: .of(name), name: name, about: "About \(name).")
            fixture.authority.set(profile, of: other)
        }
        return (fixture, try fixture.client { $0.schema = Self.schema })
    }

    @Test func `a timeline and a list of one collection can be declared together`() throws {
        let lists = [
            ListQuery<Post>.published().declaration,
            ListQuery<Post>.published(.timeline(Post.home)).declaration,
        ]
        #expect(QueryDeclaration.conflict(in: lists) == nil)
        #expect(lists.map(\.name) == ["records:posts", "records:posts:home"])
    }

    @Test func `the matrix shows published records in the database of the server`() throws {
        let name = RecordSelection(Person.name)
        let published = [
            ListQuery<Post>.published().declaration,
            ListQuery<PartialRecord<Person>>.published(RecordListing(), only: name).declaration,
            ValueQuery<Person>.published(Person.self, .of("ana")).declaration,
        ]
        let own = QueryDeclaration(name: "record", policy: .session.depends(on: "records:posts"))
        let matrix = StorageMatrix(
            declared: published + [own],
            collections: Self.schema.allCollections
        )
        let server = StorageMatrix.Server(
            cached: "database",
            audience: "everyone",
            history: "records"
        )
        for query in published {
            #expect(matrix[query.name]?.server == server, "\(query.name)")
            #expect(matrix[query.name]?.restored == .nextRead, "\(query.name)")
        }
        #expect(matrix["record"]?.server == .backend)
        let unregistered = StorageMatrix(declared: published)
        #expect(unregistered["records:posts"]?.server.audience == "readers")
    }

    private func lookups(_ fixture: RecordsFixture) -> [[String: String]] {
        fixture.network.requests.filter { $0.url.path().hasPrefix("/v1/collections/") }
            .map { request in
                let parts = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
                var query: [String: String] = [:]
                for item in parts?.queryItems ?? [] { query[item.name] = item.value }
                return query
            }
    }

    /// Ends the window in which lookups are joined.
    private func endWindow(
        _ fixture: RecordsFixture,
        _ client: SanguineClient,
        askers: Int
    )
        async throws
    {
        try await eventually("\(askers) lookups wait and the window is open") {
            guard client.batches.askerCount == askers,
                let next = fixture.delay.timeToNextWake, next <= ClientLimits.batchWindow
            else { return false }
            fixture.delay.advance(by: next)
            return true
        }
    }

    @Test func `lookups made at the same time share a request`() async throws {
        let (fixture, client) = try fixture()
        let names = ["ana", "ben", "cleo", "nobody"]
        let tasks = names.map { name in
            Task { try await client.value(of: .published(Person.self, .of(name))) }
        }
        try await endWindow(fixture, client, askers: 4)

        for (name, task) in zip(names.dropLast(), tasks) {
            #expect(try await task.finished().name == name)
        }
        let missing = await #expect(throws: SanguineError.self) { try await tasks[3].finished() }
        #expect(missing?.code == "not_found")
        let asked = lookups(fixture)
        #expect(asked.count == 1)
        #expect(
            Set(asked.first?["ids"]?.split(separator: ",").map(String.init) ?? []) == Set(names)
        )
    }

    @Test func `a cancelled lookup leaves the request to the others`() async throws {
        let (fixture, client) = try fixture()
        let (ana, ben) = (
            Task { try await client.value(of: .published(Person.self, .of("ana"))) },
            Task { try await client.value(of: .published(Person.self, .of("ben"))) }
        )
        try await eventually("both lookups wait") { client.batches.askerCount == 2 }
        ana.cancel()
        try await endWindow(fixture, client, askers: 1)

        await #expect(throws: SanguineError.cancelled) { try await ana.finished() }
        #expect(try await ben.finished().name == "ben")
        #expect(lookups(fixture).map { $0["ids"] } == ["ben"])
    }

    @Test func `a part of a record is cached apart from the whole record`() async throws {
        let (fixture, client) = try fixture()
        let name = RecordSelection(Person.name)
        let part = Task {
            try await client.value(of: .published(Person.self, .of("ana"), only: name))
        }
        try await endWindow(fixture, client, askers: 1)
        let found = try await part.finished()

        #expect(found[Person.name] == "ana" && found[Person.about] == nil)
        #expect(lookups(fixture).first?["fields"] == "id,name")
        #expect(client.cached(.published(Person.self, .of("ana"))) == nil)
        let both = RecordSelection(Person.about, Person.name)
        #expect(client.cached(.published(Person.self, .of("ana"), only: both)) == nil)

        let whole = Task { try await client.value(of: .published(Person.self, .of("ana"))) }
        try await endWindow(fixture, client, askers: 1)
        #expect(try await whole.finished().about == "About ana.")
        #expect(client.cached(.published(Person.self, .of("ana"), only: name)) == found)
    }

    @Test func `a list can have only some members of its records`() async throws {
        let (fixture, client) = try fixture()
        let listing = RecordListing<Person>().ordered(by: Person.byName, descending: true)
        let rows = try await client.value(
            of: .published(listing, only: RecordSelection(Person.name))
        )

        #expect(rows.map { $0[Person.name] } == ["cleo", "ben", "ana"])
        #expect(rows.allSatisfy { $0.members.count == 1 })
        #expect(client.cached(.published(listing)) == nil)
        #expect(lookups(fixture).first?["order"] == "-name")
    }

    @Test func `a list leaves out what is not a record of its type`() async throws {
        let (fixture, client) = try fixture()
        let other = fixture.authority.addAccount()
        let key = RecordKey("profiles", .of("bad"))
        fixture.authority.put(RecordValue(["name": 7]), for: key, of: other)

        let rows = try await client.value(of: .published(RecordListing<Person>()))
        #expect(rows.map(\.name) == ["ana", "ben", "cleo"])
    }

    @Test func `text that looks like a number is found as text`() async throws {
        let (fixture, client) = try fixture()
        fixture.authority.set(Person(id: .of("n"), name: "7"), of: fixture.authority.addAccount())

        let listing = RecordListing<Person>().where(Person.byName, is: "7")
        #expect(try await client.value(of: .published(listing)).map(\.id) == [.of("n")])
    }

    @Test func `a change of the user's own record makes lists of the collection stale`()
        async throws
    {
        let (fixture, client) = try fixture()
        let all = ListQuery<Person>.published()
        try await client.synchronize()
        #expect(try await client.value(of: all).count == 3)
        #expect(try await client.value(of: all).count == 3)
        #expect(lookups(fixture).count == 1)

        try client.perform(CreateRecord(RecordKey("profiles", .of("dora")), ["name": "dora"]))
        try await client.synchronize()
        #expect(try await client.value(of: all).count == 4)
        #expect(lookups(fixture).count == 2)
    }

    @Test func `a change of a counted record makes the lists of the counting records stale`()
        async throws
    {
        let (fixture, client) = try fixture()
        let all = ListQuery<Person>.published()
        try await client.synchronize()
        _ = try await client.value(of: all)
        try client.perform(CreateRecord(Badge(id: .of("b"), profile: .of("ana"))))
        try await client.synchronize()
        _ = try await client.value(of: all)
        #expect(lookups(fixture).count == 2)
    }

    @Test func `a list that is shown is fetched again when another user changes it`() async throws {
        let authority = InMemoryAuthority(schema: Self.schema)
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = authority
        configuration.register(Self.schema)
        let client = try SanguineClient(configuration)
        let all = ListQuery<Person>.published()
        #expect(try await client.value(of: all).isEmpty)
        let updates = client.updates(of: all)
        let other = authority.addAccount()
        // The connection may begin after the first of the changes.
        var names = 0
        try await eventually("the list has the new profile") {
            names += 1
            authority.set(Person(id: .of("dora"), name: "dora \(names)"), of: other)
            return client.cached(all)?.count == 1
        }
        withExtendedLifetime(updates) {}
        client.close()
    }

    @Test func `a timeline changes with the user's follows`() async throws {
        let (fixture, client) = try fixture()
        let authors = [fixture.authority.addAccount(), fixture.authority.addAccount()]
        for author in authors {
            let id = RecordID(author)
            fixture.authority.set(Post(id: id, text: "of \(author)"), of: author)
        }
        let home = ListQuery<Post>.published(.timeline(Post.home))
        try await client.synchronize()
        #expect(try await client.value(of: home).isEmpty)

        let follow = Follow(id: .new(), followed: RecordID(authors[1]))
        try client.perform(try CreateRecord(follow))
        try await client.synchronize()
        #expect(try await client.value(of: home).map(\.id) == [RecordID(authors[1])])
        #expect(lookups(fixture).map { $0["timeline"] } == ["home", "home"])
        // Until then it is fresh.
        #expect(try await client.value(of: home).count == 1)
        #expect(lookups(fixture).count == 2)
    }

    @Test func `a member is requested even if a change has one of its name`() throws {
        let deleted = RecordField<Person, Bool>("deleted")
        #expect(RecordSelection(deleted, Person.name).query == "id,value.deleted,name")
        #expect(RecordSelection(deleted, Person.name) == RecordSelection(Person.name, deleted))
    }

    @Test func `a selected member of another type is refused`() throws {
        let selection = RecordSelection(Person.name)
        #expect(throws: DecodingError.self) {
            try PartialRecord(id: .of("a"), ["name": 7], selecting: selection)
        }
        let part = try PartialRecord(id: .of("a"), ["about": 7], selecting: selection)
        #expect(part.members.isEmpty)
    }
}
