public import SanguineAuthority

/// The result of reading all of a data folder: its pages and indexes, its ledger, its files.
///
/// The one examination: `sanguine doctor`, `sanguine ledger verify`, a backup, a restore and the
/// start of a server judge by it.
public struct DataExamination: Hashable, Sendable {
    /// What was found of the files.
    public struct Files: Hashable, Sendable {
        /// How many findings are listed at most: 10.
        public static let limit = 10

        /// How many files the database names.
        public var count = 0
        /// Their bytes.
        public var bytes: Int64 = 0
        /// How many of them are missing, altered or cannot be read.
        public var damaged = 0
        /// What is wrong with the first of them, at most ``limit``.
        public var findings: [String] = []

        /// Creates a report of no files.
        public init() {}

        mutating func find(_ finding: String) {
            damaged += 1
            if findings.count < Self.limit { findings.append(finding) }
        }
    }

    /// The result of comparing the counters of feeds with what is stored.
    ///
    /// A counter that is wrong is no damage: it shifts the limits of its account, and nothing is
    /// lost. A server does not look for it when it starts.
    public struct Feeds: Hashable, Sendable {
        /// How many findings are listed at most: 10.
        public static let limit = 10

        /// How many accounts were compared.
        public var accounts = 0
        /// Their records, without the deleted.
        public var records = 0
        /// How many accounts have counters that differ, or records that no device finds.
        public var differing = 0
        /// What differs for the first of them, at most ``limit``.
        public var findings: [String] = []

        /// Creates a report of no accounts.
        public init() {}

        mutating func find(_ finding: String) {
            differing += 1
            if findings.count < Self.limit { findings.append(finding) }
        }
    }

    /// What is wrong with pages and indexes, ten findings at most.
    public var pages: [String] = []
    /// The result of recomputing every balance; incomplete if ``pages`` are damaged.
    public var ledger = LedgerReport(accounts: 0, transfers: 0, differences: [])
    /// The result of comparing the counters of feeds with what is stored, where that was asked for.
    public var feeds = Feeds()
    /// The result of comparing every file with its name.
    public var files = Files()

    /// Creates a report in which nothing is damaged.
    public init() {}

    /// What is damaged, in sentences: pages, balances, files.
    public var damage: [String] {
        pages + ledger.differences.map { "The account \($0.account): \($0.finding)" }
            + files.findings
    }
}
