import ArgumentParser
import Foundation
import Sanguine
import SanguineModel

/// Whose notes these are, and whether the server is asked.
struct NoteOptions: ParsableArguments {
    @Flag(help: "Ask no server: what is done waits for the next command.")
    var offline = false

    @Option(
        help: """
            Be another device of the account of this folder's client: '--folder' takes over its \
            identity, and keeps it.
            """
    )
    var identityFrom: String?

    @OptionGroup var client: ClientOptions

    func validate() throws {
        guard identityFrom != "" else {
            throw ValidationError("Set '--identity-from' to the folder of a client, or omit it.")
        }
    }

    /// The client, with its state restored; its owner closes it.
    func open() throws -> SanguineClient {
        if let identityFrom {
            let source = URL(filePath: identityFrom, directoryHint: .isDirectory)
            try SharedIdentity.copy(from: source, to: client.stateFolder)
        }
        return try client.client(retries: false, asksServer: !offline)
    }

    /// Sends what waits and takes in what is new, for a moment.
    ///
    /// Returns why that failed, or `nil`.
    func synchronize(_ client: SanguineClient) async -> SanguineError? {
        guard !offline else { return nil }
        return await LastKnown.attempt {
            do throws(SanguineError) {
                try await client.synchronize()
                return nil
            } catch {
                return error
            }
        }
    }

    /// Sends what was just done, for a moment, and complains of what is not done then.
    func send(_ client: SanguineClient) async {
        let failure = await synchronize(client)
        for refused in RefusedNote.all(of: client) { Output.complain("\(refused)") }
        guard let failure, client.outbox.summary.unsent > 0 else { return }
        Output.complain("It waits, and is sent with the next 'sanguine note'. \(failure)")
    }

    /// Shows a note as it is on this device.
    func show(_ note: NoteLine) throws {
        if client.json { try Output.write(json: note) } else { Output.write("\(note)") }
    }
}

/// A note as it is shown.
struct NoteLine: Encodable, Equatable, CustomStringConvertible {
    var id: RecordID
    var text: String
    var createdAt: Timestamp?
    /// Whether the server has not confirmed what was done to it.
    var pending: Bool

    init(_ note: Note, isPending: Bool) {
        (id, text, createdAt, pending) = (note.id, note.text, note.createdAt, isPending)
    }

    /// All notes of a client, in the order in which they were made.
    static func all(of client: SanguineClient) -> [NoteLine] {
        let waiting = client.outbox.pending.filter { $0.phase != .acknowledged }
        let lanes = Set(waiting.map(\.lane))
        return client.records(Note.self).map { note in
            NoteLine(note, isPending: lanes.contains(Note.lane(of: note.id)))
        }
    }

    var description: String { "\(id)  \(pending ? "…" : " ") \(text)" }
}

/// Something done to a note that the server has refused.
struct RefusedNote: Encodable, Equatable, CustomStringConvertible {
    var operation: Identifier
    var change: String
    var code: ProblemCode
    var reason: String

    init(_ refused: Outbox.Refused) {
        (operation, change) = (refused.id, refused.name)
        (code, reason) = (refused.problem.code, refused.problem.detail)
    }

    static func all(of client: SanguineClient) -> [RefusedNote] {
        client.outbox.refused.map(RefusedNote.init)
    }

    var description: String {
        """
        Refused: \(change) [\(code.rawValue)]. \(reason) Then 'sanguine note retry \(operation)', \
        or 'sanguine note discard \(operation)'.
        """
    }
}
