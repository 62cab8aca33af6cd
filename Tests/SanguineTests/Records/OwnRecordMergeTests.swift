import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The rows of a published list with the user's own records in them.
@Suite("Own records in a list", .bounded)
struct OwnRecordMergeTests {
    private struct Note: SyncedRecord {
        static let home = RecordTimeline("home", by: "author", in: "follows", naming: "followed")
        static let all = RecordTimeline(
            "all",
            by: "author",
            in: "follows",
            naming: "followed",
            includesOwn: true
        )
        static let collection = RecordCollection(
            "notes",
            access: .everyone,
            indexes: ["createdAt", "rank", "board"],
            owner: "author",
            search: ["text"],
            timelines: [home, all]
        )
        static let byCreation = RecordIndex<Note, Timestamp>("createdAt")
        static let byRank = RecordIndex<Note, Int>("rank")
        static let byBoard = RecordIndex<Note, String>("board")
        static let text = RecordField<Note, String>("text")

        let id: RecordID
        var text = ""
        var rank = 0
        var board: String?
        var createdAt: Timestamp?
        var likes: Int?
    }

    private struct Letter: SyncedRecord {
        static let collection = RecordCollection(
            "letters",
            access: .readers,
            indexes: ["createdAt", "to"],
            owner: "from",
            readers: "to"
        )
        static let to = RecordIndex<Letter, String>("to")
        let id: RecordID
        var to: [String]
    }

    private typealias Listing = RecordListing<Note>

    private static let newest = Listing().ordered(by: Note.byCreation, descending: true)

    private static func note(_ id: String, at moment: Int64? = nil, rank: Int = 0) -> Note {
        let time = moment.map { Timestamp(millisecondsSince1970: $0 * 1_000) }
        return Note(id: .of(id), rank: rank, createdAt: time)
    }

    private static func own(_ notes: [Note], unstored: [String] = []) -> OwnRecords {
        var own = OwnRecords()
        for note in notes { own.values[note.id] = RecordValue(note) }
        own.unstored = Set(unstored.map { RecordID.of($0) })
        return own
    }

    private static func ids(
        _ listing: Listing,
        _ listed: [Note],
        _ own: OwnRecords,
        hasMore: Bool = false,
        hasPrevious: Bool = false,
        removed: [String] = []
    ) -> [String] {
        let state = ListSnapshot<Note>(hasMore: hasMore, hasPrevious: hasPrevious, phase: .ready)
        return OwnRecordMerge(listing: listing)
            .rows(listed, in: state, own: own, removed: Set(removed.map { RecordID.of($0) }))
            .map(\.id.text)
    }

