import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("Findings of the doctor", .bounded)
struct ExaminationTests {
    private static let now = Timestamp(millisecondsSince1970: 1_795_000_000_000)

    /// Returns the examination of a healthy folder.
    private func healthy() -> Examination {
        var contents = Examination.Contents()
        contents.hasAccounts = true
        contents.newest = Self.now - .seconds(1)
        return Examination(
            folder: "/data",
            facts: SQLiteFolderFacts(
                folderMode: 0o700,
                fileModes: ["keys.json": 0o600, "sanguine.sqlite": 0o600],
                hasDatabase: true,
                freeBytes: 1 << 40,
                isReadOnly: false,
                holder: .nobody
            ),
            keys: .good,
            database: .read(contents),
            freeBytes: 1 << 30,
            descriptors: 65_536,
            connections: 20_000,
            upstream: 1_000,
            now: Self.now
        )
    }

    private func found(
        _ check: String,
        after change: (inout Examination) -> Void
    ) -> Finding? {
        var examination = healthy()
        change(&examination)
        let findings = examination.findings
        // A fault causes one finding, in addition to skipped checks.
        #expect(findings.filter { $0.status == .failed || $0.status == .warning }.count == 1)
        return findings.first { $0.check == check }
    }

    @Test func `a healthy folder needs no remedies`() {
        let findings = healthy().findings
        #expect(findings.count == 13)
        #expect(findings.allSatisfy { $0.status == .ok && $0.remedy == nil })
    }

    @Test func `a bucket is reported with its remedy`() {
        let name = "bucket 'photos'"
        let broken = found("bucket") { $0.bucket = .unusable("check 'blobs.s3.secretKey'") }
        #expect(broken?.status == .failed)
        #expect(broken?.finding.contains("check 'blobs.s3.secretKey'") == true)
        let versioned = found("bucket") { $0.bucket = .usable(bucket: name, .on) }
        #expect(versioned?.status == .warning)
        #expect(versioned?.remedy?.contains("lifecycle rule") == true)
        for versioning in [BucketExamination.Versioning.off, .unknown("it was refused")] {
            var examination = healthy()
            examination.bucket = .usable(bucket: name, versioning)
            let finding = examination.findings.last
            #expect(finding?.check == "bucket" && finding?.status == .ok)
            #expect(finding?.finding.contains(name) == true)
        }
    }

    @Test func `a missing folder is the only finding`() {
        var examination = healthy()
        examination.facts.folderMode = nil
        #expect(examination.findings.map(\.check) == ["folder"])
        #expect(examination.findings.first?.status == .failed)
    }

    @Test func `a folder or file that is open to others is named with the command to run`() {
        let folder = found("permissions") { $0.facts.folderMode = 0o750 }
        #expect(folder?.status == .failed)
        #expect(folder?.remedy == "Run chmod 700 '/data'.")
        let file = found("permissions") { $0.facts.fileModes["admin-token"] = 0o644 }
        #expect(file?.status == .failed)
        #expect(file?.remedy == "Run chmod 600 '/data/admin-token'.")
    }

    @Test func `a missing database or missing keys are reported with the flag to use`() {
        let lost = found("pairing") { $0.keys = .missing }
        #expect(lost?.status == .failed)
        #expect(lost?.remedy?.contains("'--accept-new-keys'") == true)
        let emptied = found("pairing") { $0.database = .missing }
        #expect(emptied?.status == .failed)
        #expect(emptied?.remedy?.contains("'--accept-empty-database'") == true)
    }

    @Test func `an unused folder is healthy`() {
        var examination = healthy()
        examination.keys = .missing
        examination.database = .missing
        #expect(!examination.findings.contains { $0.status == .failed })
        examination.database = .read(Examination.Contents())
        #expect(!examination.findings.contains { $0.status == .failed })
    }

    @Test func `damage and wrong balances are found`() {
        let damage = found("integrity") { examination in
            examination.change { $0.data.pages = ["Page 7 is never used", "Page 8 is never used"] }
        }
        #expect(damage?.finding == "2 findings, the first: Page 7 is never used")
        let ledger = found("ledger") { examination in
            let account = Identifier(at: Self.now)
            let difference = LedgerReport.Difference(account: account, finding: "1 is not 2")
            examination.change { $0.data.ledger.differences = [difference] }
        }
        #expect(ledger?.remedy?.contains("sanguine ledger verify") == true)
    }

    @Test func `a database that cannot be opened is reported, and dependent checks are skipped`() {
        let database = found("database") { $0.database = .unreadable("It is too new.") }
        #expect(database?.finding == "It is too new.")
        var examination = healthy()
        examination.database = .unreadable("It is too new.")
        let skipped = examination.findings.filter { $0.status == .skipped }
        #expect(skipped.map(\.check) == ["integrity", "ledger", "audit", "feeds", "files"])
    }

    @Test func `low space is a warning, and a full or read-only disk is a failure`() {
        let little = found("space") { $0.facts.freeBytes = 1 << 29 }
        #expect(little?.status == .warning)
        let none = found("space") { $0.facts.freeBytes = 1_000 }
        #expect(none?.status == .failed)
        let mounted = found("space") { $0.facts.isReadOnly = true }
        #expect(mounted?.status == .failed)
    }

    @Test func `a low limit of descriptors is a warning with a better number, too low a failure`() {
        let few = found("limits") { $0.descriptors = 1_024 }
        #expect(few?.status == .warning)
        #expect(few?.remedy?.contains("ulimit -n \(Descriptors.reserve + 21_000)") == true)
        let none = found("limits") { $0.descriptors = 64 }
        #expect(none?.status == .failed)
    }

    @Test func `a clock behind the stored data or behind this version is a failure`() {
        let behind = found("clock") { examination in
            examination.change { $0.newest = Self.now + .seconds(60) }
        }
        #expect(behind?.status == .failed)
        let reset = found("clock") { examination in
            examination.now = Timestamp(millisecondsSince1970: 1_000)
            examination.change { $0.newest = nil }
        }
        #expect(reset?.status == .failed)
    }

    @Test func `a process that has the folder open is named in a warning`() {
        let lock = found("lock") { $0.facts.holder = .process(4_711) }
        #expect(lock?.status == .warning)
        #expect(lock?.finding.contains("4711") == true)
    }
}

extension Examination {
    /// Changes the contents of the database.
    fileprivate mutating func change(_ body: (inout Contents) -> Void) {
        guard case .read(var contents) = database else { return }
        body(&contents)
        database = .read(contents)
    }
}
