import SanguineAuthority
package import SanguineModel
import SanguineTesting

/// The decisions of the real authority, over a storage in memory.
package struct RealAuthority: SimulatedAuthority {
    private let authority: Authority
    private let clock: ManualWallClock

    package init(schema: RecordSchema) async throws {
        var settings = AuthoritySettings()
        settings.schema = schema
        clock = ManualWallClock(Timestamp(millisecondsSince1970: 1_790_000_000_000))
        authority = try await Authority(
            storage: MemoryStorage(),
            keys: Self.keys,
            settings: settings,
            clock: clock
        )
    }

    // Making keys costs more than a whole seed.
    private static let keys = SigningKeys()

    package func account(_ number: Int) async throws -> Identifier {
        let secret = String(repeating: "A", count: 42) + ["A", "E", "I", "M"][number % 4]
        let guest = GuestRequest(deviceId: "simulated-device-\(number)", deviceSecret: secret)
        return try await authority.guest(guest).signedIn.account.id
    }

    package func push(
        _ request: PushRequest,
        account: Identifier
    ) async throws -> PushAnswer {
        try await authority.push(account, request)
    }

    package func pull(
        account: Identifier,
        since: Int64,
        limit: Int,
        horizon: Int64,
        operations: [Identifier]
    ) async throws -> PullAnswer {
        let request = Authority.PullRequest(
            since: since,
            limit: limit,
            horizon: horizon,
            operations: operations
        )
        return try await authority.pull(account, request)
    }

    package func sweep() async throws {
        // Past the time for which tombstones are kept.
        clock.advance(by: .seconds(40 * 86_400))
        _ = try await authority.sweep()
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
