import Foundation
import Sanguine
import SanguineModel

// The app of the game of clients. Whatever is done leaves a mark of its own, so that it can be seen
// in any view and at any time whether it is in it: not, once, or twice.

/// A record that collects marks, in one of the app's versions; marks are never removed.
protocol GameTallyForm: SyncedRecord {
    var marks: [String] { get set }
    /// Written on the device 0 only.
    var left: String? { get set }
    /// Written on the device 1 only.
    var middle: String? { get set }
    /// Written on the device 2 only.
    var right: String? { get set }

    init(id: RecordID)
}

extension GameTallyForm {
    /// The members that devices write, by the device.
    var members: [String?] { [left, middle, right] }

    static var collection: RecordCollection { GameTally.gameTallies }

    /// The member that a device writes.
    subscript(device: Int) -> String? {
        get { members[device] }
        set {
            switch device {
            case 0: left = newValue
            case 1: middle = newValue
            default: right = newValue
            }
        }
    }
}

/// A tally in the first version of the app.
struct OldGameTally: GameTallyForm {
    let id: RecordID
    var marks: [String] = []
    var left: String?
    var middle: String?
    var right: String?

    init(id: RecordID) { self.id = id }
}

/// A tally in the second version, and on the server: with one more member.
struct GameTally: GameTallyForm, Defaulted {
    static let gameTallies = RecordCollection("gameTallies")
    static let ids = ["t0", "t1"].compactMap { RecordID($0) }
    static let defaults = GameTally(id: ids[0])
    let id: RecordID
    var marks: [String] = []
    var left: String?
    var middle: String?
    var right: String?
    var more: [String] = []

    init(id: RecordID) { self.id = id }
}

/// What a long feed is made of.
struct GameFiller: SyncedRecord {
    static let collection = RecordCollection("gameFillers")
    let id: RecordID
    var turn: Int
}

/// What a deed means for an earlier one of its lane that has reached nobody.
struct GameSupersession: Codable, Sendable {
    let mark: String
    let isUndone: Bool

    func judged(_ earlier: String?) -> Supersession? {
        earlier == mark ? (isUndone ? .undoes : .replaces) : nil
    }
}

/// Leaves its mark in one tally, or in all of them at once: the first version.
struct OldMarkTally: RecordMutation, Superseding {
    static let name = "game.mark"
    let mark: String
    let tallies: [RecordID]
    let lane: String
    var supersedes: GameSupersession?

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        supersedes?.judged((earlier as? OldMarkTally)?.mark)
    }

    func apply(to records: inout Records) throws {
        for id in tallies {
            var tally = records.get(OldGameTally.self, id) ?? OldGameTally(id: id)
            tally.marks.append(mark)
            records.set(tally)
        }
    }
}

/// Leaves its mark in one tally, or in all of them at once, and in the new member if it is deep:
/// the second version.
struct MarkTally: RecordMutation, Superseding, Defaulted {
    static let name = "game.mark"
    static let defaults = MarkTally(mark: "", tallies: [], lane: "main")
    let mark: String
    let tallies: [RecordID]
    let lane: String
    var supersedes: GameSupersession?
    var isDeep = false

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        supersedes?.judged((earlier as? MarkTally)?.mark)
    }

    func apply(to records: inout Records) throws {
        for id in tallies {
            var tally = records.get(GameTally.self, id) ?? GameTally(id: id)
            tally.marks.append(mark)
            if isDeep { tally.more.append(mark) }
            records.set(tally)
        }
    }
}

/// Leaves its mark in the new member only.
///
/// The first version does not know it, and neither does a server that is not deployed yet.
struct DeepenTally: RecordMutation {
    static let name = "game.deepen"
    let mark: String
    let tallies: [RecordID]
    let lane: String

    func apply(to records: inout Records) throws {
        for id in tallies {
            var tally = records.get(GameTally.self, id) ?? GameTally(id: id)
            tally.more.append(mark)
            records.set(tally)
        }
    }
}

/// A value of the app's own backend that collects marks.
struct GameBoard: Codable, Sendable, Equatable {
    static let numbers = 0...1
    var marks: [String] = []
}

/// Leaves its mark on a board; it adds, so that doing it twice shows.
struct MarkBoard: RequestMutation, Superseding {
    static let name = "game.board"
    let mark: String
    let board: Int
    let lane: String
    /// Whether the answer is taken as the new value.
    let settles: Bool
    var supersedes: GameSupersession?

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        supersedes?.judged((earlier as? MarkBoard)?.mark)
    }

    func effects(on view: inout MutationEffects) {
        view.update(.board(board)) { $0.marks.append(mark) }
    }

    func send(_ request: MutationRequest) async throws {
        let path = "boards/\(board)"
        if settles {
            let marked = try await request.post(path, ["mark": mark], as: GameBoard.self)
            request.settle(.board(board), marked)
        } else {
            try await request.post(path, ["mark": mark])
        }
    }
}

