import Foundation
import Logging
import Sanguine
import SanguineModel
import Synchronization

/// The app of the game of users: notes, cards, a list, and what its people do.
struct GameNote: SyncedRecord {
    static let collection = RecordCollection("gameNotes", indexes: ["text"])
    let id: RecordID
    var text: String
}

/// Writes a note; what was said stands in its line, too.
struct WriteNote: RecordMutation {
    static let name = "game.write"
    let id: RecordID
    let text: String

    var lane: String { text }

    func apply(to records: inout Records) throws { records.set(GameNote(id: id, text: text)) }
}

/// Writes onto a card of the app's own backend.
struct LikeCard: RequestMutation {
    static let name = "game.like"
    let text: String

    var lane: String { text }

    func effects(on view: inout MutationEffects) {
        view.update(.card(1)) { $0.text += text }
    }

    func send(_ request: MutationRequest) async throws { try await request.post("likes") }
}

struct GameCard: Codable, Sendable, Equatable {
    var text: String
}

struct GameRow: Codable, Sendable, Equatable, Identifiable {
    let id: Int
    var text: String
}

extension ValueQuery where Value == GameCard {
    static func card(_ number: Int) -> Self {
        ValueQuery("card", number, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("cards/\(number)")
        }
    }

    static var news: Self {
        let policy = Policy.fresh(for: .minutes(5)).stored(.onDisk).audience(.device)
        return ValueQuery("news", policy: policy) { try await $0.get("news") }
    }
}

extension ListQuery where Item == GameRow {
    static var rows: Self {
        ListQuery("rows", path: "list", policy: .fresh(for: .minutes(5)).stored(.onDisk), size: 3)
    }
}

extension RecordSchema {
    static let userGame = RecordSchema(
        collections: [GameNote.collection],
        mutations: [WriteNote.self]
    )
}

extension RecordID {
    static func game(_ text: String) -> RecordID {
        RecordID(text) ?? RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
    }
}

/// Stops the client in the middle of a change of its user, for as long as the game says.
///
/// It stops the thread that logs the change, for 20 seconds at most: the client is then where two
/// threads of it may be at the same time, which no order of requests could bring about.
///
/// Mutable state: `state`, by its mutex.
final class UserGamePause: Sendable {
    private struct Handler: LogHandler {
        let pause: UserGamePause
        var metadata = Logger.Metadata()
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            if "\(event.message)" == Users.changes { pause.pass() }
        }
    }

    private enum State { case open, armed, stopped }

    private let state = Mutex(State.open)
    private let goOn = DispatchSemaphore(value: 0)

    var logger: Logger { Logger(label: "game") { _ in Handler(pause: self) } }

    /// Whether somebody has stopped.
    var isStopped: Bool { state.withLock { $0 == .stopped } }

    /// Whether the next change stops, or one has.
    var isArmed: Bool { state.withLock { $0 != .open } }

    /// Stops the next change.
    func arm() { state.withLock { if $0 == .open { $0 = .armed } } }

    /// Lets the change go on that has stopped, and stops none.
    func release() {
        let wasStopped = state.withLock { state in
            defer { state = .open }
            return state == .stopped
        }
        if wasStopped { goOn.signal() }
    }

    private func pass() {
        let mustStop = state.withLock { state in
            guard state == .armed else { return false }
            state = .stopped
            return true
        }
        if mustStop { _ = goOn.wait(timeout: .now() + 20) }
    }
}
