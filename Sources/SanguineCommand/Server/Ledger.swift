import ArgumentParser
import SanguineAuthority
import SanguineSQLite

/// `sanguine ledger`.
struct Ledger: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check and export the ledger.",
        subcommands: [Verify.self, LedgerExportCommand.self]
    )

    /// `sanguine ledger verify`.
    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Recompute every balance from its entries.",
            discussion: """
                Works while the server is running. Exits 0 if every balance equals the sum of its \
                entries. Otherwise, or if the data is damaged, it exits 1 and prints the \
                differences. It also checks the chain of hashes of the audit log. It reads the \
                same data as 'sanguine doctor'. Progress goes to standard error. Counters of feeds \
                that differ from the data are reported too; they are no damage, and do not change \
                the exit status.
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
            var feeds: Feeds
        }

        /// The counters of feeds in JSON.
        private struct Feeds: Encodable {
            var accounts: Int
            var records: Int
            var differing: Int
            var findings: [String]

            init(_ feeds: DataExamination.Feeds) {
                accounts = feeds.accounts
                records = feeds.records
                differing = feeds.differing
                findings = feeds.findings
            }
        }

        func run() async throws {
            let inspection = try SQLiteStorage.inspect(folder: data.usableFolder())
            let examination = try await inspection.examine { [json] in Self.show($0, json: json) }
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
                        audited: examination.audit.count,
                        feeds: Feeds(examination.feeds)
                    )
                )
            } else {
                for finding in damage { try Output.write("damaged: \(finding)") }
                for difference in report.differences {
                    try Output.write("\(difference.account): \(difference.finding)")
                }
                try write(examination.feeds)
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

        private func write(_ feeds: DataExamination.Feeds) throws {
            guard feeds.differing > 0 else { return }
            for finding in feeds.findings { try Output.write("feed: \(finding)") }
            try Output.write(
                "\(feeds.differing) of \(feeds.accounts) feeds have wrong counters"
            )
        }

        /// Writes the progress to standard error, as JSON if a program reads the report.
        private static func show(_ progress: LedgerProgress, json: Bool) {
            Output.writeError(
                json
                    ? """
                    {"accounts":\(progress.accounts),"transfers":\(progress.transfers),\
                    "differences":\(progress.differences)}
                    """
                    : """
                    \(progress.accounts) accounts, \(progress.transfers) transfers, \
                    \(progress.differences) differences so far
                    """
            )
        }
    }
}
