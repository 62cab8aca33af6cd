import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Data that the feed carries besides records updates the entries that it concerns.
@Suite("Entries updated by the feed", .bounded)
struct CarriedEntryTests {
    private let authority: InMemoryAuthority
    private let network: CountedNetwork

    init() {
        authority = InMemoryAuthority()
        network = CountedNetwork(authority)
    }

    /// Returns a client that observes the query live, and the values that it has shown.
    private func follow<Value>(
        _ query: ValueQuery<Value>
    ) async throws -> (SanguineClient, ObservationToken, WatchedState<[Value]>) {
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = network
        configuration.logger = .silent
        configuration.recordPolling = nil
        let client = try SanguineClient(configuration)
        let shown = WatchedState<[Value]>([])
        let following = client.observe(query) { state in
            if let value = state.value { shown.withLock { $0.append(value) } }
        }
        try await eventually("a first value") { !shown.value.isEmpty }
        try await eventually("a live connection") { authority.streamCount == 1 }
        // The first value may come from the feed while the first fetch is still in flight.
        try await eventually("the end of the first fetch") {
            !client.snapshot(of: query).isFetching
        }
        return (client, following, shown)
    }

    @Test func `another device's spending is shown without a request`() async throws {
        let (client, following, shown) = try await follow(.balance)
        defer { client.close() }
        let before = network.count("/v1/balance")
        authority.grant(50)
        try await eventually("the grant") { shown.value.last?.available == 150 }
        try authority.spend(20)
        try await eventually("the spending") { shown.value.last?.available == 130 }
        #expect(network.count("/v1/balance") == before)
        #expect(client.cached(.balance)?.available == 130)
        withExtendedLifetime(following) {}
    }

    @Test func `a new plan is shown without a request`() async throws {
        let (client, following, shown) = try await follow(.account)
        defer { client.close() }
        let before = network.count("/v1/account")
        authority.setPlan(.premium)
        try await eventually("the plan") { shown.value.last?.plan == .premium }
        #expect(network.count("/v1/account") == before)
        withExtendedLifetime(following) {}
    }

    @Test func `a late change does not undo a newer one`() async throws {
        let (client, following, _) = try await follow(.account)
        defer { client.close() }
        let account = try #require(client.cached(.account))
        let carrier = FeedCacheUpdater(
            balance: client.balance,
            cacheScope: client.queries.entries.user,
            queries: client.queries
        )
        for (seq, plan) in [(12, .premium), (11, .free)] as [(Int64, Account.Plan)] {
            var account = account
            account.plan = plan
            let value = try WireCoding.decode(JSONValue.self, from: try WireCoding.encode(account))
            carrier.apply(
                RecordChange(collection: "$account", id: .of("x"), seq: seq, value: value)
            )
        }
        #expect(client.cached(.account)?.plan == .premium)
        withExtendedLifetime(following) {}
    }

    @Test func `observing after a sign-out does not sign in`() async throws {
        let (client, following, _) = try await follow(.balance)
        defer { client.close() }
        let before = network.count("/v1/accounts/guest")
        await client.signOut()
        #expect(!client.users.current.feed.isActive && client.accountId == nil)
        #expect(network.count("/v1/accounts/guest") == before)
        withExtendedLifetime(following) {}
    }

    @Test func `data from the feed is not shown to the next user`() async throws {
        let (client, following, shown) = try await follow(.balance)
        defer { client.close() }
        let carrier = FeedCacheUpdater(
            balance: client.balance,
            cacheScope: client.queries.entries.user,
            queries: client.queries
        )
        await client.signOut()
        let late = Balance(
            unit: "tokens",
            available: 7_777,
            held: 0,
            head: 99,
            asOf: Timestamp(millisecondsSince1970: 0)
        )
        let value = try WireCoding.decode(JSONValue.self, from: try WireCoding.encode(late))
        let change = RecordChange(collection: "$balance", id: .of("x"), seq: 99, value: value)
        carrier.apply(change)
        #expect(client.cached(.balance)?.available != 7_777)
        #expect(!shown.value.contains { $0.available == 7_777 })
        withExtendedLifetime(following) {}
    }
}

/// Counts requests by path and forwards them.
private final class CountedNetwork: StreamingTransport {
    private let base: InMemoryAuthority
    private let paths = Mutex<[String]>([])

    init(_ base: InMemoryAuthority) { self.base = base }

    func count(_ path: String) -> Int { paths.withLock { $0.count { $0 == path } } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        paths.withLock { $0.append(request.url.path()) }
        return try await base.send(request)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        paths.withLock { $0.append(request.url.path()) }
        return try await base.stream(request)
    }
}
