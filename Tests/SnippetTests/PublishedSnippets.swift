import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

struct Singer: SyncedRecord {
    static let collection = RecordCollection("singers", access: .everyone, search: ["name"])
    static let picture = RecordField<Singer, String>("picture")
    let id: RecordID
    var name: String
    var picture: String
    var biography: String
}

extension Singer { static let name = RecordField<Singer, String>("name") }

struct Song: SyncedRecord {
    static let collection = RecordCollection(
        "songs",
        access: .everyone,
        indexes: ["createdAt", "album"],
        owner: "account"
    )
    static let byCreatedAt = RecordIndex<Song, Timestamp>("createdAt")
    static let byAlbum = RecordIndex<Song, RecordID>("album")
    let id: RecordID
    var title: String
    var album: RecordID
    var likes: Int?
}

struct SongLike: SyncedRecord {
    static let collection = RecordCollection(
        "likes",
        access: .everyone,
        indexes: ["song"],
        owner: "account",
        unique: [["song", "account"]],
        counts: [RecordCounter(by: "song", in: "songs", as: "likes")]
    )
    let id: RecordID
    var song: RecordID
}

private struct Verse: SyncedRecord {
    static let home = RecordTimeline("home", by: "author", in: "follows", naming: "followed")
    static let collection = RecordCollection(
        "verses",
        access: .everyone,
        indexes: ["createdAt"],
        owner: "author",
        timelines: [home]
    )
    let id: RecordID
    var text: String
}

private struct Letter: SyncedRecord {
    static let collection = RecordCollection(
        "letters",
        access: .readers,
        indexes: ["createdAt", "to", "from"],
        owner: "from",
        readers: "to"
    )
    static let byCreatedAt = RecordIndex<Letter, Timestamp>("createdAt")
    let id: RecordID
    var to: RecordID
    var text: String
}

private struct Follow: SyncedRecord {
    static let collection = RecordCollection(
        "follows",
        indexes: ["followed"],
        unique: [["followed"]]
    )
    let id: RecordID
    var followed: RecordID
}

extension RecordListing<Song> {
    static var newest: Self { Self().ordered(by: Song.byCreatedAt, descending: true) }
    static func songs(of album: RecordID) -> Self { newest.where(Song.byAlbum, is: album) }
}

/// The samples of published records and relations.
@Suite("Published record snippets", .bounded)
struct PublishedSnippets {
    private static let schema = RecordSchema(
        Singer.self,
        Song.self,
        SongLike.self,
        Verse.self,
        Follow.self,
        Letter.self
    )

    private func clients() throws -> (SanguineClient, InMemoryAuthority) {
        let authority = InMemoryAuthority(schema: Self.schema)
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = authority
        configuration.register(Self.schema)
        return (try SanguineClient(configuration), authority)
    }

    @Test func `a record of another user is looked up, whole or in part`() async throws {
        let (client, authority) = try clients()
        let id = RecordID.new()
        let other = authority.addAccount()
        let stored = Singer(id: id, name: "Ana", picture: "a.jpg", biography: "Long.")
        authority.set(stored, of: other)
        do {
            let singer = try await client.value(of: .published(Singer.self, id))
            #expect(singer == stored)
        }
        let card = RecordSelection(Singer.name, Singer.picture)
        let singer = try await client.value(of: .published(Singer.self, id, only: card))
        let name = singer[Singer.name]
        #expect(name == "Ana")
        let found = RecordListing<Singer>().search(Singer.name, prefix: "an")
        #expect(try await client.value(of: .published(found)) == [stored])
        client.close()
    }

    @Test func `a list shows how often its records are liked`() async throws {
        let (client, authority) = try clients()
        let (song, other) = (RecordID.new(), authority.addAccount())
        authority.set(Song(id: song, title: "One", album: .new(), likes: nil), of: other)
        authority.set(SongLike(id: .new(), song: song), of: other)
        let songs = try await client.value(of: .published(RecordListing<Song>.newest))
        #expect(songs.map(\.likes) == [1])
        let none = RecordListing<Song>.songs(of: .new())
        #expect(try await client.value(of: .published(none)) == [])
        client.close()
    }

    @MainActor
    @Test func `the model of a list shows a record that the server does not have`() async throws {
        let (client, _) = try clients()
        let newest = ListQuery<Song>.published(RecordListing<Song>.newest, showsOwn: true)
        let feed = client.model(newest)
        let song = Song(id: .new(), title: "One", album: .new(), likes: nil)
        try client.perform(try CreateRecord(song))
        #expect(feed.items == [song])
        client.close()
    }

    @Test func `a timeline shows the newest records of followed authors`() async throws {
        let (client, authority) = try clients()
        let (author, stranger) = (authority.addAccount(), authority.addAccount())
        for account in [author, stranger] {
            authority.set(Verse(id: RecordID(account), text: "One"), of: account)
        }
        try client.perform(try CreateRecord(Follow(id: .new(), followed: RecordID(author))))
        try await client.synchronize()
        let home = ListQuery<Verse>.published(.timeline(Verse.home))
        let verses = try await client.value(of: home)
        #expect(verses.map(\.id) == [RecordID(author)])
        client.close()
    }

    @Test func `a letter is read by its sender and its receiver`() async throws {
        let (client, authority) = try clients()
        let (friend, stranger) = (authority.addAccount(), authority.addAccount())
        let newest = RecordListing<Letter>().ordered(by: Letter.byCreatedAt, descending: true)
        let me = authority.user
        let received = Letter(id: .new(), to: RecordID(me), text: "Hello.")
        authority.set(received, of: friend)
        authority.set(Letter(id: .new(), to: RecordID(friend), text: "No."), of: stranger)
        let letter = Letter(id: .new(), to: RecordID(friend), text: "Hello!")
        try client.perform(try CreateRecord(letter))
        try await client.synchronize()
        let letters = try await client.value(of: .published(newest))
        #expect(Set(letters.map(\.text)) == ["Hello.", "Hello!"])
        client.close()
    }
}
