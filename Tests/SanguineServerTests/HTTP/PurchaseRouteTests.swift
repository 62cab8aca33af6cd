import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Purchases over HTTP, signed by a made App Store.
@Suite("Purchases over HTTP", .bounded)
struct PurchaseRouteTests {
    /// Runs a server that trusts a made App Store.
    private func with(
        _ body: @Sendable (LiveServer, TestAppStore) async throws -> Void
    ) async throws {
        try await TemporaryFolder.with { folder in
            var setup = LiveServer.Setup()
            let store = try TestAppStore(at: setup.wall.now())
            let root = folder.appending(path: "root.cer")
            try Data(store.root).write(to: root)
            setup.settings.appStore.bundleId = TestAppStore.bundle
            setup.settings.appStore.appAppleId = Int(TestAppStore.appleID)
            setup.settings.appStore.roots = [root.path]
            setup.settings.appStore.products = [
                "tokens": .tokens(100), "pass": .premium(days: 30),
            ]
            try await LiveServer.with(setup) { server in try await body(server, store) }
        }
    }

    private func body(_ signed: String) -> String {
        #"{"provider":"appStore","signedTransaction":"\#(signed)"}"#
    }

    @Test func `a purchase is credited once, whichever device and key sends it`() async throws {
        try await with { server, store in
            let guest = try await server.guest()
            let second = try await server.guest(device: guest.device)
            let signed = try store.sign(store.transaction("1", of: "tokens"))
            let reply = try await guest.post("/v1/purchases", body(signed), key: "a")
            #expect(reply.status == 200 && reply.head != nil)
            let answer = try reply.decode(PurchaseAnswer.self)
            #expect(answer.credited == 100 && answer.balance.available == 200)

            let again = try await guest.post("/v1/purchases", body(signed), key: "a")
            #expect(again["Idempotency-Replayed"] == "true" && again.body == reply.body)
            let other = try await second.post("/v1/purchases", body(signed), key: "b")
            #expect(try other.decode(PurchaseAnswer.self).balance.available == 200)
            #expect(try await guest.balance().available == 200)
        }
    }

    @Test func `a purchase of another account is refused`() async throws {
        try await with { server, store in
            let (first, second) = (try await server.guest(), try await server.guest())
            let signed = try store.sign(store.transaction("1", of: "tokens"))
            #expect(try await first.post("/v1/purchases", body(signed)).status == 200)
            let refused = try await second.post("/v1/purchases", body(signed))
            #expect(refused.status == 409 && refused.code == "purchase_taken")
            #expect(try await second.balance().available == 100)
        }
    }

    @Test func `each forged or foreign transaction is refused with its code`() async throws {
        try await with { server, store in
            let guest = try await server.guest()
            let stranger = try TestAppStore(at: server.setup.wall.now())
            let own = store.transaction("1", of: "tokens")
            let cases = [
                (try stranger.sign(own), "purchase_invalid"), ("a.b.c", "purchase_invalid"),
                (try store.sign(own, algorithm: "none"), "purchase_invalid"),
                (
                    try store.sign(store.transaction("2", of: "tokens", ["bundleId": "com.other"])),
                    "purchase_foreign"
                ),
                (
                    try store.sign(
                        store.transaction("3", of: "tokens", ["environment": "Sandbox"])
                    ),
                    "purchase_foreign"
                ),
            ]
            for (signed, code) in cases {
                let reply = try await guest.post("/v1/purchases", body(signed))
                #expect(reply.status == 422 && reply.code == code)
            }
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a purchase needs a token, a key and a provider that is known`() async throws {
        try await with { server, store in
            let guest = try await server.guest()
            let signed = try store.sign(store.transaction("1", of: "tokens"))
            let anonymous = try await server.send(
                "POST",
                "/v1/purchases",
                body(signed),
                headers: ["Idempotency-Key": "1"]
            )
            #expect(anonymous.code == "unauthenticated")
            let keyless = try await guest.post("/v1/purchases", body(signed), key: nil)
            #expect(keyless.code == "idempotency_key_missing")
            let unknown = #"{"provider":"other","signedTransaction":"a"}"#
            #expect(try await guest.post("/v1/purchases", unknown).code == "invalid_content")
        }
    }

    @Test func `a pass sets the plan, and a notification of its refund ends it`() async throws {
        try await with { server, store in
            let guest = try await server.guest()
            let pass = store.transaction("1", of: "pass")
            let bought = try await guest.post("/v1/purchases", body(try store.sign(pass)))
            #expect(try bought.decode(PurchaseAnswer.self).plan == .premium)
            let refund = try store.notification(
                "REFUND",
                id: "n1",
                about: pass,
                at: store.now + .seconds(10)
            )
            for _ in 0..<2 {
                let reply = try await server.send(
                    "POST",
                    "/v1/purchases/appStore/notifications",
                    #"{"signedPayload":"\#(refund)"}"#
                )
                #expect(reply.status == 204)
            }
            let account = try await guest.get("/v1/account").decode(Account.self)
            #expect(account.plan == .free)
        }
    }

    @Test func `a server without an app has no purchases`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.post("/v1/purchases", body("a.b.c"))
            #expect(reply.status == 404 && reply.code == "not_found")
        }
    }

    @Test(arguments: ["", "no certificate"])
    func `a server whose root is no certificate does not start`(content: String) async throws {
        try await TemporaryFolder.with { folder in
            var setup = LiveServer.Setup()
            let root = folder.appending(path: "root.cer")
            if !content.isEmpty { try Data(content.utf8).write(to: root) }
            setup.settings.appStore.bundleId = TestAppStore.bundle
            setup.settings.appStore.appAppleId = Int(TestAppStore.appleID)
            setup.settings.appStore.roots = [root.path]
            let broken = setup
            let error = await #expect(throws: SettingsError.self) {
                _ = try await broken.server()
            }
            #expect(error?.description.contains(root.path) == true)
        }
    }
}
