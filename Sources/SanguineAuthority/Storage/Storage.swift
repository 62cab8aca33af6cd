public import SanguineModel

/// Where an authority keeps what it knows.
///
/// A driver loads, asks a ``Command`` to decide, and stores, in one unit: nothing that another
/// command does can come in between, and after a crash either all of it is there or nothing.
/// Drivers hold no rules; all of them share the decisions.
///
/// ```swift
/// let result = try await storage.perform(Command(keys: [.balance(id)]) { loaded in
///     …  // Pure: look at `loaded`, return the outcome and the changes.
/// })
/// ```
///
/// What every driver promises is written down as tests, in `StorageContractTests`.
public protocol Storage: Sendable {
    /// Loads the command's keys, lets it decide, and stores its changes.
    ///
    /// Returns after the changes are durable. Cancelling the calling task does not abort it: a
    /// charge whose client hung up must not stop half-way.
    ///
    /// - Returns: The outcome, or the problem that the command refused with. A refused command has
    ///   changed nothing.
    /// - Throws: ``StorageError`` if the driver could not do it. Nothing was changed then, except
    ///   after ``StorageError/unknownOutcome(_:)``.
    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem>

    /// Loads committed rows, all as of one moment.
    func load(_ keys: [Key]) async throws(StorageError) -> Loaded

    /// Reads a part of an account's feed, and loads rows as of the same moment.
    func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice

    /// Reads a part of a list of live records.
    func records(_ query: RecordQuery) async throws(StorageError) -> RecordList

    /// Returns an account's transfers, newest first.
    ///
    /// - Parameters:
    ///   - account: Whose.
    ///   - number: Only transfers with a smaller ``NumberedTransfer/number``; `nil` from the
    ///     newest.
    ///   - limit: How many at most.
    /// - Returns: The transfers with their places in the ledger; none if there are no more.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer]

    /// Returns open holds that expire at or before the moment, earliest first.
    func openHolds(expiringBy moment: Timestamp, limit: Int) async throws(StorageError) -> [HoldRow]

    /// Returns operations that are still running, in the order of their keys.
    ///
    /// - Parameters:
    ///   - position: Only operations after this one; `nil` from the first.
    ///   - limit: How many at most.
    /// - Returns: The operations; none if there are no more.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) async throws(StorageError) -> [OperationRow]

    /// Returns the parts of a streamed answer that were stored.
    ///
    /// - Parameters:
    ///   - run: The run that has made them.
    ///   - index: The first part that is wanted; the row that has it comes first.
    ///   - limit: How many rows at most.
    /// - Returns: The rows in order; none if there are none from there on.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow]

    /// Returns those of the files that any account has.
    ///
    /// - Parameter ids: Some files, at most some thousand.
    /// - Returns: Those of them that have a ``BlobRow``.
    /// - Throws: ``StorageError`` if the driver could not read them.
    func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID>

    /// Returns the account with that verified e-mail address.
    func account(email: String) async throws(StorageError) -> AccountRow?

    /// Drops what has served its time: answers of operations done before `answers` (one whose
    /// answer has a ``StoredAnswer/head`` becomes ``OperationRow/State/forgotten``, any other
    /// goes), sessions that expired or ended before `sessions`, holds that were settled and expired
    /// before `holds`, kept answers of functions that expired before `results`, parts of streamed
    /// answers that were stored before `parts`, and what is left of records that were deleted
    /// before `tombstones`: the account's ``FeedRow`` takes note of each, see ``FeedRow/drop(_:)``.
    ///
    /// - Returns: How many rows were dropped or emptied, at most `limit` of each kind.
    @discardableResult
    func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int

    /// Recomputes every balance from its transfers and compares.
    func verifyLedger() async throws(StorageError) -> LedgerReport

    /// Proves that the storage can do its work: keeps something that changes nothing, durably.
    ///
    /// It costs a commit, so whoever asks for many asks seldom.
    ///
    /// - Throws: ``StorageError`` if a command that changes something would fail.
    func checkHealth() async throws(StorageError)

    /// The epoch to which the numbers of its feeds belong.
    ///
    /// It is kept with the data, and is another one after a copy of the data was restored.
    var epoch: Epoch { get }

    /// The bytes of the files whose ``BlobRow`` the storage has.
    var blobs: any BlobStore { get }

    /// How far the storage has come in checking the data that it opened.
    ///
    /// Default: nothing is to be checked.
    var dataCheck: DataCheck { get }

    /// Bytes that can still be written where the data is; `nil` where that is not known.
    var freeBytes: Int64? { get }

    /// Finishes what is queued and releases everything. Later calls throw ``StorageError/closed``.
    func close() async
}