    @Test func `an unstored record is the newest, even if the clock is wrong`() {
        let listed = [Self.note("b", at: 20), Self.note("a", at: 10)]
        let own = Self.own([Self.note("mine", at: 1)], unstored: ["mine"])
        #expect(Self.ids(Self.newest, listed, own) == ["mine", "b", "a"])
        let two = [Self.note("z", at: 1), Self.note("a2", at: 2)]
        #expect(
            Self.ids(Self.newest, listed, Self.own(two, unstored: ["z", "a2"]))
                == ["a2", "z", "b", "a"]
        )
        let oldest = Listing().ordered(by: Note.byCreation)
        let ascending = Array(listed.reversed())
        #expect(Self.ids(oldest, ascending, own) == ["a", "b", "mine"])
        // Before the last page is loaded, others may come before it.
        #expect(Self.ids(oldest, ascending, own, hasMore: true) == ["a", "b"])
    }

    @Test func `a stored record that the page lacks is in its place`() {
        let listed = [Self.note("c", at: 30), Self.note("a", at: 10)]
        let own = Self.own([
            Self.note("top", at: 40), Self.note("mid", at: 20), Self.note("last", at: 5),
        ])
        #expect(Self.ids(Self.newest, listed, own) == ["top", "c", "mid", "a", "last"])
        #expect(Self.ids(Self.newest, listed, own, hasMore: true) == ["top", "c", "mid", "a"])
        #expect(
            Self.ids(Self.newest, listed, own, hasMore: true, hasPrevious: true)
                == ["c", "mid", "a"]
        )
        #expect(Self.ids(Self.newest, [], own) == ["top", "mid", "last"])
    }

    @Test func `records of one moment are ordered by id, in both directions`() {
        let listed = [Self.note("a", rank: 1), Self.note("c", rank: 1)]
        let own = Self.own([Self.note("b", rank: 1), Self.note("d", rank: -5)])
        let ranked = Listing().ordered(by: Note.byRank)
        #expect(Self.ids(ranked, listed, own) == ["d", "a", "b", "c"])
        let descending = Listing().ordered(by: Note.byRank, descending: true)
        #expect(Self.ids(descending, listed.reversed(), own) == ["c", "b", "a", "d"])
        // Without an order, by id.
        #expect(Self.ids(Listing(), listed, own) == ["a", "b", "c", "d"])
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func `records are inserted as a sort places them`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var places: [(moment: Int64, id: String)] = []
        var mine: Set<String> = []
        for number in 0..<30 {
            places.append((Int64.random(in: 1...9, using: &random), "n\(number)"))
            if Bool.random(using: &random) { mine.insert("n\(number)") }
        }
        places.sort { $1 < $0 }
        let notes = places.map { Self.note($0.id, at: $0.moment) }
        let listed = notes.filter { !mine.contains($0.id.text) }
        let own = Self.own(notes.filter { mine.contains($0.id.text) })
        #expect(Self.ids(Self.newest, listed, own) == places.map(\.id), "seed \(seed)")
    }

    @Test func `a changed record is changed on any page, and a deleted one is not shown`() {
        let listed = [Self.note("c", at: 30), Self.note("b", at: 20), Self.note("a", at: 10)]
        var changed = listed[1]
        changed.text = "new"
        var own = Self.own([changed])
        own.deleted = [.of("a")]
        let rows = OwnRecordMerge(listing: Self.newest)
            .rows(listed, in: ListSnapshot(hasMore: true, phase: .ready), own: own)
        #expect(rows.map(\.id.text) == ["c", "b"] && rows.map(\.text) == ["", "new"])
        #expect(Self.ids(Self.newest, listed, own, removed: ["c"]) == ["b"])
    }

    @Test func `members that the server counts stay those of the page`() {
        var listed = Self.note("a", at: 10)
        listed.likes = 7
        var changed = listed
        (changed.text, changed.likes) = ("new", nil)
        var own = Self.own([changed])
        own.counted = ["likes"]
        let rows = OwnRecordMerge(listing: Self.newest)
            .rows([listed], in: ListSnapshot(phase: .ready), own: own)
        #expect(rows.map(\.likes) == [7] && rows.map(\.text) == ["new"])
    }

    @Test func `only records that meet the conditions are shown`() {
        let birds = Self.newest.where(Note.byBoard, is: "birds")
        var (mine, moved) = (Self.note("mine", at: 5), Self.note("moved", at: 4))
        (mine.board, moved.board) = ("birds", "fish")
        let listed = [Self.note("a", at: 10), moved]
        #expect(Self.ids(birds, listed, Self.own([mine, moved])) == ["a", "mine"])
    }

    @Test func `a timeline shows own records if it is declared to, and a search never adds any`() {
        let listed = [Self.note("a", at: 10)]
        let own = Self.own([Self.note("mine", at: 20)])
        #expect(Self.ids(.timeline(Note.all), listed, own) == ["mine", "a"])
        #expect(Self.ids(.timeline(Note.home), listed, own) == ["a"])
        #expect(Self.ids(Listing().search(Note.text, prefix: "x"), listed, own) == ["a"])
    }

    @Test func `a condition finds one of several readers`() {
        let listing = RecordListing<Letter>().where(Letter.to, is: "ben")
        var own = OwnRecords()
        for (id, to) in [("l1", ["ana", "ben"]), ("l2", ["cleo"])] {
            let letter = Letter(id: .of(id), to: to)
            own.values[letter.id] = RecordValue(letter)
        }
        let rows = OwnRecordMerge(listing: listing)
            .rows([], in: ListSnapshot(phase: .ready), own: own)
        #expect(rows.map(\.id.text) == ["l1"])
    }
}
