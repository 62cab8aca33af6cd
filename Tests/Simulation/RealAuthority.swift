import SanguineAuthority
package import SanguineModel
package import SanguineTesting

/// The decisions of the real authority, through the test kit.
package struct RealAuthority: SimulatedAuthority {
    private let server: InMemoryAuthority
    private let clock: ManualWallClock
    private var accounts: [Int: Identifier] = [:]
    private var unknown: Set<String> = []

    package init(schema: RecordSchema) {
        clock = ManualWallClock(Timestamp(millisecondsSince1970: 1_790_000_000_000))
        server = InMemoryAuthority(schema: schema, clock: clock)
    }

    package var epoch: Epoch? { server.authority.storage.epoch }

    package mutating func account(_ number: Int) -> Identifier {
        let account = accounts[number] ?? server.addAccount()
        accounts[number] = account
        return account
    }

    package func push(
        _ request: PushRequest,
        account: Identifier
    ) async throws -> PushAnswer {
        try await server.authority.push(account, .success(request)) { [unknown] operation in
            guard unknown.contains(operation.mutator) else { return nil }
            return Refusal(.mutatorUnknown, "Deploy a server that declares the mutation.")
        }
    }

    package func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        epoch: Epoch?,
        operations: [Identifier]
    ) async throws -> PullAnswer {
        let request = Authority.PullRequest(
            since: since,
            limit: limit,
            horizon: horizon,
            epoch: epoch,
            operations: operations
        )
        return try await server.authority.pull(account, request)
    }

    package mutating func setUnknown(_ names: Set<String>) { unknown = names }

    package func copy() -> InMemoryAuthority.Copy { server.copy() }

    package func restore(_ copy: InMemoryAuthority.Copy) { server.restore(copy) }

    package func sweep() async {
        // Beyond the time for which tombstones are kept.
        clock.advance(by: .seconds(40 * 86_400))
        await server.runJobs()
    }

    package func records(of account: Identifier) async throws -> [RecordKey: RecordValue] {
        var records: [RecordKey: RecordValue] = [:]
        var answer = PullAnswer(changes: [], next: 0, head: 0, hasMore: true)
        while answer.hasMore {
            answer = try await pull(
                account: account,
                since: answer.next,
                limit: WireLimits.largestPull,
                horizon: answer.horizon ?? 0,
                epoch: nil,
                operations: []
            )
            for change in answer.changes where !change.collection.hasPrefix("$") {
                guard !change.deleted, case .object(let fields) = change.value else { continue }
                records[RecordKey(change.collection, change.id)] = RecordValue(fields)
            }
        }
        return records
    }
}
