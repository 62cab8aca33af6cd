import SanguineModel

/// One account's records and operations: the contract of the feed, small enough to see through.
///
/// Invariants:
///
/// 1. No two records have one number, and none has one beyond `head`.
/// 2. An operation is done once, and its answer stays the same.
struct AccountLedger: Sendable {
    struct Row: Sendable {
        var seq: Int64
        /// The number at which all that was changed together with it is contained.
        var through: Int64
        /// `nil` for a record that was deleted.
        var value: RecordValue?
    }

    private struct Known: Sendable {
        let operation: PushedOperation
        let result: PushResult
    }

    private(set) var rows: [RecordKey: Row] = [:]
    /// The newest number of the feed.
    private(set) var head: Int64 = 0
    /// Up to where deletions are forgotten.
    private(set) var horizon: Int64 = 0
    /// The operations that were done, in their order, each as often as it was.
    private(set) var operations: [PushedOperation] = []
    private var known: [Identifier: Known] = [:]

    /// Whether it remembers no more.
    var isFull: Bool {
        known.count >= TestingLimits.operations || rows.count >= TestingLimits.records
    }

    /// The records that are not deleted.
    var values: [RecordKey: RecordValue] { rows.compactMapValues(\.value) }

    // MARK: - Changing

    /// Changes records together: `nil` deletes.
    mutating func apply(_ changes: [RecordKey: RecordValue?]) {
        let through = head + Int64(changes.count)
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) {
            head += 1
            rows[key] = Row(seq: head, through: through, value: value)
        }
        assert(head == through)
    }

    /// Takes a number that no record has: something else of the account has changed.
    mutating func advance() { head += 1 }

    /// Forgets the deletions up to a number: readers who know less begin afresh.
    mutating func forgetDeletions(through number: Int64) {
        horizon = max(horizon, min(number, head))
        rows = rows.filter { $0.value.value != nil || $0.value.seq > horizon }
    }

    // MARK: - Operations

    /// What became of an operation; `nil` if it was never seen.
    func result(of id: Identifier) -> PushResult? { known[id]?.result }

    /// Does an operation, unless it was decided before.
    ///
    /// - Parameters:
    ///   - operation: What was pushed.
    ///   - schema: The collections and mutators.
    ///   - others: What the account can see of others' records.
    ///   - refusal: Why it is not to be done; `nil` lets the mutator decide.
    /// - Returns: What became of it.
    mutating func perform(
        _ operation: PushedOperation,
        schema: RecordSchema,
        others: [RecordKey: RecordValue],
        refusal: Refusal?
    ) -> PushResult {
        if let known = known[operation.id] { return Self.replay(known, operation) }
        let result: PushResult
        do {
            if let refusal { throw refusal }
            apply(try changes(by: operation, schema, others))
            operations.append(operation)
            result = PushResult(id: operation.id, status: .applied, head: head)
        } catch {
            let refusal = error as? Refusal ?? Refusal(.mutatorFailed, "\(error)")
            result = PushResult(id: operation.id, status: .refused, problem: refusal.problem)
        }
        known[operation.id] = Known(operation: operation, result: result)
        return result
    }

    private static func replay(_ known: Known, _ operation: PushedOperation) -> PushResult {
        let first = known.operation
        guard first.mutator == operation.mutator, first.arguments == operation.arguments else {
            let problem = Problem(
                .idempotencyMismatch,
                "Choose a new id: this one was used for an operation with other content."
            )
            return PushResult(id: operation.id, status: .refused, problem: problem)
        }
        var result = known.result
        if result.status == .applied { result.status = .replayed }
        return result
    }

    /// What an operation changes, without what would stay the same.
    private func changes(
        by operation: PushedOperation,
        _ schema: RecordSchema,
        _ others: [RecordKey: RecordValue]
    ) throws -> [RecordKey: RecordValue?] {
        guard let type = schema.mutator(operation.mutator) else {
            throw Refusal(.mutatorUnknown, "Declare the mutator in the authority's schema.")
        }
        guard let mutator = try? operation.arguments.decoded(as: type) else {
            throw Refusal(.invalidContent, "Set 'arguments' to the members of the mutator.")
        }
        return try changes(schema, others, id: operation.id) { try $0.run(mutator) }
    }

    /// What a body changes, without what would stay the same.
    func changes(
        _ schema: RecordSchema,
        _ others: [RecordKey: RecordValue],
        id: Identifier,
        _ body: (inout Records) throws -> Void
    ) throws -> [RecordKey: RecordValue?] {
        var records = Records(
            from: Source(rows: rows, others: others),
            schema: schema,
            operation: OperationContext(id: id)
        )
        try body(&records)
        if let failure = records.failure { throw failure }
        for value in records.changes.values.compactMap({ $0 }) {
            guard try value.json().count <= WireLimits.recordBytes else {
                throw Refusal(.recordTooLarge, "Keep a record within 64 KiB of JSON.")
            }
        }
        return records.changes.filter { key, value in value != rows[key]?.value }
    }

    private struct Source: RecordSource {
        let rows: [RecordKey: Row]
        let others: [RecordKey: RecordValue]

        func record(_ key: RecordKey) -> SourcedRecord? {
            rows[key]?.value.map { SourcedRecord($0) }
                ?? others[key].map { SourcedRecord($0, isOwn: false) }
        }

        func ids(
            in collection: String,
            where field: String,
            is value: JSONValue,
            limit: Int
        ) -> [RecordID] {
            let found = rows.filter {
                $0.key.collection == collection && $0.value.value?[field] == value
            }
            return Array(found.keys.map(\.id).sorted().prefix(limit))
        }
    }

    // MARK: - The feed

    /// What a reader of the feed asks.
    struct Question {
        var since: Int64 = 0
        var limit = WireLimits.defaultPull
        /// The horizon that the reader was told last.
        var horizon: Int64?
        var operations: [Identifier]?
    }

    /// A part of the feed; an operation's changes are never parted.
    func page(_ question: Question) -> PullAnswer {
        let since = max(0, question.since)
        let missed = since > 0 && since < horizon && question.horizon ?? 0 < horizon
        let isReset = missed || since > head
        let start = isReset ? 0 : since
        // A reader that says nothing of the horizon would begin again and again before it.
        let least = start == 0 && question.horizon == nil ? horizon : 0
        let newer = rows.filter { $0.value.seq > start && (start > 0 || $0.value.value != nil) }
            .sorted { $0.value.seq < $1.value.seq }
        var page = Array(newer.prefix(max(1, question.limit)))
        while page.count < newer.count, let last = page.last,
            newer[page.count].value.seq <= max(last.value.through, least)
        {
            page.append(newer[page.count])
        }
        let hasMore = page.count < newer.count
        return PullAnswer(
            changes: page.map { RecordChange($0.key, $0.value) },
            next: hasMore ? max(page.last?.value.through ?? 0, least) : head,
            head: head,
            hasMore: hasMore,
            reset: isReset,
            horizon: horizon > 0 ? horizon : nil,
            operations: question.operations?.map { id in
                result(of: id) ?? PushResult(id: id, status: .unknown)
            }
        )
    }
}

extension RecordChange {
    fileprivate init(_ key: RecordKey, _ row: AccountLedger.Row) {
        self.init(
            collection: key.collection,
            id: key.id,
            seq: row.seq,
            through: row.through == row.seq ? nil : row.through,
            deleted: row.value == nil,
            value: row.value.flatMap { try? .object($0.fields()) }
        )
    }
}
