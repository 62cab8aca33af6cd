public import SanguineAuthority

/// The result of reading a whole data folder: its pages and indexes, its ledger, its files.
///
/// `sanguine doctor`, `sanguine ledger verify`, backups, restores and the start of a server all use
/// this examination.
public struct DataExamination: Hashable, Sendable {
    /// The result of checking the files.
    public struct Files: Hashable, Sendable {
        /// The maximum number of listed findings: 10.
        public static let limit = 10

        /// Whether the files are in another store, such as a bucket, and were not checked.
        public var areElsewhere = false
        /// The number of files that the database names.
        public var count = 0
        /// Their total size in bytes.
        public var bytes: Int64 = 0
        /// The number of files that are missing, altered or unreadable.
        public var damaged = 0
        /// The first findings, at most ``limit``.
        public var findings: [String] = []

        /// Creates a report of no files.
        public init() {}

        mutating func find(_ finding: String) {
            damaged += 1
            if findings.count < Self.limit { findings.append(finding) }
        }
    }

    /// The result of comparing the counters of feeds with the stored data.
    ///
    /// A wrong counter is not damage: it shifts the limits of its account, and loses no data. A
    /// server does not check counters when it starts.
    public struct Feeds: Hashable, Sendable {
        /// The maximum number of listed findings: 10.
        public static let limit = 10

        /// The number of compared accounts.
        public var accounts = 0
        /// The number of their records, without deleted ones.
        public var records = 0
        /// The number of accounts with wrong counters, or with records that no device receives.
        public var differing = 0
        /// The first findings, at most ``limit``.
        public var findings: [String] = []

        /// Creates a report of no accounts.
        public init() {}

        mutating func find(_ finding: String) {
            differing += 1
            if findings.count < Self.limit { findings.append(finding) }
        }
    }

    /// The result of checking the chain of the audit log.
    ///
    /// A broken chain is not damage: it prevents neither a backup nor the start of a server.
    public struct Audit: Hashable, Sendable {
        /// The number of entries.
        public var count: Int64 = 0
        /// The first fault, in a sentence; `nil` if there is none.
        public var finding: String?

        /// Creates a report of an empty log.
        public init() {}
    }

    /// Faults of pages and indexes, ten at most.
    public var pages: [String] = []
    /// The result of recomputing every balance; incomplete if ``pages`` are damaged.
    public var ledger = LedgerReport(accounts: 0, transfers: 0, differences: [])
    /// The result of comparing the counters of feeds with the stored data, if requested.
    public var feeds = Feeds()
    /// The result of comparing every file with its name.
    public var files = Files()

    /// The result of checking the audit log, if requested.
    public var audit = Audit()

    /// Creates a report without damage.
    public init() {}

    /// The damage of pages, balances and files, in sentences.
    public var damage: [String] {
        pages + ledger.differences.map { "Account \($0.account): \($0.finding)" }
            + files.findings
    }
}
