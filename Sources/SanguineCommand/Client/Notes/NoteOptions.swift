import ArgumentParser
import Foundation
import Sanguine
import SanguineModel

/// The account of the notes, and whether to contact the server.
struct NoteOptions: ParsableArguments {
    @Flag(help: "Do not contact the server; the next command sends the change.")
    var offline = false

    @Option(
        help: """
            The folder of another client, whose account this client joins as a further device. \
            Its identity is copied into '--folder'.
            """
    )
    var identityFrom: String?

    @OptionGroup var client: ClientOptions

    func validate() throws {
        guard identityFrom != "" else {
            throw ValidationError("Set '--identity-from' to the folder of a client, or omit it.")
        }
    }

    /// Calls the body with a client whose state is restored, and closes the client.
    ///
    /// - Throws: ``Failure`` if a folder cannot be used; the body's error.
    func withClient(_ body: (SanguineClient) async throws -> Void) async throws {
        if let identityFrom {
            try client.checkFolder()
            let source = URL(filePath: identityFrom, directoryHint: .isDirectory)
            try SharedIdentity.copy(from: source, to: client.stateFolder)
        }
        try await client.withClient(retries: false, asksServer: !offline, body)
    }

    /// Checks that a note exists, and asks the server if it is not known locally.
    ///
    /// - Throws: ``Failure`` if the note does not exist, or is not known.
    func find(_ id: RecordID, in client: SanguineClient) async throws {
        guard client.record(Note.self, id) == nil else { return }
        // Another device may have created it.
        let failure = await synchronize(client)
        guard client.record(Note.self, id) == nil else { return }
        let reason = failure.map { " The server could not be reached: \($0)" } ?? ""
        throw Failure("There is no note '\(id)' on this device. See 'sanguine note list'.\(reason)")
    }

    /// Calls the body with a refused operation.
    ///
    /// - Throws: ``Failure`` if there is no such operation; the body's error.
    func withRefused<Value>(
        _ operation: Identifier,
        _ body: (Identifier) throws(SanguineError) -> Value
    ) throws -> Value {
        do throws(SanguineError) {
            return try body(operation)
        } catch {
            guard case .problem(let problem) = error, problem.code == .notFound else { throw error }
            throw Failure(
                "No refused change has the id '\(operation)'. See 'sanguine note list'."
            )
        }
    }

    /// Sends waiting operations and receives changes, with a time limit that is extended while it
    /// makes progress.
    ///
    /// Returns the error if this failed, or `nil`.
    func synchronize(_ client: SanguineClient) async -> SanguineError? {
        guard !offline else { return nil }
        var isSecondUser = false
        while true {
            let (unsent, restored) = (client.outbox.summary.unsent, client.restored)
            let failure = await LastKnown.attempt {
                do throws(SanguineError) {
                    try await client.synchronize()
                    return nil
                } catch {
                    return error
                }
            }
            let hasMoved = client.outbox.summary.unsent < unsent || client.restored != restored
            switch failure {
            case .transport(.timedOut) where hasMoved: continue
            // The server does not know the account, so this folder has been given a new one.
            case .userChanged where !isSecondUser: isSecondUser = true
            default: return failure
            }
        }
    }

    /// Sends the operations that were just performed, with a time limit, and reports those that
    /// remain.
    ///
    /// - Throws: `ExitCode.failure` if one of these operations was refused.
    func send(_ client: SanguineClient, _ operations: Set<Identifier>) async throws {
        let failure = await synchronize(client)
        let refused = RefusedNote.all(of: client)
        for refused in refused { Output.writeError("\(refused)") }
        reportOtherAccounts(client)
        if let failure, client.outbox.summary.unsent > 0 {
            let count = client.outbox.summary.unsent
            let waiting = count == 1 ? "The change" : "\(count) changes"
            Output.writeError("\(waiting) will be sent by the next 'sanguine note'. \(failure)")
        }
        if refused.contains(where: { operations.contains($0.operation) }) {
            throw ExitCode.failure
        }
    }

    /// Reports waiting changes of other accounts.
    func reportOtherAccounts(_ client: SanguineClient) {
        let count = client.outbox.ofOthers
        guard count > 0 else { return }
        Output.writeError(
            """
            Changes of another account wait in this folder: \(count). That account belongs to \
            another server, or its server no longer knows it. They are sent when it returns.
            """
        )
    }

    /// Prints a note as stored on this device.
    func show(_ note: NoteLine) throws {
        if client.json { try Output.write(json: note) } else { try Output.write("\(note)") }
    }
}

/// The printed form of a note.
struct NoteLine: Encodable, Equatable, CustomStringConvertible {
    var id: RecordID
    var text: String
    var createdAt: Timestamp?
    /// Whether the server has not confirmed its latest changes.
    var pending: Bool

    init(_ note: Note, isPending: Bool) {
        (id, text, createdAt, pending) = (note.id, note.text, note.createdAt, isPending)
    }

    /// Returns all notes of a client, in the order of their creation.
    static func all(of client: SanguineClient) -> [NoteLine] {
        let waiting = client.outbox.pending.filter { $0.phase != .acknowledged }
        let lanes = Set(waiting.map(\.lane))
        return client.records(Note.self).map { note in
            NoteLine(note, isPending: lanes.contains(Note.lane(of: note.id)))
        }
    }

    var description: String { "\(id)  \(pending ? "…" : " ") \(text.onOneLine)" }
}

extension String {
    /// The text with escaped control characters, so that it occupies one line and cannot control
    /// the terminal.
    fileprivate var onOneLine: String {
        var line = ""
        for scalar in unicodeScalars {
            switch scalar {
            case "\n": line += "\\n"
            case "\t": line += "\\t"
            case _ where scalar.properties.generalCategory == .control:
                line += scalar.escaped(asASCII: true)
            default: line.unicodeScalars.append(scalar)
            }
        }
        return line
    }
}

/// A change of a note that the server refused.
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
        Refused: \(change) [\(code.rawValue)]. \(reason) Then run 'sanguine note retry \
        \(operation)' or 'sanguine note discard \(operation)'.
        """
    }
}
