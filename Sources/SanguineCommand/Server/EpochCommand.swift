import ArgumentParser
import Foundation
import SanguineSQLite

/// `sanguine epoch`.
struct EpochCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "epoch",
        abstract: "Tell devices that a data folder is back at an earlier state.",
        subcommands: [Renew.self]
    )

    /// `sanguine epoch renew`.
    struct Renew: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give the data a new epoch, after a snapshot of the machine was restored.",
            discussion: """
                Stop the server first. Every device reads its data again from the start, and \
                sends what is still in its outbox; changes applied after the snapshot are lost. \
                'sanguine restore' does this by itself.
                """
        )

        @OptionGroup var data: DataOptions

        @Flag(help: "Print JSON.")
        var json = false

        private struct Report: Encodable {
            var folder: String
            var epoch: String
        }

        func run() async throws {
            let folder = try data.usableFolder(writing: true)
            let epoch = try SQLiteStorage.assignNewEpoch(at: folder)
            let path = folder.standardizedFileURL.path
            if json { return try Output.write(json: Report(folder: path, epoch: "\(epoch)")) }
            try Output.write("\(path) has the new epoch \(epoch)")
            try Output.write("every device reads its data again from the start")
        }
    }
}
