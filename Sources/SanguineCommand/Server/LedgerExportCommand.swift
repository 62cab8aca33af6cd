import ArgumentParser
import SanguineAuthority
import SanguineSQLite

/// `sanguine ledger export`.
struct LedgerExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write all entries of the ledger to standard output, oldest first.",
        discussion: """
            Works while the server is running, in constant memory. Entries that are added in the \
            meantime are included. Each entry has a number; numbers only grow, so a later export \
            can continue with '--after'.
            """
    )

    /// A format, as written on the command line.
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case csv
        case cloudevents
    }

    @OptionGroup var data: DataOptions

    @Option(help: "The format: 'csv', or 'cloudevents' for CloudEvents 1.0 as JSON Lines.")
    var format = Format.cloudevents

    @Option(help: "The number after which the export begins.")
    var after: Int64 = 0

    func run() async throws {
        let inspection = try SQLiteStorage.inspect(folder: data.usableFolder())
        do {
            try await write(inspection)
        } catch {
            await inspection.close()
            throw error
        }
        await inspection.close()
    }

    private func write(_ inspection: SQLiteInspection) async throws {
        let format: LedgerFormat = format == .csv ? .csv : .cloudEvents
        let export = LedgerExport(format) { [after] number throws(StorageError) in
            try await inspection.transfers(after: number ?? after, limit: LedgerExport.pageSize)
        }
        while let bytes = try await export.next() { try Output.write(bytes) }
    }
}
