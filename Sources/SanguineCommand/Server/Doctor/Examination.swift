import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer

/// Evaluates the facts about a data folder, and reports findings.
struct Examination {
    /// The state of the keys.
    enum Keys: Hashable {
        case missing
        case good
        case bad(String)
    }

    /// The state of the database.
    enum Database: Hashable {
        case missing
        /// The database cannot be opened, for the given reason.
        case unreadable(String)
        /// The database was read.
        case read(Contents)
    }

    /// The contents of a database.
    struct Contents: Hashable {
        var hasAccounts = false
        /// The time of the newest transfer or operation.
        var newest: Timestamp?
        /// The result of reading the whole database.
        var data = DataExamination()
    }

    var folder: String
    var facts: SQLiteFolderFacts
    var keys: Keys
    var database: Database
    /// The number of free bytes below which a warning is reported.
    var freeBytes: Int64
    /// The number of descriptors that a server may open when started like this command.
    var descriptors: Int
    var connections: Int
    /// The wanted number of connections to the upstream.
    var upstream: Int
    var now: Timestamp
    /// The state of the bucket; `nil` if files are in the folder.
    var bucket: BucketExamination?

    /// All findings, in a useful order of reading.
    var findings: [Finding] {
        guard facts.folderMode != nil else {
            let finding = "There is no folder \(folder)."
            let remedy = "Check '--data', or start the server there once."
            return [Finding("folder", .failed, finding, remedy: remedy)]
        }
        return [
            permissions, keyFile, databaseFile, pairing, integrity, ledger, audit, feeds, files,
            space, limits, clock, lock,
        ] + (bucket.map { [Self.finding(of: $0)] } ?? [])
    }

    private static func finding(of bucket: BucketExamination) -> Finding {
        switch bucket {
        case .unusable(let reason):
            return Finding(
                "bucket",
                .failed,
                "The bucket cannot be used: \(reason).",
                remedy: "Do this, then run this command again."
            )
        case .usable(let bucket, .off):
            return Finding(
                "bucket",
                .ok,
                "\(bucket) accepts the keys, and can be listed, written, read and deleted from."
            )
        case .usable(let bucket, .on):
            return Finding(
                "bucket",
                .warning,
                "\(bucket) can be used, but keeps versions: deleted files stay, and take space.",
                remedy: """
                    Add a lifecycle rule that deletes noncurrent versions after the time for \
                    which you want to restore them, or turn versioning off.
                    """
            )
        case .usable(let bucket, .unknown(let reason)):
            return Finding(
                "bucket",
                .ok,
                "\(bucket) can be used; whether it keeps versions is unknown: \(reason)."
            )
        }
    }

    private var permissions: Finding {
        let mode = facts.folderMode ?? 0
        if mode & 0o077 != 0 {
            return Finding(
                "permissions",
                .failed,
                "Other users can access the folder (mode \(String(mode, radix: 8))).",
                remedy: "Run chmod 700 '\(folder)'."
            )
        }
        let open = facts.fileModes.filter { $0.value & 0o077 != 0 }.keys.sorted()
        if !open.isEmpty {
            let files = open.map { "'\(folder)/\($0)'" }.joined(separator: " ")
            return Finding(
                "permissions",
                .failed,
                "Other users can access files: \(open.joined(separator: ", ")).",
                remedy: "Run chmod 600 \(files)."
            )
        }
        return Finding("permissions", .ok, "Only the owner can access the folder and its files.")
    }

    private var keyFile: Finding {
        switch keys {
        case .good:
            Finding("keys", .ok, "The signing keys can be read.")
        case .missing:
            Finding("keys", .ok, "There are no signing keys yet.")
        case .bad(let reason):
            Finding("keys", .failed, reason, remedy: "Fix this, then run this command again.")
        }
    }

    private var databaseFile: Finding {
        switch database {
        case .read:
            Finding("database", .ok, "The database has the schema of this version.")
        case .missing:
            Finding("database", .ok, "There is no database yet.")
        case .unreadable(let reason):
            Finding("database", .failed, reason, remedy: "Fix this, then run this command again.")
        }
    }

    private var pairing: Finding {
        switch (keys, database) {
        case (.missing, .read(let contents)) where contents.hasAccounts:
            Finding(
                "pairing",
                .failed,
                "There are accounts, but the signing keys are missing.",
                remedy: """
                    Restore \(KeyFile.name) from a backup, or start the server with \
                    '--accept-new-keys', which signs everyone out.
                    """
            )
        case (.good, .missing), (.bad, .missing):
            Finding(
                "pairing",
                .failed,
                "There are signing keys, but the database is missing.",
                remedy: """
                    Restore the database from a backup, or start the server with \
                    '--accept-empty-database', which starts without its data.
                    """
            )
        default:
            Finding("pairing", .ok, "The signing keys and the database exist together.")
        }
    }

    private func checked(_ check: String, _ judge: (Contents) -> Finding) -> Finding {
        guard case .read(let contents) = database else {
            return Finding(check, .skipped, "There is no readable database.")
        }
        return judge(contents)
    }

    private var integrity: Finding {
        checked("integrity") { contents in
            guard let first = contents.data.pages.first else {
                return Finding("integrity", .ok, "Every page and every index is consistent.")
            }
            return Finding(
                "integrity",
                .failed,
                "\(contents.data.pages.count) findings, the first: \(first)",
                remedy: """
                    Stop the server, and restore a backup with 'sanguine restore <backup> \
                    --replace'.
                    """
            )
        }
    }

