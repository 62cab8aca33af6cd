package import SanguineModel

/// The contract in a hundred lines, with which the real authority is compared.
package struct ModelAuthority: SimulatedAuthority {
    fileprivate struct Row {
        var seq: Int64
        var through: Int64
        var value: RecordValue?
    }

    fileprivate struct Ledger {
        var head: Int64 = 0
        var horizon: Int64 = 0
        var rows: [RecordKey: Row] = [:]
        var results: [Identifier: PushResult] = [:]
    }

    private struct Source: RecordSource {
        let rows: [RecordKey: Row]

        func record(_ key: RecordKey) -> SourcedRecord? { rows[key]?.value.map { .init($0) } }

        func ids(
            in collection: String,
            where field: String,
            is value: JSONValue,
            limit: Int
        )
            -> [RecordID]
        {
            rows.filter { $0.key.collection == collection && $0.value.value?[field] == value }
                .map(\.key.id).sorted().prefix(limit).map { $0 }
        }
    }

    /// All data of the model at one moment.
    package struct Copy {
        fileprivate let ledgers: [Identifier: Ledger]
    }

    private let schema: RecordSchema
    private var ledgers: [Identifier: Ledger] = [:]
    private var unknown: Set<String> = []
    /// The number of times that a copy was restored.
    private var restores = 0

    package init(schema: RecordSchema) { self.schema = schema }

    package var epoch: Epoch? { Epoch("model-\(restores)") }

    package mutating func account(_ number: Int) -> Identifier {
        Identifier(at: Timestamp(millisecondsSince1970: Int64(number)))
    }

    package mutating func push(
        _ request: PushRequest,
        account: Identifier
    ) throws(Problem) -> PushAnswer {
        var ledger = ledgers[account] ?? Ledger()
        var results: [PushResult] = []
        var waiting: Set<String> = []
        for operation in request.operations.sorted(by: { $0.sequence < $1.sequence }) {
            if var known = ledger.results[operation.id] {
                if known.status == .applied { known.status = .replayed }
                results.append(known)
                continue
            }
            guard !waiting.contains(operation.lane) else {
                results.append(PushResult(id: operation.id, status: .unknown))
                continue
            }
            let result = perform(operation, in: &ledger)
            if result.problem?.code.awaitsDeployment == true {
                waiting.insert(operation.lane)
            } else {
                ledger.results[operation.id] = result
            }
            results.append(result)
        }
        ledgers[account] = ledger
        return PushAnswer(results: results, head: ledger.head)
    }

    private func perform(_ operation: PushedOperation, in ledger: inout Ledger) -> PushResult {
        do {
            guard !unknown.contains(operation.mutator),
                let type = schema.mutation(operation.mutator)
            else {
                throw Refusal(.mutatorUnknown, "Name a mutation that the schema has.")
            }
            var records = Records(
                from: Source(rows: ledger.rows),
                schema: schema,
                operation: OperationContext(id: operation.id)
            )
            let mutation: any RecordMutation = try StoredForm.arguments.decode(
                type,
                from: operation.arguments
            )
            try records.run(mutation)
            let through = ledger.head + Int64(records.changes.count)
            for (key, value) in records.changes.sorted(by: { $0.key < $1.key }) {
                ledger.head += 1
                ledger.rows[key] = Row(seq: ledger.head, through: through, value: value)
            }
            return PushResult(id: operation.id, status: .applied, head: ledger.head)
        } catch {
            let refusal = error as? Refusal ?? Refusal(.invalidContent, "\(error)")
            return PushResult(id: operation.id, status: .refused, problem: refusal.problem)
        }
    }

    package func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        epoch: Epoch?,
        operations: [Identifier]
    ) throws(Problem) -> PullAnswer {
        let ledger = ledgers[account] ?? Ledger()
        let missed = since > 0 && since < ledger.horizon && horizon < ledger.horizon
        let isOther = epoch.map { $0 != self.epoch } ?? false
        let reset = missed || since > ledger.head || isOther
        let start = reset ? 0 : since
        let newer = ledger.rows.filter { $0.value.seq > start }.sorted {
            $0.value.seq < $1.value.seq
        }
        var page = Array(newer.prefix(limit))
        while page.count < newer.count, let last = page.last,
            newer[page.count].value.seq <= last.value.through
        {
            page.append(newer[page.count])
        }
        let hasMore = page.count < newer.count
        return PullAnswer(
            changes: try page.map { key, row throws(Problem) in
                RecordChange(
                    collection: key.collection,
                    id: key.id,
                    seq: row.seq,
                    through: row.through,
                    deleted: row.value == nil,
                    value: try row.value.map { value throws(Problem) in
                        do {
                            return JSONValue.object(try value.fields())
                        } catch {
                            throw Problem(.internalFault, "\(error)")
                        }
                    }
                )
            },
            next: hasMore ? page.last?.value.through ?? start : ledger.head,
            head: ledger.head,
            hasMore: hasMore,
            reset: reset,
            horizon: ledger.horizon,
            epoch: self.epoch,
            operations: operations.map { id in
                var result = ledger.results[id] ?? PushResult(id: id, status: .unknown)
                if result.status == .replayed { result.status = .applied }
                return result
            }
        )
    }

    package mutating func setUnknown(_ names: Set<String>) { unknown = names }

    package func copy() -> Copy { Copy(ledgers: ledgers) }

    package mutating func restore(_ copy: Copy) {
        ledgers = copy.ledgers
        restores += 1
    }

    package mutating func sweep() {
        for account in ledgers.keys {
            guard var ledger = ledgers[account] else { continue }
            let dead = ledger.rows.filter { $0.value.value == nil }
            for (key, row) in dead {
                ledger.horizon = max(ledger.horizon, row.seq)
                ledger.rows[key] = nil
            }
            ledgers[account] = ledger
        }
    }

    package func records(of account: Identifier) -> [RecordKey: RecordValue] {
        (ledgers[account]?.rows ?? [:]).compactMapValues(\.value)
    }
}
