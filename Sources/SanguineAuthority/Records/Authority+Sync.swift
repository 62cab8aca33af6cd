public import SanguineModel

extension Authority {
    /// Decides the operations that a device sends, all in one commit.
    ///
    /// Each operation takes effect once, no matter how often it is sent.
    ///
    /// - Returns: The result of each operation, in the order of the request.
    /// - Throws: `not_found` if the account is gone, `invalid_content` if the request as a whole is
    ///   invalid. A refused operation does not throw: its refusal is its result.
    public func push(
        _ account: Identifier,
        _ request: PushRequest
    ) async throws(Problem) -> PushAnswer {
        try await push(account, .success(request))
    }

    /// Refuses an operation before its record mutation runs, or returns `nil` to run the mutation.
    package typealias PushJudge = @Sendable (PushedOperation) -> Refusal?

    /// Works like ``push(_:_:)-``, for a request whose decoding may have failed: a missing account
    /// is refused before invalid content.
    public func push(
        _ account: Identifier,
        _ request: Result<PushRequest, Problem>
    ) async throws(Problem) -> PushAnswer {
        try await push(account, request, judge: nil)
    }

    package func push(
        _ account: Identifier,
        _ request: Result<PushRequest, Problem>,
        overLimit: Set<Int> = [],
        judge: PushJudge?
    ) async throws(Problem) -> PushAnswer {
        let batch: Result<PushBatch, Problem>
        do throws(Problem) {
            let request = try request.get()
            let arguments = JSONValue.array(request.operations.map(\.arguments))
            let isLong = arguments.isLonger(than: WireBody.shortBytes)
            let made = try await WireBody.perform(ifLong: isLong, for: account) {
                () throws(Problem) in
                try PushBatch(request, settings.schema, overLimit: overLimit, judge: judge)
            }
            batch = .success(made)
        } catch {
            batch = .failure(error)
        }
        if case .failure = batch { _ = try await balanceJSON(account) }
        return try await perform(sync.push(account, try batch.get()))
    }

    /// A reader's request for a part of the feed.
    public struct PullRequest: Hashable, Sendable {
        /// The number of the last change that the reader has; 0 at first.
        public var since: Int64
        /// The number of changes; clamped to 1 to ``WireLimits/largestPull``.
        ///
        /// Default: 100.
        public var limit: Int?
        /// The latest ``PullAnswer/horizon`` that the reader has received.
        public var horizon: Int64?
        /// The latest ``PullAnswer/epoch`` that the reader has received, if it sends one.
        ///
        /// An epoch other than that of the storage leads to a reset.
        public var epoch: Epoch?
        /// The operations whose results the reader asks for, at most
        /// ``WireLimits/operationsAsked``; `nil` for none.
        public var operations: [Identifier]?
        /// The revision of the switches that the reader has; `nil` if it does not read them.
        ///
        /// If it is not the current one, the page begins with the switches.
        public var config: Int64?

        /// Creates the request.
        public init(
            since: Int64,
            limit: Int? = nil,
            horizon: Int64? = nil,
            epoch: Epoch? = nil,
            operations: [Identifier]? = nil,
            config: Int64? = nil
        ) {
            self.since = since
            self.limit = limit
            self.horizon = horizon
            self.epoch = epoch
            self.operations = operations
            self.config = config
        }
    }

    /// Reads a part of the account's feed.
    ///
    /// A page never splits the changes of an operation, so it may be longer than its limit. It may
    /// be shorter if its records are large.
    ///
    /// - Throws: `not_found` if the account is gone, `malformed_request` for too many operations.
    public func pull(
        _ account: Identifier,
        _ request: PullRequest
    ) async throws(Problem) -> PullAnswer {
        try await page(account, request).answer()
    }

    /// Returns the answer of ``pull(_:_:)`` as JSON, with the stored values copied unparsed.
    public func pullJSON(
        _ account: Identifier,
        _ request: PullRequest
    ) async throws(Problem) -> [UInt8] {
        try await page(account, request).json()
    }

    private func page(
        _ account: Identifier,
        _ request: PullRequest
    ) async throws(Problem) -> FeedPage {
        var read = try feedRead(account, request)
        while true {
            let query = read.query
            let slice = try await self.read { storage throws(StorageError) in
                try await storage.feed(query)
            }
            guard try read.examine(slice) else { continue }
            // The end of a plan is not in the feed yet if this is the first read since then.
            let isOver = slice.loaded.account(account)?.isPlanOver(at: clock.now()) ?? false
            if isOver, try await perform(identity.endPlan(of: account)) {
                read = try feedRead(account, request)
                continue
            }
            return try page(slice, read)
        }
    }

    /// Creates the read for a reader's request.
    func feedRead(
        _ account: Identifier,
        _ request: PullRequest
    ) throws(Problem) -> FeedRead {
        try FeedRead(
            account,
            request,
            epoch: storage.epoch,
            keys: feedKeys(account, request.operations ?? []),
            bytes: Self.pageBytes
        )
    }

    /// Builds the page from the last slice of a read.
    func page(_ slice: FeedSlice, _ read: FeedRead) throws(Problem) -> FeedPage {
        let (account, query) = (read.query.account, read.query)
        guard let balance = slice.loaded.balance(account) else { throw .noAccount }
        var page = FeedPage(
            slice,
            system(account, slice.loaded).filter { $0.seq > query.after },
            cut: query.cut,
            least: query.least,
            head: balance.head,
            horizon: slice.loaded.feed(account)?.horizon ?? 0,
            epoch: read.epoch,
            begunAt: read.begunAt(balance.head),
            isReset: read.isReset
        )
        page.lead(with: switches.change(since: query.after, known: read.config))
        page.operations = read.operations?.map { id in
            slice.loaded.operation(account, key: id.description)?.result(id)
                ?? PushResult(id: id, status: .unknown)
        }
        return page
    }

    private func feedKeys(_ account: Identifier, _ operations: [Identifier]) -> [Key] {
        [.account(account), .balance(account), .feed(account)]
            + settings.quotas.keys.map { .quota(account, name: $0) }
            + operations.map { .operation(account, key: $0.description) }
    }

    // The account's state other than records. No schema can declare these collections.
    private func system(_ account: Identifier, _ loaded: Loaded) -> [FeedPage.Entry] {
        var entries: [FeedPage.Entry] = []
        let id = RecordID(account)
        if let row = loaded.balance(account) {
            let json = Array(encoder.json(row).utf8)
            entries.append(.init(system: "$balance", id, seq: row.seq, json))
        }
        guard let row = loaded.account(account) else { return entries }
        let account = row.profile(at: clock.now())
        let profile = ResponseEncoder.encode(account)
        entries.append(.init(system: "$account", id, seq: row.seq, profile))
        for quota in quota.all(of: account, loaded) {
            guard let id = try? RecordID(derivedFrom: quota.name) else { continue }
            // A quota that was never used changes only with the profile: with its plan or zone.
            let seq = loaded.quota(row.id, name: quota.name)?.seq ?? row.seq
            let json = ResponseEncoder.encode(quota)
            entries.append(.init(system: "$quotas", id, seq: seq, json))
        }
        return entries
    }

    /// The size of values in bytes after which a page begins no further operation: 1 MiB.
    ///
    /// The last operation may change 100 records of 64 KiB each, and clients still accept such a
    /// page.
    static let pageBytes = 1 << 20

    var sync: SyncCommands {
        SyncCommands(
            settings: settings,
            now: clock.now(),
            incomplete: incompleteIndexes.all
        )
    }
}