    private var ledger: Finding {
        checked("ledger") { contents in
            guard contents.data.pages.isEmpty else {
                return Finding("ledger", .skipped, "Balances need an undamaged database.")
            }
            let report = contents.data.ledger
            guard report.differences.isEmpty else {
                return Finding(
                    "ledger",
                    .failed,
                    "\(report.differences.count) balances are not the sum of their entries.",
                    remedy: "Run 'sanguine ledger verify', which lists them."
                )
            }
            let counts = "\(report.accounts) accounts, \(report.transfers) transfers"
            return Finding("ledger", .ok, "Every balance is the sum of its entries: \(counts).")
        }
    }

    private var audit: Finding {
        checked("audit") { contents in
            guard contents.data.pages.isEmpty else {
                return Finding("audit", .skipped, "The audit log needs an undamaged database.")
            }
            let audit = contents.data.audit
            guard let finding = audit.finding else {
                let count = "\(audit.count) entries"
                return Finding("audit", .ok, "The chain of the audit log is unbroken: \(count).")
            }
            return Finding(
                "audit",
                .failed,
                "The audit log was altered: \(finding).",
                remedy: "Compare it with the one in a backup, and find out who had access."
            )
        }
    }

    private var feeds: Finding {
        checked("feeds") { contents in
            guard contents.data.pages.isEmpty else {
                return Finding("feeds", .skipped, "Counters need an undamaged database.")
            }
            let feeds = contents.data.feeds
            guard let first = feeds.findings.first else {
                let counts = "\(feeds.accounts) accounts, \(feeds.records) records"
                return Finding("feeds", .ok, "Every feed's counters match its data: \(counts).")
            }
            return Finding(
                "feeds",
                .warning,
                "\(feeds.differing) feeds have wrong counters, the first: \(first)",
                remedy: """
                    A server can use the data, but the limits of these accounts are off. Restore \
                    a backup if records are missing.
                    """
            )
        }
    }

    private var files: Finding {
        checked("files") { contents in
            let files = contents.data.files
            guard !files.areElsewhere else {
                return Finding("files", .ok, "The files are in a bucket, and were not checked.")
            }
            guard let first = files.findings.first else {
                let counts = "\(files.count) files, \(files.bytes) bytes"
                return Finding("files", .ok, "Every file's content matches its name: \(counts).")
            }
            return Finding(
                "files",
                .failed,
                "\(files.damaged) of \(files.count) files are damaged, the first: \(first)",
                remedy: """
                    Copy them from a backup into the same place, or start the server with \
                    '--accept-lost-files', which serves without them.
                    """
            )
        }
    }

    private var space: Finding {
        if facts.isReadOnly {
            return Finding(
                "space",
                .failed,
                "The disk is mounted read-only.",
                remedy: "Mount it writable, for example with 'mount -o remount,rw'."
            )
        }
        guard let free = facts.freeBytes else {
            return Finding("space", .skipped, "The system does not report the free space.")
        }
        let remedy = "Free some space on the disk, or move the folder to a larger one."
        if free < SQLiteStorage.neededBytes {
            return Finding("space", .failed, "\(free) bytes are free.", remedy: remedy)
        }
        if free < freeBytes {
            let finding = "\(free) bytes are free, fewer than 'limits.freeBytes' (\(freeBytes))."
            return Finding("space", .warning, finding, remedy: remedy)
        }
        return Finding("space", .ok, "\(free) bytes are free.")
    }

    private var limits: Finding {
        do throws(Descriptors.TooFew) {
            let shared = try Descriptors(
                limit: descriptors,
                connections: connections,
                upstream: upstream
            )
            guard shared.connections < connections else {
                return Finding("limits", .ok, "This process may open \(descriptors) files.")
            }
            return Finding(
                "limits",
                .warning,
                """
                This process may open \(descriptors) files, enough for \(shared.connections) of \
                \(connections) connections ('limits.connections').
                """,
                remedy: """
                    Raise the limit where the server is started, for example with 'ulimit -n \
                    \(Descriptors.reserve + connections + upstream)', or lower 'limits.connections'.
                    """
            )
        } catch {
            return Finding(
                "limits",
                .failed,
                "This process may open \(descriptors) files.",
                remedy: "\(error)"
            )
        }
    }

    /// A time that no correct clock can still show: the beginning of 2026.
    private static let past = Timestamp(millisecondsSince1970: 1_767_225_600_000)

    private var clock: Finding {
        let remedy = "Set the clock, and synchronize it with a time server."
        if now < Self.past {
            return Finding("clock", .failed, "The clock shows \(now).", remedy: remedy)
        }
        if case .read(let contents) = database, let newest = contents.newest,
            newest > now + .seconds(5)
        {
            let finding = "The clock shows \(now), but the newest row is from \(newest)."
            return Finding("clock", .failed, finding, remedy: remedy)
        }
        return Finding("clock", .ok, "The clock shows \(now), which is after all stored data.")
    }

    private var lock: Finding {
        switch facts.holder {
        case .nobody:
            return Finding("lock", .ok, "No process has the folder open.")
        case .process(let process):
            let name = process.map { "Process \($0)" } ?? "A process"
            return Finding(
                "lock",
                .warning,
                "\(name) has the folder open.",
                remedy: "Stop it before you copy, restore or move the folder."
            )
        }
    }
}
