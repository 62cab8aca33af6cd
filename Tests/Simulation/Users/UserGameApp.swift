import Foundation
import Logging
import Sanguine
import SanguineModel
import Synchronization

/// The app of the game of users: notes, cards, a list, and its users' operations.
struct GameNote: SyncedRecord {
    static let collection = RecordCollection("gameNotes", indexes: ["text"])
    let id: RecordID
    var text: String
}

/// Writes a note; the text is also its lane.
struct WriteNote: RecordMutation {
    static let name = "game.write"
    let id: RecordID
    let text: String

    var lane: String { text }

    func apply(to records: inout Records) throws { records.set(GameNote(id: id, text: text)) }
}

/// Writes on a card of the app's own backend.
struct LikeCard: RemoteMutation {
    static let name = "game.like"
    let text: String

    var lane: String { text }

    func effects(on view: inout MutationEffects) {
        view.update(.card(1)) { $0.text += text }
    }

    func send(_ request: MutationContext) async throws { try await request.post("likes") }
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

/// Pauses the client in the middle of a user change until the game releases it.
///
/// It blocks the thread that logs the change, for at most 20 seconds: two threads of the client can
/// then be in places that no order of requests would bring them to.
///
/// Mutable state: `state`, protected by a mutex.
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
            if "\(event.message)" == UserSwitcher.changes { pause.pass() }
        }
    }

    private enum State { case open, armed, stopped }

    private let state = Mutex(State.open)
    private let goOn = DispatchSemaphore(value: 0)

    var logger: Logger { Logger(label: "game") { _ in Handler(pause: self) } }

    /// Whether a thread is paused.
    var isStopped: Bool { state.withLock { $0 == .stopped } }

    /// Whether the next change will pause, or one is paused.
    var isArmed: Bool { state.withLock { $0 != .open } }

    /// Pauses the next change.
    func arm() { state.withLock { if $0 == .open { $0 = .armed } } }

    /// Releases a paused change, and pauses no other.
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
