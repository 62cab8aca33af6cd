import ArgumentParser
import Foundation
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

    private static func replace(
        with switches: JSONValue,
        _ admin: AdminOptions,
        _ reason: ReasonOption
    ) async throws {
        let body = Body(switches: switches, reason: reason.reason)
        try show(try await admin.send("PUT", "config", body: body), json: admin.json)
    }

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
                at once. Calls the running server at its admin port, with the owner's token.
                """
        )

        @OptionGroup var admin: AdminOptions
        @OptionGroup var reason: ReasonOption

        @Argument(help: "The JSON file, or '-' for standard input.")
        var file: String

        func run() async throws {
            try await SwitchesCommand.replace(with: try switches(), admin, reason)
        }

        private func switches() throws -> JSONValue {
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
