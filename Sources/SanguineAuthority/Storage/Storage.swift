public import SanguineModel

/// Stores the state of an authority.
///
/// A driver loads the data, lets a ``Command`` decide, and stores the changes, in one transaction:
/// no other command takes effect in between, and after a crash either all of its changes are stored
/// or none. Drivers contain no rules; all of them use the same decisions.
///
/// ```swift
/// let result = try await storage.perform(Command(keys: [.balance(id)]) { loaded in
///     …  // Pure: look at `loaded`, return the outcome and the changes.
/// })
/// ```
///
/// `StorageContractTests` states the guarantees of every driver as tests.
public protocol Storage: Sendable {
    /// Loads the command's keys, lets it decide, and stores its changes.
    ///
    /// Returns after the changes are durable. Cancelling the calling task does not abort it, so
    /// that a charge completes even if its client has disconnected.
    ///
    /// - Returns: The outcome, or the problem with which the command refused. A refused command
    ///   changes nothing.
    /// - Throws: ``StorageError`` if the driver failed. Nothing was changed then, except possibly
    ///   after ``StorageError/unknownOutcome(_:)``.
    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem>

    /// Loads committed rows, all as of a single point in time.
    func load(_ keys: [Key]) async throws(StorageError) -> Loaded

    /// Reads a part of an account's feed, and loads rows as of the same moment.
    func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice

    /// Reads a part of a list of live records.
    func records(_ query: RecordQuery) async throws(StorageError) -> RecordList

    /// Returns an account's transfers, newest first.
    ///
    /// - Parameters:
    ///   - account: The owner.
    ///   - number: Only transfers with a smaller ``NumberedTransfer/number`` are returned; `nil`
    ///     starts with the newest.
    ///   - limit: The maximum number of transfers.
    /// - Returns: The transfers with their positions in the ledger; empty if there are no more.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer]

