import ArgumentParser
import SanguineAuthority
import SanguineSQLite

/// `sanguine ledger`.
struct Ledger: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check the ledger.",
        subcommands: [Verify.self]
    )

    /// `sanguine ledger verify`.
    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Recompute every balance from its entries.",
            discussion: """
                Works while the server is running. Exits 0 if every balance equals the sum of its \
                entries. Otherwise, or if the data is damaged, it exits 1 and prints the \
                differences. It also checks the chain of hashes of the audit log. It reads the \
                same data as 'sanguine doctor'.
                """
        )

        @OptionGroup var data: DataOptions

        @Flag(help: "Print JSON.")
        var json = false

        /// The report in JSON: the ledger's, and other damage.
        private struct Report: Encodable {
            var accounts: Int
            var transfers: Int
            var differences: [LedgerReport.Difference]
            var damage: [String]
            var audited: Int64
        }

        func run() async throws {
            let inspection = try SQLiteStorage.inspect(folder: data.usableFolder())
            let examination = try await inspection.examine()
            await inspection.close()
            let report = examination.ledger
            let damage =
                examination.pages + examination.files.findings
                + (examination.audit.finding.map { [$0] } ?? [])
            if json {
                try Output.write(
                    json: Report(
                        accounts: report.accounts,
                        transfers: report.transfers,
                        differences: report.differences,
                        damage: damage,
                        audited: examination.audit.count
                    )
                )
            } else {
                for finding in damage { try Output.write("damaged: \(finding)") }
                for difference in report.differences {
                    try Output.write("\(difference.account): \(difference.finding)")
                }
                try Output.write(
                    "\(report.accounts) accounts, \(report.transfers) transfers, "
                        + "\(report.differences.count) differences, "
                        + "\(examination.audit.count) audited acts"
                )
            }
            guard examination.damage.isEmpty, examination.audit.finding == nil else {
                throw ExitCode.failure
            }
        }
    }
}
