import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// The records' half of a Sanguine server, small enough to see through: one account for each epoch
/// of a ``TestAuthorizer``.
///
/// It runs the same mutators as the client, does each operation once, and numbers each change.
final class TinyServer: Sendable {
    struct Row {
        var seq: Int64
        var value: RecordValue?
    }

    struct Account: RecordSource {
        var rows: [RecordKey: Row] = [:]
        var head: Int64 = 0
        var results: [Identifier: PushResult] = [:]
        /// The operations in the order in which they were done, each as often as it was.
        var done: [Identifier] = []
        /// Before that number deletions are forgotten.
        var horizon: Int64 = 0
        /// The operations whose pushes cannot be read.
        var poison: Set<Identifier> = []

        func record(_ key: RecordKey) -> SourcedRecord? {
            rows[key]?.value.map { SourcedRecord($0) }
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

        mutating func put(_ value: RecordValue?, for key: RecordKey) {
            head += 1
            rows[key] = Row(seq: head, value: value)
        }
    }

    private let accounts = Mutex<[String: Account]>([:])
    private let schema: RecordSchema

    init(schema: RecordSchema = .counters) { self.schema = schema }

    /// The network that leads to it.
    func network() -> ScriptedTransport {
        ScriptedTransport { [self] request in answer(request) }
    }

    /// Looks at, or changes, an account: as another device does.
    @discardableResult
    func with<Value: Sendable>(
        account: Int = 0,
        _ body: (inout Account) -> Value
    ) -> Value {
        accounts.withLock { body(&$0["token-\(account)", default: Account()]) }
    }

    func count(_ id: String, account: Int = 0) -> Int64? {
        with(account: account) { $0.rows[.counter(id)]?.value?["count"]?.integer }
    }

    func set(_ id: String, to count: Int64, account: Int = 0) {
        let value = RecordValue(["count": .integer(count)])
        with(account: account) { $0.put(value, for: .counter(id)) }
    }

    private func answer(_ request: TransportRequest) -> ScriptedTransport.Answer {
        let token = request.headers["Authorization"]?.dropFirst("Bearer ".count) ?? ""
        let account = token.split(separator: "-").prefix(2).joined(separator: "-")
        switch request.url.path() {
        case "/v1/sync/push":
            let push = try? WireCoding.decode(PushRequest.self, from: request.body ?? Data())
            guard let push else { return .status(400) }
            return accounts.withLock { accounts in
                var state = accounts[account, default: Account()]
                guard state.poison.isDisjoint(with: push.operations.map(\.id)) else {
                    return .status(400)
                }
                let results = push.operations.map { perform($0, &state) }
                accounts[account] = state
                return .json(PushAnswer(results: results, head: state.head))
            }
        case "/v1/sync/pull":
            return accounts.withLock { .json(pull(request, $0[account, default: Account()])) }
        default:
            return .status(404)
        }
    }

    private func perform(_ operation: PushedOperation, _ state: inout Account) -> PushResult {
        if var result = state.results[operation.id] {
            if result.status == .applied { result.status = .replayed }
            return result
        }
        let result = run(operation, &state)
        state.results[operation.id] = result
        return result
    }

    private func run(_ operation: PushedOperation, _ state: inout Account) -> PushResult {
        do {
            let json = try JSONEncoder().encode(operation.arguments)
            guard let type = schema.mutator(operation.mutator) else {
                throw Refusal(.mutatorUnknown, "Declare it.")
            }
            let mutator = try JSONDecoder().decode(type, from: json)
            let context = OperationContext(id: operation.id)
            var records = Records(from: state, schema: schema, operation: context)
            try records.run(mutator)
            for (key, value) in records.changes.sorted(by: { $0.key < $1.key }) {
                state.put(value, for: key)
            }
            state.done.append(operation.id)
            return PushResult(id: operation.id, status: .applied, head: state.head)
        } catch {
            let refusal = error as? Refusal ?? Refusal(.mutatorFailed, "\(error)")
            return PushResult(id: operation.id, status: .refused, problem: refusal.problem)
        }
    }

    private func pull(_ request: TransportRequest, _ state: Account) -> PullAnswer {
        let items = URLComponents(url: request.url, resolvingAgainstBaseURL: false)?.queryItems
        let query = Dictionary((items ?? []).map { ($0.name, $0.value ?? "") }) { $1 }
        var since = Int64(query["since"] ?? "") ?? 0
        let limit = Int(query["limit"] ?? "") ?? 100
        let isReset = since > 0 && since < state.horizon
        if isReset { since = 0 }
        let all = state.rows.filter { $0.value.seq > since && (since > 0 || $0.value.value != nil) }
            .sorted { $0.value.seq < $1.value.seq }
        let page = all.prefix(limit)
        let hasMore = page.count < all.count
        let asked = query["operations"].map { text in
            text.split(separator: ",").compactMap { Identifier($0) }
        }
        return PullAnswer(
            changes: page.map { key, row in
                RecordChange(
                    collection: key.collection,
                    id: key.id,
                    seq: row.seq,
                    deleted: row.value == nil,
                    value: row.value.flatMap { try? .object($0.fields()) }
                )
            },
            next: hasMore ? page.last?.value.seq ?? state.head : state.head,
            head: state.head,
            hasMore: hasMore,
            reset: isReset,
            operations: asked?.map { state.results[$0] ?? PushResult(id: $0, status: .unknown) }
        )
    }
}

/// What the tests count.
struct Counter: Record {
    static let collection = RecordCollection("counters", indexes: ["group"])
    static let byGroup = RecordIndex<Counter, String>("group")
    let id: RecordID
    var count: Int64
    var group: String?
}

/// Counts, in a lane of its own if it is given one; refused past a limit.
struct Count: Mutator {
    static let name = "counter.count"
    let id: RecordID
    var by: Int64 = 1
    var limit: Int64 = .max
    var line = "main"
    var group: String?

    var lane: String { line }

    func apply(to records: inout Records) throws {
        var counter = records.get(Counter.self, id) ?? Counter(id: id, count: 0)
        counter.count += by
        counter.group = group ?? counter.group
        guard counter.count <= limit else { throw Refusal(.invalidContent, "Count less.") }
        records.set(counter)
    }
}

/// Copies a counter under an id of the app's own.
struct CopyCounter: Mutator {
    static let name = "counter.copy"
    let from: RecordID
    let to: RecordID

    func apply(to records: inout Records) throws {
        guard let counter = records.get(Counter.self, from) else {
            throw Refusal(.notFound, "Count first.")
        }
        records.set(Counter(id: to, count: counter.count, group: counter.group))
    }
}

extension RecordSchema {
    static let counters = RecordSchema(
        collections: [Counter.collection, RecordCollection("notes")],
        mutators: [Count.self, CopyCounter.self, MoveOne.self]
    )
}

extension RecordID {
    // Ids in tests are literals.
    static func of(_ text: String) -> RecordID {
        RecordID(text) ?? RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
    }
}

extension RecordKey {
    static func counter(_ id: String) -> RecordKey { RecordKey("counters", .of(id)) }
}