    /// Returns the transfers of all accounts, oldest first.
    ///
    /// - Parameters:
    ///   - number: Only transfers with a larger ``NumberedTransfer/number`` are returned.
    ///   - limit: The maximum number of transfers.
    /// - Returns: The transfers with their positions in the ledger; empty if there are no more.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func transfers(
        after number: Int64,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer]

    /// Returns the accounts whose balances have grants that expire at or before the moment, in the
    /// order of the soonest ones.
    func accounts(
        withGrantsExpiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [Identifier]

    /// Returns the active accounts whose plans end at or before the moment and that are not stored
    /// as free yet, in the order of the ends.
    func accounts(
        withPlansEndingBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [AccountRow]

    /// Returns open holds that expire at or before the moment, earliest first.
    func openHolds(expiringBy moment: Timestamp, limit: Int) async throws(StorageError) -> [HoldRow]

    /// Returns operations that are still running, in the order of their keys.
    ///
    /// - Parameters:
    ///   - position: The position after which the operations follow; `nil` for the beginning.
    ///   - limit: The maximum number of operations.
    /// - Returns: The operations; empty if there are no more.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) async throws(StorageError) -> [OperationRow]

    /// Returns the stored parts of a streamed answer.
    ///
    /// - Parameters:
    ///   - run: The run that made the parts.
    ///   - index: The first part to return; the row that contains it comes first.
    ///   - limit: The maximum number of rows.
    /// - Returns: The rows in order; empty if no parts follow the index.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow]

    /// Returns those of the files that have an owner.
    ///
    /// - Parameter ids: The files, at most a few thousand.
    /// - Returns: Those of them that have a ``BlobRow``.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID>

    /// Returns a part of the files of all accounts, in the order of the files and then of the
    /// accounts.
    func files(_ query: FilesQuery) async throws(StorageError) -> [BlobRow]

    /// Returns a part of the documents of one kind, in the order of their ids' bytes.
    func documents(_ query: DocumentQuery) async throws(StorageError) -> [DocumentRow]

    /// Returns a part of the active accounts, in the order of their ids' bytes.
    func accounts(_ query: AccountsQuery) async throws(StorageError) -> [AccountRow]

    /// Returns a part of an account's rows of one kind, in the order of their keys' bytes.
    func rows(_ query: AccountRowsQuery) async throws(StorageError) -> [Row]

    /// Returns entries of the audit log, newest first.
    ///
    /// - Parameters:
    ///   - number: Only entries with a smaller ``AuditRow/number`` are returned; `nil` starts with
    ///     the newest.
    ///   - limit: The maximum number of entries.
    /// - Returns: The entries; empty if there are no more.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func audit(before number: Int64?, limit: Int) async throws(StorageError) -> [AuditRow]

    /// Returns the account with that verified e-mail address.
    func account(email: String) async throws(StorageError) -> AccountRow?

    /// Drops expired rows.
    ///
    /// These are the answers of operations done before `answers` (an operation whose answer has a
    /// ``StoredAnswer/head`` becomes ``OperationRow/State/forgotten``, any other is removed),
    /// sessions, settled holds, cached answers, parts of streamed answers, documents, and
    /// tombstones, which ``FeedRow/drop(_:)`` subtracts from the account's ``FeedRow``; see
    /// ``SweepHorizon``.
    ///
    /// - Returns: The number of rows dropped or emptied, at most `limit` of each kind.
    @discardableResult
    func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int

    /// Recomputes every balance from its transfers, and compares.
    ///
    /// Commands can be performed in the meantime.
    ///
    /// - Parameter progress: Called from time to time with the number of accounts and transfers so
    ///   far; must return quickly.
    /// - Returns: The report.
    /// - Throws: ``StorageError`` if the driver could not read the ledger, or if the task was
    ///   cancelled.
    func verifyLedger(
        progress: @escaping @Sendable (LedgerProgress) -> Void
    ) async throws(StorageError) -> LedgerReport

    /// Verifies that the storage works by writing a value durably, without changing data.
    ///
    /// This costs a commit, so frequent checks should reuse the result.
    ///
    /// - Throws: ``StorageError`` if a command with changes would fail.
    func checkHealth() async throws(StorageError)

    /// The epoch of the feeds' numbers.
    ///
    /// It is stored with the data, and changes when a copy of the data is restored.
    var epoch: Epoch { get }

    /// The bytes of the files that have a ``BlobRow`` in the storage.
    var blobs: any BlobStore { get }

    /// The progress of checking the data that the storage opened.
    ///
    /// Default: no check is needed.
    var dataCheck: DataCheck { get }

    /// The number of bytes that can still be written to the data folder; `nil` if unknown.
    var freeBytes: Int64? { get }

    /// Completes queued work and releases all resources. Later calls throw ``StorageError/closed``.
    func close() async
}

extension Storage {
    /// No check is needed.
    public var dataCheck: DataCheck { .done }

    /// Recomputes every balance from its transfers, and compares.
    public func verifyLedger() async throws(StorageError) -> LedgerReport {
        try await verifyLedger { _ in }
    }
}

/// The progress of checking the data that a storage opened.
public enum DataCheck: Hashable, Sendable {
    /// The check is at the part that the text describes; later parts are not checked yet.
    case running(String)
    /// All data was checked.
    case done
    /// The check failed; the text states the reason.
    case failed(String)
}

/// A command: the keys that it needs, and the pure function that decides.
public struct Command<Outcome: Sendable>: Sendable {
    /// The keys of the rows to load before deciding.
    public let keys: [Key]

    /// The sessions to find before deciding, in addition to the rows; `nil` for none.
    public let surplus: SurplusSessions?

    /// Whether the command reads or stores many rows besides those of its keys.
    ///
    /// A driver may let short commands overtake it. Default: false.
    public var isLong = false

    /// Decides on the outcome and the changes.
    ///
    /// Performs no I/O except through the reader, and reads no clock: a driver may call it
    /// repeatedly, and only the last decision counts.
    public let decide: @Sendable (Loaded, any RecordReader) throws(Problem) -> Decision<Outcome>

    /// The account of the command, if its keys name one.
    package var account: Identifier? { keys.lazy.compactMap(\.account).first }

    /// Creates a command.
    public init(
        keys: [Key],
        surplus: SurplusSessions? = nil,
        decide: @escaping @Sendable (Loaded) throws(Problem) -> Decision<Outcome>
    ) {
        self.keys = keys
        self.surplus = surplus
        self.decide = { loaded, _ throws(Problem) in try decide(loaded) }
    }

    /// Creates a command that reads records while it decides.
    public init(
        keys: [Key],
        surplus: SurplusSessions? = nil,
        reading decide:
            @escaping @Sendable (Loaded, any RecordReader) throws(Problem) -> Decision<Outcome>
    ) {
        self.keys = keys
        self.surplus = surplus
        self.decide = decide
    }
}

/// A request for those of an account's sessions that have not ended, except for the most recently
/// used ones.
///
/// A driver returns these sessions in the order of their newest refresh tokens, oldest first, and
/// then by id. It finds them by an index, so other commands do not pay for it.
public struct SurplusSessions: Hashable, Sendable {
    /// The maximum number of sessions returned, so that commands stay small.
    public static let limit = 16

    /// The owner of the sessions.
    public var account: Identifier
    /// The number of most recently used sessions to leave out; never negative.
    public let kept: Int

    /// Creates the request.
    public init(of account: Identifier, kept: Int) {
        self.account = account
        self.kept = max(0, kept)
    }
}

/// The decision of a command.
public struct Decision<Outcome: Sendable>: Sendable {
    /// The outcome that the caller receives.
    public var outcome: Outcome
    /// The changes to store, in order; empty if nothing changes.
    public var changes: [Change]

    /// Creates a decision.
    public init(_ outcome: Outcome, changes: [Change] = []) {
        self.outcome = outcome
        self.changes = changes
    }
}

/// One change to store.
public enum Change: Hashable, Sendable {
    /// Writes the row, replacing one with the same key.
    case put(Row)
    /// Removes the row, if it exists.
    case delete(Key)
    /// Appends a transfer to the ledger.
    case append(Transfer)
    /// Adds an index entry that does not exist yet.
    case index(IndexEntry)
    /// Removes an index entry.
    case unindex(IndexEntry)
    /// Removes the cached answers of an account, or the public ones for `nil`, except for the given
    /// number of the newest.
    case pruneResults(of: Identifier?, keeping: Int)
    /// Moves rows of a merged guest to its account.
    case rehome(Rehoming)
}

/// The rows that a command requested, as of a single point in time.
public struct Loaded: Sendable {
    // Commands load one to four keys; a linear search is faster than hashing so few.
    fileprivate var rows: [Row] = []

    /// The sessions found for the command's ``SurplusSessions``.
    public var surplusSessions: [SessionRow] = []

    /// Creates an empty set, to which a driver adds the rows that it finds.
    public init() {}

    /// Adds a row.
    public mutating func add(_ row: Row) { rows.append(row) }

    /// Returns the account's profile, if it was requested and exists.
    public func account(_ id: Identifier) -> AccountRow? {
        for case .account(let row) in rows where row.id == id { return row }
        return nil
    }

    /// Returns the account's balance, if it was requested and exists.
    public func balance(_ account: Identifier) -> BalanceRow? {
        for case .balance(let row) in rows where row.account == account { return row }
        return nil
    }

    /// Returns the device, if it was requested and exists.
    public func device(_ id: String) -> DeviceRow? {
        for case .device(let row) in rows where row.id == id { return row }
        return nil
    }

    /// Returns the session, if it was requested and exists.
    public func session(_ id: Identifier) -> SessionRow? {
        for case .session(let row) in rows where row.id == id { return row }
        return nil
    }

    /// Returns the use of the quota, if it was requested and exists.
    public func quota(_ account: Identifier, name: String) -> QuotaRow? {
        for case .quota(let row) in rows where row.account == account && row.name == name {
            return row
        }
        return nil
    }

    /// Returns the hold, if it was requested and exists.
    public func hold(_ id: Identifier) -> HoldRow? {
        for case .hold(let row) in rows where row.id == id { return row }
        return nil
    }

    /// Returns the operation, if it was requested and exists.
    public func operation(_ account: Identifier, key: String) -> OperationRow? {
        for case .operation(let row) in rows where row.account == account && row.key == key {
            return row
        }
        return nil
    }
}

extension Loaded {
    /// All operations that were requested and exist.
    public var operations: [OperationRow] {
        rows.compactMap { if case .operation(let row) = $0 { row } else { nil } }
    }

    /// Returns the record or tombstone, if it was requested and exists.
    public func record(_ name: RecordName) -> RecordRow? {
        for case .record(let row) in rows where row.name == name { return row }
        return nil
    }

    /// Returns the cached answer, if it was requested and exists.
    public func result(_ key: [UInt8]) -> ResultRow? {
        for case .result(let row) in rows where row.key == key { return row }
        return nil
    }

    /// Returns the parts, if they were requested by the index of the first one and exist.
    public func parts(_ run: Identifier, first: Int64) -> PartsRow? {
        for case .parts(let row) in rows where row.run == run && row.first == first { return row }
        return nil
    }

    /// Returns the account's file, if it was requested and the account has it.
    public func blob(_ account: Identifier, _ id: BlobID) -> BlobRow? {
        for case .blob(let row) in rows where row.account == account && row.id == id { return row }
        return nil
    }

    /// The progress of the indexes, if it was requested; empty before the first step.
    public var indexes: IndexesRow {
        for case .indexes(let row) in rows { return row }
        return IndexesRow()
    }

    /// Returns the document, if it was requested and exists.
    public func document(_ kind: DocumentKind, _ id: String) -> DocumentRow? {
        for case .document(let row) in rows where row.kind == kind && row.id == id { return row }
        return nil
    }

    /// The newest entry of the audit log, if it was requested and exists.
    public var lastAudit: AuditRow? {
        for case .audit(let row) in rows { return row }
        return nil
    }

    /// Returns the totals of the account's records, if they were requested and exist.
    public func feed(_ account: Identifier) -> FeedRow? {
        for case .feed(let row) in rows where row.account == account { return row }
        return nil
    }
}

/// A position in the order of operations: by account, then by key.
public struct OperationPosition: Hashable, Sendable {
    /// The owner.
    public var account: Identifier
    /// The idempotency key of the operation.
    public var key: String

    /// Creates the position.
    public init(account: Identifier, key: String) {
        self.account = account
        self.key = key
    }
}

/// The times before which rows are expired.
///
/// See ``Storage/sweep(_:limit:)``.
public struct SweepHorizon: Hashable, Sendable {
    /// Answers of operations done before this time are dropped.
    public var answers: Timestamp
    /// Sessions that expired or ended before this time are removed.
    public var sessions: Timestamp
    /// Settled holds that expired before this time are removed.
    public var holds: Timestamp
    /// Tombstones of records deleted before this time are removed.
    public var tombstones: Timestamp
    /// Cached answers of functions that expired before this time are removed.
    public var results: Timestamp
    /// Parts of streamed answers stored before this time are removed.
    public var parts: Timestamp
    /// Documents that expired before this time are removed.
    public var documents: Timestamp

    /// Creates a horizon.
    public init(
        answers: Timestamp,
        sessions: Timestamp,
        holds: Timestamp,
        tombstones: Timestamp = Timestamp(millisecondsSince1970: .min),
        results: Timestamp = Timestamp(millisecondsSince1970: .min),
        parts: Timestamp = Timestamp(millisecondsSince1970: .min),
        documents: Timestamp = Timestamp(millisecondsSince1970: .min)
    ) {
        self.answers = answers
        self.sessions = sessions
        self.holds = holds
        self.tombstones = tombstones
        self.results = results
        self.parts = parts
        self.documents = documents
    }
}

/// An error of a storage driver.
public enum StorageError: Error, Hashable {
    /// Too much work is queued. Retry after this many whole seconds.
    case overloaded(retryAfterSeconds: Int)
    /// The disk or the database failed, and nothing was changed; the text describes the failure.
    case failed(String)
    /// The disk is full, and nothing was changed; the text describes the failure.
    case full(String)
    /// The data cannot be written, and nothing was changed; the text describes the failure.
    case readOnly(String)
    /// The stored data cannot be read, and nothing was changed; the text describes the failure.
    case damaged(String)
    /// The commit failed, and its outcome is unknown; the text describes the failure.
    case unknownOutcome(String)
    /// The storage is closed.
    case closed
}

extension StorageError: CustomStringConvertible {
    /// A description of the error, and what to do about it.
    public var description: String {
        switch self {
        case .overloaded(let seconds):
            "Too many commands are queued. Try again in \(seconds) s."
        case .failed(let reason):
            """
            The storage failed, and nothing was changed: \(reason). Check the disk, then try \
            again.
            """
        case .full(let reason):
            """
            The disk is full, and nothing was changed: \(reason). Free some space, then try again.
            """
        case .readOnly(let reason):
            """
            The data cannot be written, and nothing was changed: \(reason). Make the disk and the \
            folder writable, then try again.
            """
        case .damaged(let reason):
            """
            The data is damaged, and nothing was changed: \(reason). Stop the server, and restore \
            the data from a backup.
            """
        case .unknownOutcome(let reason):
            """
            The storage failed during a commit: \(reason). Send the operation again with the same \
            idempotency key: it takes effect once.
            """
        case .closed:
            "The storage is closed. Open it again before use."
        }
    }
}

/// The progress of recomputing the ledger.
public struct LedgerProgress: Hashable, Codable, Sendable {
    /// The number of accounts between two reports of the progress: 1,000.
    public static let step = 1_000

    /// The number of accounts examined so far.
    public var accounts: Int
    /// The number of transfers added up so far.
    public var transfers: Int
    /// The number of differences found so far.
    public var differences: Int

    /// Creates a progress.
    public init(accounts: Int, transfers: Int, differences: Int) {
        self.accounts = accounts
        self.transfers = transfers
        self.differences = differences
    }
}

/// The result of recomputing the ledger.
public struct LedgerReport: Hashable, Codable, Sendable {
    /// A balance that differs from the sum of its entries.
    public struct Difference: Hashable, Codable, Sendable {
        /// The owner of the balance.
        public var account: Identifier
        /// The difference, in a sentence with both numbers.
        public var finding: String

        /// Creates a difference.
        public init(account: Identifier, finding: String) {
            self.account = account
            self.finding = finding
        }
    }

    /// The number of accounts examined.
    public var accounts: Int
    /// The number of transfers added up.
    public var transfers: Int
    /// The differences found, at most ``limit``.
    public var differences: [Difference]

    /// The maximum number of differences that a report lists.
    public static let limit = 1_000

    /// Creates a report.
    public init(accounts: Int, transfers: Int, differences: [Difference]) {
        self.accounts = accounts
        self.transfers = transfers
        self.differences = differences
    }
}
