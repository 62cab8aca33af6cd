import Foundation
import Sanguine
import SanguineAuthority
import SanguineTesting
import TestSupport
import Testing

#if canImport(StoreKit)
import StoreKit
import SwiftUI
#endif

// The samples of the guide to purchases.

@Suite("Purchase snippets", .bounded)
struct PurchaseSnippets {
    @Test func `a signed transaction is credited`() async throws {
        let clock = ManualWallClock()
        let store = try TestAppStore(at: clock.now())
        var settings = AuthoritySettings()
        settings.appStore = AppStoreSettings(
            bundleID: TestAppStore.bundle,
            appAppleID: TestAppStore.appleID,
            roots: [try AppStoreRoot(store.root)],
            products: ["tokens": .tokens(100)]
        )
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.transport = InMemoryAuthority(settings: settings, clock: clock)
        configuration.clock = clock
        let client = try SanguineClient(configuration)
        defer { client.close() }
        let signed = try store.sign(store.transaction("1", of: "tokens"))
        let answer = try await client.purchases.credit(signedTransaction: signed)
        print(answer.credited, answer.balance.available)
        #expect(answer.credited == 100)
        func show(_ text: String) { Issue.record("There is no debt.") }
        if let debt = client.cached(.balance)?.debt, debt > 0 {
            show("\(debt) tokens of a refund are to be covered.")
        }
    }
}

#if canImport(StoreKit)
@MainActor
private struct StoreKitSnippets {
    let client: SanguineClient
    let product: Product

    func showSignIn() {}
    func show(_ text: String) {}

    func follow() {
        Task {
            await client.purchases.follow(.appStore) { report in
                switch report {
                case .credited: break
                case .taken: await showSignIn()
                case .refused(_, let problem): await show(problem.detail)
                case .postponed(_, let error): await show("\(error)")
                }
            }
        }
    }

    func follow() async {
        Task { await client.purchases.follow(.appStore) { print($0) } }
    }

    func finish(_ result: VerificationResult<StoreKit.Transaction>) async throws {
        let transaction = result.unsafePayloadValue
        let answer = try await client.purchases.credit(signedTransaction: result.jwsRepresentation)
        await transaction.finish()
        print(answer.credited)
    }

    var button: some View {
        Button("100 tokens") {
            Task { try await client.purchases.purchase(product) }
        }
    }

    func configure(_ configuration: inout SanguineClient.Configuration) {
        configuration.appTransaction = { await AppTransactionProof.appStore() }
    }
}
#endif
