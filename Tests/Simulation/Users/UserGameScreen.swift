import Foundation
import Sanguine
import SanguineModel
import Synchronization

/// The screen of the game's user: one model of each kind, created when it is first checked.
@MainActor
final class UserGameScreen {
    private let client: SanguineClient
    private var card: ValueModel<GameCard>?
    private var notes: RecordModel<[GameNote]>?
    private var rows: ListModel<GameRow>?

    nonisolated init(_ client: SanguineClient) { self.client = client }

    /// Returns all strings on the screen.
    func shown() -> [String] {
        let card = card ?? client.model(.card(1))
        let notes = notes ?? client.model(.all(GameNote.self))
        let rows = rows ?? client.model(.rows)
        (self.card, self.notes, self.rows) = (card, notes, rows)
        return [card.value?.text].compactMap { $0 } + notes.value.map(\.text)
            + rows.items.map(\.text)
    }
}

/// Reads the data that the game checks.
enum UserGameFiles {
    /// Returns all strings that the public API currently shows.
    static func shown(by client: SanguineClient) -> [String] {
        let notes = client.records(GameNote.self).map(\.text)
        let one = client.record(GameNote.self, .game("note-1")).map(\.text)
        let cards = (0...3).compactMap { client.cached(.card($0))?.text }
        let snapshots = (0...3).compactMap { client.snapshot(of: .card($0)).value?.text }
        let rows = client.snapshot(of: .rows).items.map(\.text)
        let waiting = client.outbox.pending.map(\.lane) + client.outbox.refused.map(\.lane)
        return notes + [one].compactMap { $0 } + cards + snapshots + rows + waiting
    }

    /// Returns the files of a folder as they were at one moment; a log's index is shared memory.
    static func contents(of folder: URL) throws -> [String: Data] {
        var last: [String: Data]?
        for _ in 0..<100 {
            let now = read(folder)
            if let now, now == last { return now }
            last = now
        }
        throw CocoaError(.fileReadUnknown)
    }

    /// Copies the files as they are at this moment.
    static func copy(from folder: URL, to other: URL) throws {
        try FileManager.default.createDirectory(at: other, withIntermediateDirectories: true)
        for (name, data) in try contents(of: folder) where !name.hasSuffix("-shm") {
            let file = other.appending(path: name)
            let folder = file.deletingLastPathComponent()
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try data.write(to: file)
        }
    }

    private static func read(_ folder: URL) -> [String: Data]? {
        let manager = FileManager.default
        // The folder does not exist before something is stored.
        guard manager.fileExists(atPath: folder.path) else { return [:] }
        guard let names = try? manager.subpathsOfDirectory(atPath: folder.path) else { return nil }
        var files: [String: Data] = [:]
        for name in names {
            var isFolder: ObjCBool = false
            let path = folder.appending(path: name).path
            guard manager.fileExists(atPath: path, isDirectory: &isFolder) else { return nil }
            if isFolder.boolValue { continue }
            guard let data = try? Data(contentsOf: folder.appending(path: name)) else { return nil }
            files[name] = data
        }
        return files
    }
}
