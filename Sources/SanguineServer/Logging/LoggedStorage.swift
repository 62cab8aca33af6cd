import Logging
import Metrics
import SanguineAuthority
import SanguineModel

/// A storage that logs failures with their reasons, which are not sent to clients, and counts reads
/// of lists.
///
/// It does not log that the storage is overloaded or closed, because clients retry then. A
/// persistent failure is logged once a minute; see ``RecentFailures``.
struct LoggedStorage: Storage {
    private let storage: any Storage
    private let files: any BlobStore
    private let logger: Logger
    private let recent: RecentFailures
    private let recordReads: Counter
    private let onFailure: @Sendable (StorageError) -> Bool

    /// Creates the storage.
    ///
    /// - Parameters:
    ///   - storage: The underlying storage.
    ///   - files: The store of the bytes of files. Default: that of the storage.
    ///   - logger: The log.
    ///   - clock: A monotonic clock.
    ///   - metrics: Receives the number of reads.
    ///   - onFailure: Called with each error, even if it is not logged; returns whether to log it.
    ///     Known damage fails every write, but is logged only once.
    init(
        _ storage: any Storage,
        files: (any BlobStore)? = nil,
        logger: Logger,
        clock: any Clock<Duration>,
        metrics: any MetricsFactory,
        onFailure: @escaping @Sendable (StorageError) -> Bool
    ) {
        self.storage = storage
        self.files = files ?? storage.blobs
        self.logger = logger
        recent = RecentFailures(clock: clock)
        recordReads = Counter(
            label: "storage_reads",
            dimensions: [("kind", "records")],
            factory: metrics
        )
        self.onFailure = onFailure
    }

    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        do throws(StorageError) {
            return try await storage.perform(command)
        } catch {
            throw logged(error, "perform")
        }
    }

    func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        do throws(StorageError) {
            return try await storage.load(keys)
        } catch {
            throw logged(error, "load")
        }
    }

    func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice {
        do throws(StorageError) {
            return try await storage.feed(query)
        } catch {
            throw logged(error, "feed")
        }
    }

    func records(_ query: RecordQuery) async throws(StorageError) -> RecordList {
        recordReads.increment()
        do throws(StorageError) {
            return try await storage.records(query)
        } catch {
            throw logged(error, "records")
        }
    }

    func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        do throws(StorageError) {
            return try await storage.transfers(of: account, before: number, limit: limit)
        } catch {
            throw logged(error, "transfers")
        }
    }

    func openHolds(
        expiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [HoldRow] {
        do throws(StorageError) {
            return try await storage.openHolds(expiringBy: moment, limit: limit)
        } catch {
            throw logged(error, "openHolds")
        }
    }

    func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) async throws(StorageError) -> [OperationRow] {
        do throws(StorageError) {
            return try await storage.runningOperations(after: position, limit: limit)
        } catch {
            throw logged(error, "runningOperations")
        }
    }

    func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow] {
        do throws(StorageError) {
            return try await storage.parts(of: run, from: index, limit: limit)
        } catch {
            throw logged(error, "parts")
        }
    }

    func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID> {
        do throws(StorageError) {
            return try await storage.owned(ids)
        } catch {
            throw logged(error, "owned")
        }
    }

    func files(_ query: FilesQuery) async throws(StorageError) -> [BlobRow] {
        do throws(StorageError) {
            return try await storage.files(query)
        } catch {
            throw logged(error, "files")
        }
    }

    func documents(_ query: DocumentQuery) async throws(StorageError) -> [DocumentRow] {
        do throws(StorageError) {
            return try await storage.documents(query)
        } catch {
            throw logged(error, "documents")
        }
    }

    func accounts(_ query: AccountsQuery) async throws(StorageError) -> [AccountRow] {
        do throws(StorageError) {
            return try await storage.accounts(query)
        } catch {
            throw logged(error, "accounts")
        }
    }

    func rows(_ query: AccountRowsQuery) async throws(StorageError) -> [Row] {
        do throws(StorageError) {
            return try await storage.rows(query)
        } catch {
            throw logged(error, "rows")
        }
    }

    func audit(before number: Int64?, limit: Int) async throws(StorageError) -> [AuditRow] {
        do throws(StorageError) {
            return try await storage.audit(before: number, limit: limit)
        } catch {
            throw logged(error, "audit")
        }
    }

    func account(email: String) async throws(StorageError) -> AccountRow? {
        do throws(StorageError) {
            return try await storage.account(email: email)
        } catch {
            throw logged(error, "account")
        }
    }

    func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int {
        do throws(StorageError) {
            return try await storage.sweep(horizon, limit: limit)
        } catch {
            throw logged(error, "sweep")
        }
    }

    func transfers(
        after number: Int64,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        do throws(StorageError) {
            return try await storage.transfers(after: number, limit: limit)
        } catch {
            throw logged(error, "transfers")
        }
    }

    func accounts(
        withPlansEndingBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [AccountRow] {
        do throws(StorageError) {
            return try await storage.accounts(withPlansEndingBy: moment, limit: limit)
        } catch {
            throw logged(error, "accounts")
        }
    }

    func accounts(
        withGrantsExpiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [Identifier] {
        do throws(StorageError) {
            return try await storage.accounts(withGrantsExpiringBy: moment, limit: limit)
        } catch {
            throw logged(error, "accounts")
        }
    }

    func verifyLedger(
        progress: @escaping @Sendable (LedgerProgress) -> Void
    ) async throws(StorageError) -> LedgerReport {
        do throws(StorageError) {
            return try await storage.verifyLedger(progress: progress)
        } catch {
            throw logged(error, "verifyLedger")
        }
    }

    func checkHealth() async throws(StorageError) {
        do throws(StorageError) {
            try await storage.checkHealth()
        } catch {
            throw logged(error, "checkHealth")
        }
    }

    var blobs: any BlobStore {
        LoggedBlobStore(store: files) { error, action in _ = logged(error, action) }
    }

    var epoch: Epoch { storage.epoch }

    var dataCheck: DataCheck { storage.dataCheck }

    var freeBytes: Int64? { storage.freeBytes }

    func close() async { await storage.close() }

    private func logged(_ error: StorageError, _ action: String) -> StorageError {
        guard onFailure(error), recent.isNews(error) else { return error }
        switch error {
        case .failed(let reason), .full(let reason), .readOnly(let reason):
            logger.error(
                "The storage failed",
                metadata: ["action": "\(action)", "reason": "\(reason)"]
            )
        case .damaged(let reason):
            logger.critical(
                "The data is damaged. Stop the server and run 'sanguine doctor'",
                metadata: ["action": "\(action)", "reason": "\(reason)"]
            )
        case .unknownOutcome(let reason):
            logger.critical(
                "The storage failed during a commit, whose outcome is unknown",
                metadata: ["action": "\(action)", "reason": "\(reason)"]
            )
        case .overloaded, .closed:
            break
        }
        return error
    }
}
