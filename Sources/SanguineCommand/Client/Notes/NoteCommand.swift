import ArgumentParser
import Sanguine
import SanguineModel

/// `sanguine note`.
struct NoteCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "note",
        abstract: "Keep notes, which are visible at once, also offline.",
        discussion: """
            A change is stored on this device before its line is printed, and sent then or by a \
            later command. A note marked '…' is not on the server yet. The first folder that \
            contacts the server creates a guest account; '--identity-from' adds another folder \
            to it.
            """,
        subcommands: [Add.self, Edit.self, Remove.self, List.self, Retry.self, Discard.self]
    )
}

extension NoteCommand {
    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Add a note and print it.")

        @Argument(help: "The text; '-' adds a note for each line of standard input.")
        var text: String

        @OptionGroup var options: NoteOptions

        func run() async throws {
            try await options.withClient { client in
                let clock: any WallClock = SystemWallClock()
                var moments = RisingMoments()
                var operations: Set<Identifier> = []
                var next: String? = text == "-" ? readLine() : text
                while let line = next {
                    operations.insert(try add(line, at: moments.next(at: clock.now()), to: client))
                    next = text == "-" ? readLine() : nil
                }
                try await options.send(client, operations)
            }
        }

        private func add(
            _ text: String,
            at moment: Timestamp,
            to client: SanguineClient
        ) throws -> Identifier {
            let note = Note(id: RecordID(Identifier(at: moment)), text: text, createdAt: moment)
            let fields: RecordFields = ["text": .string(text), "createdAt": moment.json]
            let receipt = try client.perform(NoteMutation(CreateRecord(Note.key(note.id), fields)))
            try options.show(NoteLine(note, isPending: true))
            return receipt.id
        }
    }

    struct Edit: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Replace a note's text.")

        @Argument(help: "The note's id.", transform: RecordID.argument)
        var id: RecordID

        @Argument(help: "The new text.")
        var text: String

        @OptionGroup var options: NoteOptions

        func run() async throws {
            try await options.withClient { client in
                try await options.find(id, in: client)
                let fields: RecordFields = ["text": .string(text)]
                let receipt = try client.perform(NoteMutation(SetFields(Note.key(id), fields)))
                if let note = client.record(Note.self, id) {
                    try options.show(NoteLine(note, isPending: true))
                }
                try await options.send(client, [receipt.id])
            }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rm",
            abstract: "Remove a note."
        )

        @Argument(help: "The note's id.", transform: RecordID.argument)
        var id: RecordID

        @OptionGroup var options: NoteOptions

        func run() async throws {
            try await options.withClient { client in
                try await options.find(id, in: client)
                let receipt = try client.perform(NoteMutation(DeleteRecord(Note.key(id))))
                try await options.send(client, [receipt.id])
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the notes; offline, those stored on this device."
        )

        @OptionGroup var options: NoteOptions

        private struct Shown: Encodable {
            var notes: [NoteLine]
            /// The number of operations that the server has not answered.
            var waiting: Int
            /// The number of waiting operations of other accounts in the folder.
            var waitingForOthers: Int
            var refused: [RefusedNote]
            var error: String?
        }

        func run() async throws {
            try await options.withClient { client in
                let failure = await options.synchronize(client)
                if let failure, case .store = failure { throw failure }
                let shown = Shown(
                    notes: NoteLine.all(of: client),
                    waiting: client.outbox.summary.unsent,
                    waitingForOthers: client.outbox.ofOthers,
                    refused: RefusedNote.all(of: client),
                    error: failure?.code
                )
                if options.client.json { return try Output.write(json: shown) }
                for note in shown.notes { try Output.write("\(note)") }
                for refused in shown.refused { Output.writeError("\(refused)") }
                options.reportOtherAccounts(client)
                if let failure { Output.writeError("\(failure)") }
            }
        }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a refused change again."
        )

        @Argument(help: "The id of the refused change.", transform: Identifier.argument)
        var operation: Identifier

        @OptionGroup var options: NoteOptions

        func run() async throws {
            try await options.withClient { client in
                let receipt = try options.withRefused(operation) { id throws(SanguineError) in
                    try client.outbox.retry(id)
                }
                try await options.send(client, [receipt.id])
            }
        }
    }

    struct Discard: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Discard a refused change."
        )

        @Argument(help: "The id of the refused change.", transform: Identifier.argument)
        var operation: Identifier

        @OptionGroup var options: NoteOptions

        func run() async throws {
            try await options.withClient { client in
                try options.withRefused(operation) { id throws(SanguineError) in
                    try client.outbox.discard(id)
                }
            }
        }
    }
}

extension RecordID {
    fileprivate static func argument(_ text: String) throws -> RecordID {
        guard let id = RecordID(text) else {
            throw ValidationError("Name a note by its id, as 'sanguine note list' prints it.")
        }
        return id
    }
}

extension Identifier {
    fileprivate static func argument(_ text: String) throws -> Identifier {
        guard let id = Identifier(text) else {
            throw ValidationError("Name an operation by its id, as 'sanguine note list' prints it.")
        }
        return id
    }
}
