public import SanguineModel

extension Authority {
    /// Decides operations that a device sends, all in one commit.
    ///
    /// Each takes effect once, however often it is sent.
    ///
    /// - Returns: What became of each, in the order of the request.
    /// - Throws: `not_found` if the account is gone, `invalid_content` if the request is none that
    ///   a device may send. A refused operation is no error, but a result.
    public func push(
        _ account: Identifier,
        _ request: PushRequest
    ) async throws(Problem) -> PushAnswer {
        try await push(account, .success(request))
    }

    /// Refuses an operation before its record mutation is asked; `nil` leaves it to the record
    /// mutation.
    package typealias PushJudge = @Sendable (PushedOperation) -> Refusal?

    /// As ``push(_:_:)-``, for a request that may be a refusal already: an account that is gone is
    /// refused before content is judged.
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

    /// What a reader of the feed asks for.
    public struct PullRequest: Hashable, Sendable {
        /// The number up to which the reader has everything; 0 at first.
        public var since: Int64
        /// How many changes; clamped to 1 up to ``WireLimits/largestPull``.
        ///
        /// Default: 100.
        public var limit: Int?
        /// The ``PullAnswer/horizon`` that the reader was told last.
        public var horizon: Int64?
        /// The ``PullAnswer/epoch`` that the reader was told last; `nil` if it does not say.
        ///
        /// Another one than the storage's leads to a reset.
        public var epoch: Epoch?
        /// Operations of which to say what became of them, at most ``WireLimits/operationsAsked``;
        /// `nil` for no question.
        public var operations: [Identifier]?

        /// Creates the request.
        public init(
            since: Int64,
            limit: Int? = nil,
            horizon: Int64? = nil,
            epoch: Epoch? = nil,
            operations: [Identifier]? = nil
        ) {
            self.since = since
            self.limit = limit
            self.horizon = horizon
            self.epoch = epoch
            self.operations = operations
        }
    }

    /// Reads a part of the account's feed.
    ///
    /// An operation's changes are never parted, so a page may be longer than its limit; it may be
    /// shorter if its records are large.
    ///
    /// - Throws: `not_found` if the account is gone, `malformed_request` for too many operations.
    public func pull(
        _ account: Identifier,
        _ request: PullRequest
    ) async throws(Problem) -> PullAnswer {
        try await page(account, request).answer()
    }

    /// The answer of ``pull(_:_:)`` as JSON, in which no value is read and written again.
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
            if try read.take(slice) { return try page(slice, read) }
        }
    }

    /// The read that a reader's question leads to.
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

    /// The page that the last slice of a read makes.
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

    // What the account can see beside its records, each in a collection that none can declare.
    private func system(_ account: Identifier, _ loaded: Loaded) -> [FeedPage.Entry] {
        var entries: [FeedPage.Entry] = []
        let id = RecordID(account)
        if let row = loaded.balance(account) {
            let json = Array(encoder.json(row).utf8)
            entries.append(.init(system: "$balance", id, seq: row.seq, json))
        }
        guard let row = loaded.account(account) else { return entries }
        let profile = AnswerEncoder.encode(row.profile)
        entries.append(.init(system: "$account", id, seq: row.seq, profile))
        for quota in quota.all(of: row.profile, loaded) {
            // One that was never used has no number.
            guard let used = loaded.quota(account, name: quota.name),
                let id = try? RecordID(derivedFrom: quota.name)
            else { continue }
            let json = AnswerEncoder.encode(quota)
            entries.append(.init(system: "$quotas", id, seq: used.seq, json))
        }
        return entries
    }

    /// After how many bytes of values no further operation is begun on a page: 1 MiB.
    ///
    /// The last one may be of 100 records of 64 KiB each, and the page is still one that clients
    /// take.
    static let pageBytes = 1 << 20

    var sync: SyncCommands {
        SyncCommands(
            settings: settings,
            now: clock.now(),
            incomplete: incompleteIndexes.all
        )
    }
}
