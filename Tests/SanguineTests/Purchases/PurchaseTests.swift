import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// An app that sells, a server that verifies the purchases, and a made App Store.
private struct SellingWorld {
    let store: TestAppStore
    let authority: InMemoryAuthority
    let clock = ManualWallClock()
    /// A device closes its client when it is released.
    private let devices = WatchedState<[TestDevice]>([])

    init() throws {
        store = try TestAppStore(at: clock.now())
        var settings = AuthoritySettings()
        settings.appStore = AppStoreSettings(
            bundleID: TestAppStore.bundle,
            appAppleID: TestAppStore.appleID,
            roots: [try AppStoreRoot(store.root)],
            products: ["tokens": .tokens(100), "pass": .premium(days: 30)]
        )
        authority = InMemoryAuthority(accounts: .onePerDevice, settings: settings, clock: clock)
    }

    func device(
        seed: UInt64 = 1,
        network: (any HTTPTransport)? = nil,
        change: @escaping TestDevice.Configure = { _ in }
    ) -> TestDevice {
        let device = TestDevice(network: network ?? authority, clock: clock, seed: seed) {
            configuration in
            configuration.logger = .silent
            configuration.recordPolling = nil
            change(&configuration)
        }
        devices.withLock { $0.append(device) }
        return device
    }

    func signed(
        _ id: String,
        of product: String = "tokens",
        _ more: [String: JSONValue] = [:]
    ) throws -> String {
        try store.sign(store.transaction(id, of: product, more))
    }
}

/// A store whose transactions a test provides.
private final class ScriptedStore: PurchaseStore {
    struct State: Sendable {
        var waiting: [StoreTransaction] = []
        var finished: [String] = []
    }

    let state = WatchedState(State())
    private let (stream, later) = AsyncStream.makeStream(of: StoreTransaction.self)

    var finished: [String] { state.withLock { $0.finished } }

    func transaction(_ id: String, _ signed: String, isRevoked: Bool = false) -> StoreTransaction {
        StoreTransaction(id: id, signed: signed, isRevoked: isRevoked) { [state] in
            state.withLock { $0.finished.append(id) }
        }
    }

    func leave(_ transaction: StoreTransaction) {
        state.withLock { $0.waiting.append(transaction) }
    }

    func update(_ transaction: StoreTransaction) { later.yield(transaction) }

    func end() { later.finish() }

    func unfinished() -> AsyncStream<StoreTransaction> {
        let waiting = state.withLock { $0.waiting }
        return AsyncStream { continuation in
            for transaction in waiting { continuation.yield(transaction) }
            continuation.finish()
        }
    }

    func updates() -> AsyncStream<StoreTransaction> { stream }
}

/// Purchases reach the server once, and the balance and the plan at once.
@Suite("Purchases", .bounded)
struct PurchaseTests {
    private let world: SellingWorld

    init() throws { world = try SellingWorld() }

