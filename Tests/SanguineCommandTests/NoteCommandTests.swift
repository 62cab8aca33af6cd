import ArgumentParser
import Foundation
import Sanguine
import SanguineModel
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("sanguine note", .bounded)
struct NoteCommandTests {
    private static let id = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa")

    private static func fold(
        _ body: (_ here: URL, _ there: URL) throws -> Void
    ) throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-note-\(UUID())", directoryHint: .isDirectory)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (here, there) = (folder.appending(path: "here"), folder.appending(path: "there"))
        try FileManager.default.createDirectory(at: here, withIntermediateDirectories: true)
        try body(here, there)
    }

    private static func write(_ text: String, to folder: URL) throws {
        try Data(text.utf8).write(to: folder.appending(path: SharedIdentity.file))
    }

    private static func read(_ folder: URL) throws -> String {
        let data = try Data(contentsOf: folder.appending(path: SharedIdentity.file))
        return String(decoding: data, as: UTF8.self)
    }

    @Test func `every subcommand is available`() throws {
        let id = try #require(Self.id).description
        let add = try SanguineTool.parseAsRoot(["note", "add", "Buy milk", "--offline"])
        #expect((add as? NoteCommand.Add)?.text == "Buy milk")
        #expect((add as? NoteCommand.Add)?.options.offline == true)
        let edit = try SanguineTool.parseAsRoot(["note", "edit", id, "Buy oat milk"])
        #expect((edit as? NoteCommand.Edit)?.id.text == id)
        let remove = try SanguineTool.parseAsRoot(["note", "rm", id])
        #expect((remove as? NoteCommand.Remove)?.id.text == id)
        #expect(try SanguineTool.parseAsRoot(["note", "list", "--json"]) is NoteCommand.List)
        let retry = try SanguineTool.parseAsRoot(["note", "retry", id])
        #expect((retry as? NoteCommand.Retry)?.operation == Self.id)
        let discard = try SanguineTool.parseAsRoot(["note", "discard", id])
        #expect((discard as? NoteCommand.Discard)?.operation == Self.id)
    }

    @Test func `a single dash stands for standard input`() throws {
        let add = try SanguineTool.parseAsRoot(["note", "add", "-"])
        #expect((add as? NoteCommand.Add)?.text == "-")
    }

    @Test(arguments: [
        ["rm", "two words"], ["retry", "no-operation"], ["list", "--identity-from", ""],
    ])
    func `invalid ids and empty paths are wrong usage`(arguments: [String]) throws {
        let error = try #require(throws: (any Error).self) {
            try SanguineTool.parseAsRoot(["note"] + arguments)
        }
        #expect(SanguineTool.exitCode(for: error) == .validationFailure)
    }

    @Test func `a note's change is sent as its base mutation in the note's lane`() throws {
        let id = RecordID(try #require(Self.id))
        let mutation = NoteMutation(SetFields(Note.key(id), ["text": "Buy milk"]))
        #expect(type(of: mutation).name == "record.set")
        #expect(mutation.lane == "note:\(id)")
        let sent = try JSONDecoder().decode(SetFields.self, from: JSONEncoder().encode(mutation))
        #expect(sent == mutation.base)
    }

    @Test func `a waiting note has a mark`() throws {
        let note = Note(id: RecordID(try #require(Self.id)), text: "Buy milk")
        #expect("\(NoteLine(note, isPending: true))" == "\(note.id)  … Buy milk")
        #expect("\(NoteLine(note, isPending: false))" == "\(note.id)    Buy milk")
    }

    @Test func `a note takes up one line regardless of its text`() throws {
        let text = "a\nb\u{1B}[31mc\u{9B}d é😀"
        let note = Note(id: RecordID(try #require(Self.id)), text: text)
        let line = "\(NoteLine(note, isPending: false))"
        #expect(line.hasSuffix(#"a\nb\u{1B}[31mc\u{009B}d é😀"#) && !line.contains("\n"))
    }

    @Test func `an offline client contacts no server and stores its changes`() throws {
        try Self.fold { here, _ in
            let options = try ClientOptions.parse(["--folder", here.path])
            let client = try options.client(asksServer: false)
            defer { client.close() }
            let note = Note(id: RecordID(try #require(Self.id)), text: "Buy milk")
            let fields: RecordFields = ["text": .string(note.text)]
            try client.perform(NoteMutation(CreateRecord(Note.key(note.id), fields)))
            #expect(NoteLine.all(of: client) == [NoteLine(note, isPending: true)])
            #expect(client.outbox.pending.map(\.phase) == [.queued])
        }
    }

    @Test func `a new folder adopts the identity of another`() throws {
        try Self.fold { here, there in
            try Self.write("one", to: here)
            try SharedIdentity.copy(from: here, to: there)
            #expect(try Self.read(there) == "one")
            try SharedIdentity.copy(from: here, to: there)
            #expect(try FileManager.default.contentsOfDirectory(atPath: there.path).count == 1)
        }
    }

    @Test func `a folder with an identity keeps its identity`() throws {
        try Self.fold { here, there in
            try Self.write("one", to: here)
            try SharedIdentity.copy(from: here, to: there)
            try Self.write("another", to: here)
            #expect(throws: Failure.self) { try SharedIdentity.copy(from: here, to: there) }
            #expect(try Self.read(there) == "one")
        }
    }

    @Test func `a folder that no client has used has no identity to copy`() throws {
        try Self.fold { here, there in
            #expect(throws: Failure.self) { try SharedIdentity.copy(from: there, to: here) }
            let left = try FileManager.default.contentsOfDirectory(atPath: here.path)
            #expect(left.isEmpty)
        }
    }

    @Test func `notes of one millisecond keep their order`() {
        var moments = RisingMoments()
        let now = Timestamp(millisecondsSince1970: 1_000)
        let first = (0..<3).map { _ in moments.next(at: now) }
        #expect(first == (0..<3).map { now + .milliseconds($0) })
        #expect(moments.next(at: now + .seconds(1)) == now + .seconds(1))
        // Setting the clock back does not change the order.
        #expect(moments.next(at: now) > now + .seconds(1))
    }
}