extension Storage {
    /// Nothing is to be checked.
    public var dataCheck: DataCheck { .done }
}

/// How far a storage has come in checking the data that it opened.
public enum DataCheck: Hashable, Sendable {
    /// This is being read, in a few words; what comes after it is not checked yet.
    case running(String)
    /// All of it was read.
    case done
    /// It could not be read to the end; the text says why.
    case failed(String)
}

/// What a command needs, and the pure function that decides with it.
public struct Command<Outcome: Sendable>: Sendable {
    /// What to load before deciding.
    public let keys: [Key]

    /// Which sessions to look for before deciding, beside the rows; `nil` for none.
    public let surplus: SurplusSessions?

    /// Looks at what was loaded and says what happens.
    ///
    /// Performs no I/O but by the reader, and reads no clock: a driver may ask again, and only the
    /// last decision counts.
    public let decide: @Sendable (Loaded, any RecordReader) throws(Problem) -> Decision<Outcome>

    /// The account that the command is about, if its keys name one.
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

    /// Creates a command that reads records on its way.
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

/// Asks for an account's sessions that have not ended, but for those used last.
///
/// A driver gives the ones whose newest refresh token was made longest ago first, and of equal ones
/// those with the smaller id. It finds them by an index: nobody else pays for the question.
public struct SurplusSessions: Hashable, Sendable {
    /// How many are given at most, so that no command grows without bound.
    public static let limit = 16

    /// Whose sessions.
    public var account: Identifier
    /// How many of those used last are left out; never negative.
    public let kept: Int

    /// Creates the question.
    public init(of account: Identifier, kept: Int) {
        self.account = account
        self.kept = max(0, kept)
    }
}

/// What a command decided.
public struct Decision<Outcome: Sendable>: Sendable {
    /// What the caller learns.
    public var outcome: Outcome
    /// What must be stored, in order.
    ///
    /// Empty if nothing changes.
    public var changes: [Change]

    /// Creates a decision.
    public init(_ outcome: Outcome, changes: [Change] = []) {
        self.outcome = outcome
        self.changes = changes
    }
}

/// One thing to store.
public enum Change: Hashable, Sendable {
    /// Writes the row, and replaces one of the same key.
    case put(Row)
    /// Removes the row, if it is there.
    case delete(Key)
    /// Appends to the ledger.
    case append(Transfer)
    /// Lets a record be found by the value of a member; it is not found there yet.
    case index(IndexEntry)
    /// Lets a record no longer be found by the value of a member.
    case unindex(IndexEntry)
    /// Removes the kept answers of an account, or with `nil` those of everybody, but for so many
    /// that were made last.
    case pruneResults(of: Identifier?, keeping: Int)
}

/// The rows that a command asked for, as of one moment.
public struct Loaded: Sendable {
    // Commands ask for one to four keys: searching so few beats hashing them.
    fileprivate var rows: [Row] = []

    /// The sessions that the command's ``SurplusSessions`` asked for.
    public var surplusSessions: [SessionRow] = []

    /// Creates an empty set, to which a driver adds what it finds.
    public init() {}

    /// Adds a row that was found.
    public mutating func add(_ row: Row) { rows.append(row) }

    /// The account's profile, if it was asked for and exists.
    public func account(_ id: Identifier) -> AccountRow? {
        for case .account(let row) in rows where row.id == id { return row }
        return nil
    }

    /// The account's balance, if it was asked for and exists.
    public func balance(_ account: Identifier) -> BalanceRow? {
        for case .balance(let row) in rows where row.account == account { return row }
        return nil
    }

    /// The device, if it was asked for and exists.
    public func device(_ id: String) -> DeviceRow? {
        for case .device(let row) in rows where row.id == id { return row }
        return nil
    }

    /// The session, if it was asked for and exists.
    public func session(_ id: Identifier) -> SessionRow? {
        for case .session(let row) in rows where row.id == id { return row }
        return nil
    }

    /// The allowance, if it was asked for and has ever been used.
    public func quota(_ account: Identifier, name: String) -> QuotaRow? {
        for case .quota(let row) in rows where row.account == account && row.name == name {
            return row
        }
        return nil
    }

    /// The hold, if it was asked for and exists.
    public func hold(_ id: Identifier) -> HoldRow? {
        for case .hold(let row) in rows where row.id == id { return row }
        return nil
    }

    /// The operation, if it was asked for and exists.
    public func operation(_ account: Identifier, key: String) -> OperationRow? {
        for case .operation(let row) in rows where row.account == account && row.key == key {
            return row
        }
        return nil
    }
}

extension Loaded {
    /// All operations that were asked for and exist.
    public var operations: [OperationRow] {
        rows.compactMap { if case .operation(let row) = $0 { row } else { nil } }
    }

