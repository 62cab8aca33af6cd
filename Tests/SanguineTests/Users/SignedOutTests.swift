import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Observing and reading after a sign-out do not sign in again.
@MainActor
@Suite("Signed out", .bounded)
struct SignedOutTests {
    private let authority = InMemoryAuthority(schema: .counters)
    private let network: FaultyNetwork
    private let device: TestDevice

    private static let mark = "of-ada"

    init() {
        let network = FaultyNetwork(authority, seed: 1, clock: ManualClock())
        self.network = network
        device = TestDevice(network: network) {
            $0.schema = .counters
            $0.logger = .silent
            $0.balancePolling = .seconds(30)
            $0.recordPolling = .seconds(30)
        }
    }

    /// The number of the last request that reached the network.
    private var requests: Int { network.events.map(\.number).max() ?? 0 }

    private var guests: Int {
        network.events.count { $0.request == "POST /v1/accounts/guest" }
    }

    /// Returns a client on disk with a record.
    private func clientWithRecord() async throws -> SanguineClient {
        let client = try device.launch()
        _ = try await client.value(of: .balance)
        let record = Counter(id: .of(Self.mark), count: 1, group: Self.mark)
        authority.set(record, of: client.accountId)
        try await client.synchronize()
        #expect(client.record(Counter.self, record.id)?.count == 1)
        #expect(try !device.files(with: Self.mark).isEmpty)
        return client
    }

    /// Triggers everything that may make the client fetch observed data.
    private func stir(_ client: SanguineClient) async throws {
        client.invalidateAll()
        device.lifecycle.enterBackground()
        device.lifecycle.enterForeground()
        device.connectivity.disconnect()
        device.connectivity.connect()
        device.clock.advance(by: .hours(25))
        device.delay.advance(by: .minutes(10))
        try await client.waitUntilIdle()
    }

    @Test func `observed data is neither fetched nor stored after a sign-out`() async throws {
        let client = try await clientWithRecord()
        let records = client.model(RecordQuery.all(Counter.self))
        let balance = client.model(.balance)
        let quotas = client.model(.quotas)
        let updates = client.updates(of: RecordQuery.all(Counter.self))
        let balances = client.updates(of: .balance)
        let following = client.observe(.account) { _ in }
        try await eventually("the feed is live") { client.users.current.feed.isLive }
        await client.signOut()
        let before = requests
        try await stir(client)
        #expect(requests == before && client.accountId == nil)
        #expect(try device.files(with: Self.mark).isEmpty)
        #expect(records.value.isEmpty && balance.value == nil && quotas.value == nil)
        #expect(balance.error == nil)
        withExtendedLifetime((updates, balances, following)) {}
    }

    @Test func `observing and reading after a sign-out send no request`() async throws {
        let client = try await clientWithRecord()
        await client.signOut()
        let before = requests
        let records = client.model(RecordQuery.all(Counter.self))
        let balance = client.model(.balance)
        let quotas = client.model(.quotas)
        let account = client.model(.account)
        let updates = client.updates(of: RecordQuery.all(Counter.self))
        #expect(client.records(Counter.self).isEmpty && client.cached(.balance) == nil)
        #expect(client.record(Counter.self, .of(Self.mark)) == nil)
        #expect(client.outbox.pending.isEmpty && client.openCalls.isEmpty)
        client.prefetch(.balance)
        try await stir(client)
        #expect(requests == before && client.accountId == nil)
        #expect(try device.files(with: Self.mark).isEmpty)
        #expect(balance.error == nil && balance.value == nil && account.value == nil)
        withExtendedLifetime((records, quotas, updates)) {}
    }

    @Test func `a restart after a sign-out does not sign in either`() async throws {
        var client = try await clientWithRecord()
        await client.signOut()
        client = try device.launch()
        let before = requests
        let models = (client.model(RecordQuery.all(Counter.self)), client.model(.balance))
        try await stir(client)
        #expect(requests == before && client.accountId == nil)
        #expect(try device.files(with: Self.mark).isEmpty)
        withExtendedLifetime(models) {}
    }

    @Test func `observing after erasing local data does not sign in either`() async throws {
        let client = try await clientWithRecord()
        let models = (client.model(RecordQuery.all(Counter.self)), client.model(.balance))
        try await client.eraseLocalData()
        let before = requests
        try await stir(client)
        #expect(requests == before && client.accountId == nil)
        #expect(try device.files(with: Self.mark).isEmpty)
        withExtendedLifetime(models) {}
    }

    enum Intent: CaseIterable, Sendable {
        case perform
        case call
        case stream
        case value
        case refresh
        case records
        case synchronize
    }

    @Test(arguments: Intent.allCases)
    func `an explicit request signs in as a guest, and observers follow`(
        _ intent: Intent
    ) async throws {
        authority.serve(Ask.self) { _ in "because" }
        let client = try await clientWithRecord()
        let records = client.model(RecordQuery.all(Counter.self))
        let quotas = client.model(.quotas)
        let balance = client.model(.balance)
        await client.signOut()
        try await stir(client)
        #expect(guests == 1)
        switch intent {
        case .perform: try client.perform(Count(id: .of("b")))
        case .call: _ = try await client.call(Ask(question: "why?"))
        case .stream: _ = try client.stream(Ask(question: "why?"))
        case .value: _ = try await client.value(of: .balance)
        case .refresh: _ = try await client.refresh(.quotas)
        case .records: _ = try await client.value(of: RecordQuery.all(Counter.self))
        case .synchronize: try await client.synchronize()
        }
        try await eventually("the records are loaded") {
            records.value.contains { $0.id == .of(Self.mark) }
        }
        try await eventually("the balance and the quotas are loaded") {
            balance.value != nil && quotas.value != nil
        }
        #expect(guests == 2)
    }

    @Test func `operations performed after a sign-out are sent after a restart`() async throws {
        var client = try await clientWithRecord()
        let account = client.accountId
        await client.signOut()
        network.partition()
        device.connectivity.disconnect()
        try client.perform(Count(id: .of("b")))
        client = try device.launch()
        network.heal()
        device.connectivity.connect()
        try await eventually("the operation is sent") {
            device.delay.advance(by: .seconds(1))
            return authority.record(Counter.self, .of("b"), of: account)?.count == 1
        }
        #expect(client.accountId == account)
    }
}
