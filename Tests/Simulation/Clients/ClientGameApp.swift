import Foundation
import Sanguine
import SanguineModel

// The app of the game of clients. Each deed leaves its own mark, so that any view shows at any time
// whether it contains the deed: not at all, once, or twice.

/// A record that collects marks, in one of the app's versions; marks are never removed.
protocol GameTallyForm: SyncedRecord {
    var marks: [String] { get set }
    /// Written only by device 0.
    var left: String? { get set }
    /// Written only by device 1.
    var middle: String? { get set }
    /// Written only by device 2.
    var right: String? { get set }

    init(id: RecordID)
}

extension GameTallyForm {
    /// The members that devices write, by device.
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

/// A tally in the second version of the app and on the server, with one more member.
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

/// The records that fill a long feed.
struct GameFiller: SyncedRecord {
    static let collection = RecordCollection("gameFillers")
    let id: RecordID
    var turn: Int
}

/// How a deed affects an earlier one in its lane that was not sent.
struct GameSupersession: Codable, Sendable {
    let mark: String
    let isUndone: Bool

    func judged(_ earlier: String?) -> Supersession? {
        earlier == mark ? (isUndone ? .undoes : .replaces) : nil
    }
}

/// Leaves its mark in one tally or in all of them at once, in the first version of the app.
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

/// Leaves its mark in one tally or in all of them at once, and in the new member if it is deep, in
/// the second version of the app.
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

/// Leaves its mark only in the new member.
///
/// The first version does not know it, and neither does a server before its deployment.
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

/// Leaves its mark on a board; it adds, so that a duplicate is visible.
struct MarkBoard: RemoteMutation, Superseding {
    static let name = "game.board"
    let mark: String
    let board: Int
    let lane: String
    /// Whether the answer becomes the new value.
    let settles: Bool
    var supersedes: GameSupersession?

    func supersedes(_ earlier: any Mutation) -> Supersession? {
        supersedes?.judged((earlier as? MarkBoard)?.mark)
    }

    func effects(on view: inout MutationEffects) {
        view.update(.board(board)) { $0.marks.append(mark) }
    }

    func send(_ request: MutationContext) async throws {
        let path = "boards/\(board)"
        if settles {
            let marked = try await request.post(path, ["mark": mark], as: GameBoard.self)
            request.settle(.board(board), marked)
        } else {
            try await request.post(path, ["mark": mark])
        }
    }
}

/// A row of a list, which collects marks; the id of an added row is a mark itself.
struct GameEntry: Codable, Sendable, Equatable, Identifiable {
    let id: String
    var marks: [String] = []
}

extension GameEntry {
    /// Returns the ids of the rows that the shared list has initially, which are not marks.
    static func fixed(_ count: Int) -> [String] { (0..<count).map { "row-\($0)" } }

    /// Whether the shared list has the row initially.
    static func isFixed(_ id: String) -> Bool { id.hasPrefix("row-") }
}

/// Inserts a row at the top or the end of the list.
struct AddEntry: RemoteMutation {
    static let name = "game.entry"
    let mark: String
    let lane: String
    let isLast: Bool
    /// The number of rows in a page of the list.
    let size: Int

    func effects(on view: inout MutationEffects) {
        view.insert(GameEntry(id: mark), into: .entries(size), at: isLast ? .max : 0)
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("entries", ["mark": mark, "end": isLast ? "last" : "first"])
    }
}

/// Leaves its mark on a row, both in the list and as a separate value.
struct MarkEntry: RemoteMutation {
    static let name = "game.entry.mark"
    let mark: String
    let entry: String
    let lane: String
    /// The number of rows in a page of the list.
    let size: Int

    func effects(on view: inout MutationEffects) {
        view.update(.entry(entry)) { $0.marks.append(mark) }
        view.updateRows(of: .entries(size)) { row in
            guard row.id == entry else { return }
            GameCode.run()
            row.marks.append(mark)
        }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("entries/\(entry)", ["mark": mark])
    }
}

/// Removes a row from the list.
struct DropEntry: RemoteMutation {
    static let name = "game.entry.drop"
    let mark: String
    let entry: String
    let lane: String
    /// The number of rows in a page of the list.
    let size: Int

    func effects(on view: inout MutationEffects) { view.remove(entry, from: .entries(size)) }

    func send(_ request: MutationContext) async throws {
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

/// A call in a thread that waits for a network.
struct GameAsk: FunctionCall {
    static let name = "gameAsk"
    static let rules = FunctionRules(price: .fixed(price), keepsHistory: true)
    static let whenOffline = OfflineCall.queue
    static let expectedCost: Int64 = 7
    static let price: Int64 = 5
    let input: String
    typealias Output = String
}

/// A call in a thread whose answer is streamed.
struct GameTell: FunctionCall {
    static let name = "gameTell"
    static let rules = FunctionRules(price: .fixed(price), streams: true, keepsHistory: true)
    static let expectedCost: Int64 = 7
    static let price: Int64 = 5
    /// The end of a question that the server fails to answer.
    static let failure = "FAILS"
    let input: String
    typealias Output = String
}

/// A free call in a thread.
struct GameFreeAsk: FunctionCall {
    static let name = "gameFreeAsk"
    static let rules = FunctionRules(price: .free, keepsHistory: true)
    static let expectedCost: Int64 = 0
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
    /// The schema of the app's second version and the server.
    static let clientGame = RecordSchema(
        collections: [GameTally.collection, GameFiller.collection],
        mutations: [MarkTally.self, DeepenTally.self]
    )

    /// The schema of the first version.
    static let oldClientGame = RecordSchema(
        collections: [OldGameTally.collection, GameFiller.collection],
        mutations: [OldMarkTally.self]
    )
}

/// An operation of a person on a device, with the oracle's expectations.
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

    /// The members of tallies in which a deed leaves its mark.
    enum Depth { case marks, both, more }

    var id: Identifier
    let mark: String
    let kind: Kind
    let person: Person
    /// Whether the process died during the operation, its retry or its removal: only the disk
    /// knows.
    var isUncertain = false
    /// The id of the operation if it was retried at that moment.
    var otherId: Identifier?
    /// Whether the server was seen to have applied it.
    var isDone = false
    /// Whether it was seen neither waiting nor refused, and so is settled.
    var isSettled = false
    /// Whether it was seen in the tray.
    var isRefused = false
    /// Whether it was dropped before a server received it.
    var isDiscarded = false
    /// The epochs of lost histories that had applied it.
    var lostIn: Set<Epoch> = []
    /// Whether its user has left the device since a history applied it, so that their outbox may
    /// not contain it.
    var isLeft = false
    /// Whether only lost histories contain it and its device had settled it: it is not sent again.
    var isLost = false

    /// Part of the marks that both ends refuse.
    static let poison = "POISON"

    var isPoison: Bool { mark.contains(Self.poison) }
    var isOver: Bool { isRefused || isDiscarded }
    /// Whether the authority applies it.
    var isOfRecords: Bool {
        switch kind {
        case .tally, .set: true
        case .board, .added, .marked, .dropped: false
        }
    }
}
