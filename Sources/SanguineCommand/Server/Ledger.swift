import ArgumentParser
import SanguineAuthority
import SanguineSQLite

/// `sanguine ledger`.
struct Ledger: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look after the ledger.",
        subcommands: [Verify.self]
    )

    /// `sanguine ledger verify`.
    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Recompute every balance from its entries.",
            discussion: """
                Works beside a running server. Exits 0 if every balance equals the sum of its \
                entries, and 1 with the differences otherwise.
                """
        )

        @OptionGroup var data: DataOptions

        @Flag(help: "Print JSON.")
        var json = false

        func run() async throws {
            let inspection = try SQLiteStorage.inspect(folder: data.usableFolder())
            let report = try await inspection.verifyLedger()
            await inspection.close()
            if json {
                try Output.write(json: report)
            } else {
                for difference in report.differences {
                    try Output.write("\(difference.account): \(difference.finding)")
                }
                try Output.write(
                    "\(report.accounts) accounts, \(report.transfers) transfers, "
                        + "\(report.differences.count) differences"
                )
            }
            guard report.differences.isEmpty else { throw ExitCode.failure }
        }
    }
}
