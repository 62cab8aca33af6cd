import ArgumentParser
import Foundation
import Sanguine
import SanguineModel

/// `sanguine switches`.
struct SwitchesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "switches",
        abstract: "Show or replace what the server changes in all apps at run time.",
        subcommands: [Show.self, Replace.self, Clear.self]
    )

    /// The answer of the admin port.
    private struct Overview: Decodable {
        var revision: Int64
        var switches: JSONValue
        var changedAt: Timestamp?

        func write() throws {
            let change = changedAt.map { ", \($0)" } ?? ""
            try Output.write("revision  \(revision)\(change)")
            for line in Switches.reading(switches).switches.lines { try Output.write(line) }
        }
    }

    private struct Body: Encodable {
        var switches: JSONValue
        var reason: String
    }

    private static func show(_ answer: Data, json: Bool) throws {
        if json { return try Output.write(String(decoding: answer, as: UTF8.self)) }
        try JSONDecoder().decode(Overview.self, from: answer).write()
    }

    /// Replaces the switches that the server has now, unless another administrator replaces them in
    /// the meantime.
    ///
    /// - Parameters:
    ///   - switches: The new switches.
    ///   - revision: The revision that they were made from; `nil` if it is not known.
    ///   - admin: The address and the token of the server.
    ///   - reason: The reason, for the audit log.
    /// - Throws: ``Failure``, which says what to do.
    private static func replace(
        with switches: JSONValue,
        from revision: Int64? = nil,
        _ admin: AdminOptions,
        _ reason: ReasonOption
    ) async throws {
        let read = try await admin.respond("GET", "config")
        let found = try JSONDecoder().decode(Overview.self, from: try AdminOptions.body(of: read))
        if let revision, revision != found.revision {
            throw Failure(
                "The file has the switches of revision \(revision), but the server has revision "
                    + "\(found.revision). \(again)"
            )
        }
        let response = try await admin.respond(
            "PUT",
            "config",
            body: Body(switches: switches, reason: reason.reason),
            replacing: read.header("ETag")
        )
        guard response.status != 412 else {
            throw Failure("Another administrator has just replaced the switches. \(again)")
        }
        try show(try AdminOptions.body(of: response), json: admin.json)
    }

    private static let again =
        "Run 'sanguine switches show --json > FILE', make your change in FILE, and set it."

    /// `sanguine switches show`.
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the switches that all apps receive.",
            discussion: "Calls the running server at its admin port, with an admin token."
        )

        @OptionGroup var admin: AdminOptions

        func run() async throws {
            try SwitchesCommand.show(try await admin.send("GET", "config"), json: admin.json)
        }
    }

    /// `sanguine switches set`.
    struct Replace: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set",
            abstract: "Replace all switches by those of a JSON file.",
            discussion: """
                The file has the members 'queries', 'functions' and 'mutations', such as \
                {"queries": {"profile": {"freshness": 0}}}. Apps with a live connection apply them \
                at once. The output of 'sanguine switches show --json' is accepted as well: it is \
                refused if the switches were replaced since. Calls the running server at its admin \
                port, with the owner's token.
                """
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var reason: ReasonOption

        @Argument(help: "The JSON file, or '-' for standard input.")
        var file: String

        func run() async throws {
            let content = try content()
            guard let switches = content["switches"] else {
                return try await SwitchesCommand.replace(with: content, admin, reason)
            }
            guard let revision = content["revision"]?.integer else {
                throw Failure(
                    "The file has 'switches' but no 'revision'. Add it, or leave out 'switches'."
                )
            }
            try await SwitchesCommand.replace(with: switches, from: revision, admin, reason)
        }

        private func content() throws -> JSONValue {
            let name = file == "-" ? "Standard input" : "'\(file)'"
            // White space may make the text longer than the switches in it.
            let limit = 4 * WireLimits.switchesBytes
            var data = Data()
            do {
                let handle =
                    file == "-"
                    ? .standardInput : try FileHandle(forReadingFrom: URL(filePath: file))
                // A pipe returns what it has.
                while data.count <= limit, let part = try handle.read(upToCount: limit + 1),
                    !part.isEmpty
                {
                    data += part
                }
            } catch {
                throw Failure("\(name) cannot be read: \(error.localizedDescription)")
            }
            guard data.count <= limit else {
                throw Failure("\(name) has more than \(limit) bytes. Remove switches.")
            }
            do {
                return try JSONParser.parse(Array(data)).value
            } catch {
                throw Failure("\(name) is not valid JSON: \(error)")
            }
        }
    }

    /// `sanguine switches clear`.
    struct Clear: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove all switches, which restores what the apps declare.",
            discussion: "Calls the running server at its admin port, with the owner's token."
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var reason: ReasonOption

        func run() async throws {
            try await SwitchesCommand.replace(with: .object([:]), admin, reason)
        }
    }
}
