import ArgumentParser
import Foundation
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer

/// `sanguine doctor`.
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a data folder and the machine, and suggest what to do.",
        discussion: """
            Changes nothing in the folder, and works while the server is running and on a \
            read-only mount. If files are in a bucket, it writes an object there and deletes it. \
            Takes the flags of 'serve'. Exits 0 if a server can use the folder, and 1 otherwise.
            """
    )

    @OptionGroup var data: DataOptions
    @OptionGroup var options: SettingsOptions

    @Flag(help: "Print JSON.")
    var json = false

    private struct Report: Encodable {
        var healthy: Bool
        var findings: [Finding]
    }

    func run() async throws {
        let settings = try await options.load().settings
        let findings = await examine(try data.usableFolder(), settings).findings
        let isHealthy = !findings.contains { $0.status == .failed }
        if json {
            try Output.write(json: Report(healthy: isHealthy, findings: findings))
        } else {
            for finding in findings {
                let status = finding.status.rawValue.padded(to: 9)
                try Output.write("\(status)\(finding.check.padded(to: 13))\(finding.finding)")
                if let remedy = finding.remedy {
                    try Output.write("".padded(to: 22) + "→ " + remedy)
                }
            }
        }
        guard isHealthy else { throw ExitCode.failure }
    }

    private func examine(
        _ folder: URL,
        _ settings: ServerSettings,
        clock: any WallClock = SystemWallClock()
    ) async -> Examination {
        let facts = SQLiteFolderFacts(of: folder)
        let limits = settings.limits
        return Examination(
            folder: folder.path,
            facts: facts,
            keys: Self.keys(in: folder),
            database: facts.hasDatabase ? await Self.database(in: folder) : .missing,
            freeBytes: Int64(limits.freeBytes),
            descriptors: Descriptors.raiseLimit(),
            connections: limits.connections,
            upstream: settings.upstream.url == nil ? 0 : limits.functionCalls,
            now: clock.now(),
            bucket: await BucketExamination(settings.blobs, clock: clock)
        )
    }

    private static func keys(in folder: URL) -> Examination.Keys {
        do throws(KeyFileError) {
            return try KeyFile.load(in: folder) == nil ? .missing : .good
        } catch {
            return .bad("\(error)")
        }
    }

    private static func database(in folder: URL) async -> Examination.Database {
        let inspection: SQLiteInspection
        do throws(SQLiteStorageError) {
            inspection = try SQLiteStorage.inspect(folder: folder)
        } catch {
            return .unreadable("\(error)")
        }
        var contents = Examination.Contents()
        do throws(StorageError) {
            contents.data = try await inspection.examine()
            contents.hasAccounts = try await inspection.hasAccounts()
            contents.newest = try await inspection.newestMoment()
        } catch {
            contents.data.pages.append("\(error)")
        }
        await inspection.close()
        return .read(contents)
    }
}