    @Test func `a purchase is in the balance when the call returns`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        let before = try await client.value(of: .balance).available
        let answer = try await client.purchases.credit(signedTransaction: world.signed("1"))
        #expect(answer.credited == 100 && answer.balance.available == before + 100)
        #expect(client.cached(.balance)?.available == before + 100)
    }

    @Test func `a purchase creates the guest that it belongs to`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        #expect(client.accountId == nil)
        let answer = try await client.purchases.credit(signedTransaction: world.signed("1"))
        let account = try #require(client.accountId)
        #expect(world.authority.balance(of: account).available == answer.balance.available)
    }

    @Test func `a purchased plan is visible when the call returns`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        let answer = try await client.purchases.credit(
            signedTransaction: world.signed("1", of: "pass")
        )
        #expect(answer.plan == .premium && client.account.current.plan == .premium)
    }

    @Test func `a purchase that is sent twice is credited once`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        let signed = try world.signed("1")
        let first = try await client.purchases.credit(signedTransaction: signed)
        let second = try await client.purchases.credit(signedTransaction: signed)
        #expect(first.balance.available == second.balance.available && second.credited == 100)
    }

    @Test func `a purchase during a call is shown without the call's charge twice`() async throws {
        let world = world
        let stopped = WatchedState(true)
        world.authority.serve(SlowAsk.self, price: 3) { _ in
            try await eventually("the test lets the call end") { !stopped.value }
            return "done"
        }
        let client = try world.device().launch()
        defer { client.close() }
        let before = try await client.value(of: .balance).available
        async let call = client.call(SlowAsk(input: "why"))
        try await eventually("the hold is shown") { client.cached(.balance)?.held == 3 }
        _ = try await client.purchases.credit(signedTransaction: world.signed("1"))
        #expect(client.cached(.balance)?.available == before + 97)
        stopped.withLock { $0 = false }
        _ = try await call
        #expect(try await client.refresh(.balance).available == before + 97)
    }

    @Test func `a purchase without a network survives a kill and is credited later`()
        async throws
    {
        let device = world.device()
        var client = try device.launch()
        let before = try await client.value(of: .balance).available
        device.connectivity.disconnect()
        let signed = try world.signed("1")
        let purchases = client.purchases
        let waiting = Task { try await purchases.credit(signedTransaction: signed) }
        try await eventually("the purchase waits") { client.outbox.pending.count == 1 }
        try device.kill()
        await #expect(throws: SanguineError.self) { try await waiting.finished() }
        client = try device.launch()
        defer { client.close() }
        #expect(client.outbox.pending.count == 1)
        var events = client.analytics.events().makeAsyncIterator()
        device.connectivity.connect()
        try await client.waitUntilIdle()
        #expect(try await client.refresh(.balance).available == before + 100)
        while let event = await events.next(), event != .purchased {}
    }

    @Test func `a transaction that waits is not added to the outbox again`() async throws {
        let device = world.device()
        let client = try device.launch()
        defer { client.close() }
        _ = try await client.value(of: .balance)
        device.connectivity.disconnect()
        let (signed, purchases) = (try world.signed("1"), client.purchases)
        let first = Task { try await purchases.credit(signedTransaction: signed) }
        try await eventually("the purchase waits") { client.outbox.pending.count == 1 }
        let second = Task { try await purchases.credit(signedTransaction: signed) }
        device.connectivity.connect()
        #expect(try await first.finished().balance == second.finished().balance)
    }

    @Test func `a purchase with a false signature is refused and leaves no operation`()
        async throws
    {
        let client = try world.device().launch()
        defer { client.close() }
        let other = try TestAppStore(at: world.clock.now())
        let forged = try other.sign(other.transaction("1", of: "tokens"))
        let error = await #expect(throws: SanguineError.self) {
            try await client.purchases.credit(signedTransaction: forged)
        }
        #expect(error?.code == "purchase_invalid")
        #expect(client.outbox.refused.isEmpty && client.outbox.pending.isEmpty)
    }

    @Test func `a text that is no transaction is refused without a request`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        let error = await #expect(throws: SanguineError.self) {
            try await client.purchases.credit(signedTransaction: "a.b")
        }
        #expect(error?.code == "purchase_invalid" && client.accountId == nil)
    }

    @Test func `the news of a refund is not answered with the purchase`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        let before = try await client.value(of: .balance).available
        _ = try await client.purchases.credit(signedTransaction: world.signed("1"))
        let later = (world.clock.now() + .seconds(1)).millisecondsSince1970
        let refund = try world.signed(
            "1",
            ["revocationDate": .integer(later), "signedDate": .integer(later)]
        )
        world.clock.advance(by: .seconds(2))
        let answer = try await client.purchases.credit(signedTransaction: refund)
        #expect(answer.balance.available == before)
    }

    @Test func `a refund is sent although its purchase waits in the outbox`() async throws {
        let device = world.device()
        let client = try device.launch()
        defer { client.close() }
        let before = try await client.value(of: .balance).available
        device.connectivity.disconnect()
        let later = (world.clock.now() + .seconds(1)).millisecondsSince1970
        let purchases = client.purchases
        let signed = [
            try world.signed("1"),
            try world.signed(
                "1",
                ["revocationDate": .integer(later), "signedDate": .integer(later)]
            ),
        ]
        var credits: [Task<PurchaseAnswer, any Error>] = []
        for (number, text) in signed.enumerated() {
            credits.append(Task { try await purchases.credit(signedTransaction: text) })
            try await eventually("operation \(number) waits") {
                client.outbox.pending.count == number + 1
            }
        }
        world.clock.advance(by: .seconds(2))
        device.connectivity.connect()
        for credit in credits { _ = try await credit.finished() }
        #expect(try await client.refresh(.balance).available == before)
    }

    @Test func `a refund of spent tokens is shown as a debt and refuses calls without a request`()
        async throws
    {
        let client = try world.device().launch()
        defer { client.close() }
        let before = try await client.value(of: .balance).available
        _ = try await client.purchases.credit(signedTransaction: world.signed("1"))
        try world.authority.spend(before + 50, of: client.accountId)
        let later = (world.clock.now() + .seconds(1)).millisecondsSince1970
        let refund = try world.signed(
            "1",
            ["revocationDate": .integer(later), "signedDate": .integer(later)]
        )
        world.clock.advance(by: .seconds(2))
        _ = try await client.purchases.credit(signedTransaction: refund)
        let shown = try #require(client.cached(.balance))
        #expect(shown.available == -50 && shown.debt == 50)
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(SlowAsk(input: "why"))
        }
        // The server has no such function, so that a request would fail in another way.
        #expect(error?.asProblem?.code == .insufficientTokens)
        #expect(client.openCalls.isEmpty)
    }
}

/// Transactions of a store, from the store to the server and back.
@Suite("Transactions of a store", .bounded)
struct TransactionFollowingTests {
    private let world: SellingWorld
    private let store = ScriptedStore()
    private let reports = WatchedState<[PurchaseReport]>([])