    /// The record, if it was asked for and exists or existed.
    public func record(_ name: RecordName) -> RecordRow? {
        for case .record(let row) in rows where row.name == name { return row }
        return nil
    }

    /// The kept answer, if it was asked for and exists.
    public func result(_ key: [UInt8]) -> ResultRow? {
        for case .result(let row) in rows where row.key == key { return row }
        return nil
    }

    /// The parts, if they were asked for by the index of the first one, and exist.
    public func parts(_ run: Identifier, first: Int64) -> PartsRow? {
        for case .parts(let row) in rows where row.run == run && row.first == first { return row }
        return nil
    }

    /// The account's file, if it was asked for and is the account's.
    public func blob(_ account: Identifier, _ id: BlobID) -> BlobRow? {
        for case .blob(let row) in rows where row.account == account && row.id == id { return row }
        return nil
    }

    /// How far the indexes are, if it was asked for; of none anything is known at first.
    public var indexes: IndexesRow {
        for case .indexes(let row) in rows { return row }
        return IndexesRow()
    }

    /// What is known of the account's records, if it was asked for and there ever was one.
    public func feed(_ account: Identifier) -> FeedRow? {
        for case .feed(let row) in rows where row.account == account { return row }
        return nil
    }
}

/// A place in the order of operations: by account, then by key.
public struct OperationPosition: Hashable, Sendable {
    /// Whose operation.
    public var account: Identifier
    /// Its idempotency key.
    public var key: String

    /// Creates the position.
    public init(account: Identifier, key: String) {
        self.account = account
        self.key = key
    }
}

/// Up to when things have served their time.
///
/// See ``Storage/sweep(_:limit:)``.
public struct SweepHorizon: Hashable, Sendable {
    /// Answers of operations that were done before are dropped.
    public var answers: Timestamp
    /// Sessions that expired or ended before are removed.
    public var sessions: Timestamp
    /// Settled holds that expired before are removed.
    public var holds: Timestamp
    /// What is left of records that were deleted before is removed.
    public var tombstones: Timestamp
    /// Kept answers of functions that expired before are removed.
    public var results: Timestamp
    /// Parts of streamed answers that were stored before are removed.
    public var parts: Timestamp

    /// Creates a horizon.
    public init(
        answers: Timestamp,
        sessions: Timestamp,
        holds: Timestamp,
        tombstones: Timestamp = Timestamp(millisecondsSince1970: .min),
        results: Timestamp = Timestamp(millisecondsSince1970: .min),
        parts: Timestamp = Timestamp(millisecondsSince1970: .min)
    ) {
        self.answers = answers
        self.sessions = sessions
        self.holds = holds
        self.tombstones = tombstones
        self.results = results
        self.parts = parts
    }
}

/// A reason why a driver could not do what was asked.
public enum StorageError: Error, Hashable {
    /// Too much is queued. Come back after this many whole seconds.
    case overloaded(retryAfterSeconds: Int)
    /// The disk or the database failed; the text says how. Nothing was changed.
    case failed(String)
    /// The disk has no room left; the text says how. Nothing was changed.
    case full(String)
    /// The data can be read and not written; the text says how. Nothing was changed.
    case readOnly(String)
    /// What is stored does not read back; the text says how. Nothing was changed.
    case damaged(String)
    /// The commit failed in a way that leaves open whether it was done; the text says how.
    case unknownOutcome(String)
    /// The storage was closed.
    case closed
}

extension StorageError: CustomStringConvertible {
    /// What happened, and what to do about it.
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
            The storage failed while it committed: \(reason). Send the operation again with the \
            same idempotency key: it takes effect once.
            """
        case .closed:
            "The storage is closed. Open it again before use."
        }
    }
}

/// What recomputing the ledger found.
public struct LedgerReport: Hashable, Codable, Sendable {
    /// A balance that is not what its entries sum up to.
    public struct Difference: Hashable, Codable, Sendable {
        /// Whose balance.
        public var account: Identifier
        /// What is wrong, in a sentence with both numbers.
        public var finding: String

        /// Creates a difference.
        public init(account: Identifier, finding: String) {
            self.account = account
            self.finding = finding
        }
    }

    /// How many accounts were looked at.
    public var accounts: Int
    /// How many transfers were added up.
    public var transfers: Int
    /// What was found wrong, at most ``limit``.
    public var differences: [Difference]

    /// How many differences are listed at most.
    public static let limit = 1_000

    /// Creates a report.
    public init(accounts: Int, transfers: Int, differences: [Difference]) {
        self.accounts = accounts
        self.transfers = transfers
        self.differences = differences
    }
}