/// A row of a list, which collects marks; the id of one that was added is one, too.
struct GameEntry: Codable, Sendable, Equatable, Identifiable {
    let id: String
    var marks: [String] = []
}

extension GameEntry {
    /// The ids of so many rows that the shared list has from the beginning: no marks.
    static func fixed(_ count: Int) -> [String] { (0..<count).map { "row-\($0)" } }

    /// Whether the shared list has had the row from the beginning.
    static func isFixed(_ id: String) -> Bool { id.hasPrefix("row-") }
}

/// Puts a row on top of the list, or at its end.
struct AddEntry: RequestMutation {
    static let name = "game.entry"
    let mark: String
    let lane: String
    let isLast: Bool
    /// How many rows a page of the list has.
    let size: Int

    func effects(on view: inout MutationEffects) {
        view.insert(GameEntry(id: mark), into: .entries(size), at: isLast ? .max : 0)
    }

    func send(_ request: MutationRequest) async throws {
        try await request.post("entries", ["mark": mark, "end": isLast ? "last" : "first"])
    }
}

/// Leaves its mark on a row, in the list and by itself.
struct MarkEntry: RequestMutation {
    static let name = "game.entry.mark"
    let mark: String
    let entry: String
    let lane: String
    /// How many rows a page of the list has.
    let size: Int

    func effects(on view: inout MutationEffects) {
        view.update(.entry(entry)) { $0.marks.append(mark) }
        view.updateRows(of: .entries(size)) { row in
            guard row.id == entry else { return }
            GameCode.run()
            row.marks.append(mark)
        }
    }

    func send(_ request: MutationRequest) async throws {
        try await request.post("entries/\(entry)", ["mark": mark])
    }
}

/// Takes a row out of the list.
struct DropEntry: RequestMutation {
    static let name = "game.entry.drop"
    let mark: String
    let entry: String
    let lane: String
    /// How many rows a page of the list has.
    let size: Int

    func effects(on view: inout MutationEffects) { view.remove(entry, from: .entries(size)) }

    func send(_ request: MutationRequest) async throws {
        let body = try JSONEncoder().encode(["mark": mark])
        try await request.response("entries/\(entry)", method: "DELETE", json: body)
    }
}

/// A call that costs tokens.
struct GameCall: FunctionCall {
    static let name = "game"
    static let expectedCost: Int64 = 7
    static let price: Int64 = 5
    let input: String
    typealias Output = String
}

extension ValueQuery where Value == GameBoard {
    static func board(_ number: Int) -> Self {
        ValueQuery("board", number, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("boards/\(number)")
        }
    }
}

extension ValueQuery where Value == GameEntry {
    static func entry(_ id: String) -> Self {
        ValueQuery("entry", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("entries/\(id)")
        }
    }
}

extension ListQuery where Item == GameEntry {
    static func entries(_ size: Int) -> Self {
        ListQuery(
            "entries",
            path: "entries",
            policy: .fresh(for: .minutes(5)).stored(.onDisk),
            size: size
        )
    }
}

extension RecordSchema {
    /// What the second version of the app knows, and the server.
    static let clientGame = RecordSchema(
        collections: [GameTally.collection, GameFiller.collection],
        mutations: [MarkTally.self, DeepenTally.self]
    )

    /// What the first version knows.
    static let oldClientGame = RecordSchema(
        collections: [OldGameTally.collection, GameFiller.collection],
        mutations: [OldMarkTally.self]
    )
}

/// What one person's device is to do; also what the oracle expects of it.
struct Deed {
    enum Kind {
        case tally([RecordID], Depth)
        /// Changes the device's member of a tally.
        case set(RecordID)
        case board(Int)
        case added
        case marked(String)
        case dropped(String)
    }

    /// In which members of tallies it leaves its mark.
    enum Depth { case marks, both, more }

    var id: Identifier
    let mark: String
    let kind: Kind
    let person: Person
    /// Whether the process died while it was taken in, retried or dropped: its disk alone knows.
    var isUncertain = false
    /// The id that it has if it was retried in that moment.
    var otherId: Identifier?
    /// Whether the other end was seen to have done it.
    var isDone = false
    /// Whether it was seen to be neither waiting nor refused: it is over, and done.
    var isSettled = false
    /// Whether it was seen in the tray.
    var isRefused = false
    /// Whether it was dropped before anybody had it.
    var isDiscarded = false
    /// The epochs of lost histories that had done it.
    var lostIn: Set<Epoch> = []
    /// Whether its user has left the device since a history had done it: their outbox may not have
    /// it.
    var isLeft = false
    /// Whether only lost histories had it, and its device had settled it: it is not sent again.
    var isLost = false

    /// Stands in the marks that both ends refuse to do.
    static let poison = "POISON"

    var isPoison: Bool { mark.contains(Self.poison) }
    var isOver: Bool { isRefused || isDiscarded }
    /// Whether it is done by the authority.
    var isOfRecords: Bool {
        switch kind {
        case .tally, .set: true
        case .board, .added, .marked, .dropped: false
        }
    }
}