    init() throws { world = try SellingWorld() }

    private func follow(_ client: SanguineClient) -> Task<Void, Never> {
        let (purchases, store, reports) = (client.purchases, store, reports)
        return Task {
            await purchases.follow(store) { report in reports.withLock { $0.append(report) } }
        }
    }

    @Test func `unfinished transactions and later ones are credited and finished`()
        async throws
    {
        let client = try world.device().launch()
        defer { client.close() }
        let before = try await client.value(of: .balance).available
        store.leave(store.transaction("1", try world.signed("1")))
        let following = follow(client)
        try await eventually("the first one is finished") { store.finished == ["1"] }
        store.update(store.transaction("2", try world.signed("2")))
        try await eventually("the second one is finished") { store.finished == ["1", "2"] }
        #expect(client.cached(.balance)?.available == before + 200)
        store.end()
        try await following.finished()
    }

    @Test func `nothing is finished while the server cannot be reached`() async throws {
        let device = world.device()
        let client = try device.launch()
        defer { client.close() }
        _ = try await client.value(of: .balance)
        device.connectivity.disconnect()
        store.leave(store.transaction("1", try world.signed("1")))
        let following = follow(client)
        try await eventually("the purchase waits") { client.outbox.pending.count == 1 }
        #expect(store.finished.isEmpty)
        device.connectivity.connect()
        try await eventually("it is finished") { store.finished == ["1"] }
        following.cancel()
    }

    @Test func `a transaction of another account is finished and reported as taken`()
        async throws
    {
        let first = try world.device(seed: 1).launch()
        defer { first.close() }
        let signed = try world.signed("1")
        _ = try await first.purchases.credit(signedTransaction: signed)
        let second = try world.device(seed: 2).launch()
        defer { second.close() }
        store.leave(store.transaction("1", signed))
        let following = follow(second)
        try await eventually("it is reported") { reports.value == [.taken(transaction: "1")] }
        #expect(store.finished == ["1"])
        following.cancel()
    }

    @Test func `a refused transaction stays in the store and stops no other one`() async throws {
        let client = try world.device().launch()
        defer { client.close() }
        store.leave(store.transaction("1", try world.signed("1", of: "unknown")))
        store.leave(store.transaction("2", try world.signed("2")))
        let following = follow(client)
        try await eventually("both are reported") { reports.value.count == 2 }
        #expect(store.finished == ["2"])
        following.cancel()
    }
}

/// The proof of the store, by which a reinstalled app finds its guest.
@Suite("The app transaction of a guest", .bounded)
struct AppTransactionTests {
    private let world: SellingWorld

    init() throws { world = try SellingWorld() }

    private func proof() throws -> AppTransactionProof {
        let device = "7b1c6a52-21a4-4a5e-9f0c-0d8f7a6b5c4d"
        let nonce = "0b2d9d0e-6f0a-4f6e-8d52-3a1f6b7c8d9e"
        return AppTransactionProof(
            signedAppTransaction: try world.store.appTransaction("a", device: device, nonce: nonce),
            deviceVerificationId: device
        )
    }

    @Test func `a reinstalled app of the same Apple account finds its guest`() async throws {
        let proof = try proof()
        let first = try world.device(seed: 1) { $0.appTransaction = { proof } }.launch()
        defer { first.close() }
        _ = try await first.purchases.credit(signedTransaction: world.signed("1"))
        let second = try world.device(seed: 2) { $0.appTransaction = { proof } }.launch()
        defer { second.close() }
        let balance = try await second.value(of: .balance).available
        #expect(second.accountId == first.accountId)
        #expect(balance == first.cached(.balance)?.available)
    }

    @Test func `a guest is created without a proof that the server refuses`() async throws {
        let proof = AppTransactionProof(signedAppTransaction: "a.b.c", deviceVerificationId: "d")
        let client = try world.device { $0.appTransaction = { proof } }.launch()
        defer { client.close() }
        #expect(try await client.value(of: .balance).available > 0)
    }

    @Test func `a store that does not answer delays a guest by five seconds`() async throws {
        let device = world.device { configuration in
            configuration.appTransaction = {
                do {
                    try await WatchedState(false).wait(for: "an answer of the store") { $0 }
                    return nil
                } catch {
                    return nil
                }
            }
        }
        let client = try device.launch()
        defer { client.close() }
        async let balance = client.value(of: .balance)
        try await eventually("the guest is created") {
            // In steps, because the read of the balance has a limit as well.
            device.delay.advance(by: .milliseconds(250))
            return client.accountId != nil
        }
        #expect(try await balance.available > 0)
    }
}

/// A function that answers when a test lets it.
private struct SlowAsk: FunctionCall {
    static let name = "slow-ask"
    static let rules = FunctionRules(price: .fixed(3))
    static let expectedCost: Int64 = 3
    typealias Output = String
    let input: String
}
