package import SanguineAuthority
package import SanguineModel

/// A storage that forwards everything to another one, except for the methods that a test replaces.
package protocol StorageDecorator: Storage {
    associatedtype Inner: Storage

    /// The storage that does the work.
    var inner: Inner { get }
}

extension StorageDecorator {
    package func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        try await inner.perform(command)
    }

    package func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        try await inner.load(keys)
    }

    package func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice {
        try await inner.feed(query)
    }

    package func records(_ query: RecordQuery) async throws(StorageError) -> RecordList {
        try await inner.records(query)
    }

    package func transfers(
        of account: Identifier,
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try await inner.transfers(of: account, before: number, limit: limit)
    }

    package func openHolds(
        expiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [HoldRow] {
        try await inner.openHolds(expiringBy: moment, limit: limit)
    }

    package func runningOperations(
        after position: OperationPosition?,
        limit: Int
    ) async throws(StorageError) -> [OperationRow] {
        try await inner.runningOperations(after: position, limit: limit)
    }

    package func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow] {
        try await inner.parts(of: run, from: index, limit: limit)
    }

    package func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID> {
        try await inner.owned(ids)
    }

    package func files(_ query: FilesQuery) async throws(StorageError) -> [BlobRow] {
        try await inner.files(query)
    }

    package func documents(
        _ query: DocumentQuery
    ) async throws(StorageError) -> [DocumentRow] {
        try await inner.documents(query)
    }

    package func accounts(
        _ query: AccountsQuery
    ) async throws(StorageError) -> [AccountRow] {
        try await inner.accounts(query)
    }

    package func rows(_ query: AccountRowsQuery) async throws(StorageError) -> [Row] {
        try await inner.rows(query)
    }

    package func audit(
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [AuditRow] {
        try await inner.audit(before: number, limit: limit)
    }

    package func account(email: String) async throws(StorageError) -> AccountRow? {
        try await inner.account(email: email)
    }

    package func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int {
        try await inner.sweep(horizon, limit: limit)
    }

    package func transfers(
        after number: Int64,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        try await inner.transfers(after: number, limit: limit)
    }

    package func accounts(
        withPlansEndingBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [AccountRow] {
        try await inner.accounts(withPlansEndingBy: moment, limit: limit)
    }

    package func accounts(
        withGrantsExpiringBy moment: Timestamp,
        limit: Int
    ) async throws(StorageError) -> [Identifier] {
        try await inner.accounts(withGrantsExpiringBy: moment, limit: limit)
    }

    package func verifyLedger(
        progress: @escaping @Sendable (LedgerProgress) -> Void
    ) async throws(StorageError) -> LedgerReport {
        try await inner.verifyLedger(progress: progress)
    }

    package func checkHealth() async throws(StorageError) { try await inner.checkHealth() }

    package var dataCheck: DataCheck { inner.dataCheck }

    package var blobs: any BlobStore { inner.blobs }

    package var epoch: Epoch { inner.epoch }

    package var freeBytes: Int64? { inner.freeBytes }

    package func close() async { await inner.close() }
}
