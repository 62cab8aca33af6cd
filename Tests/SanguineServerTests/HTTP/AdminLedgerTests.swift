import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The ledger over HTTP: summaries, exports, verification and limits.
@Suite("Ledger over HTTP", .bounded)
struct AdminLedgerTests {
    private func admin(
        _ method: String,
        _ path: String,
        _ body: String = "",
        key: String = "k",
        accept: String = "*/*",
        on server: LiveServer
    ) async throws -> Reply {
        try await server.send(
            method,
            path,
            body,
            headers: ["Idempotency-Key": key, "Accept": accept],
            toAdmin: true
        )
    }

    @Test func `an operator verifies the ledger of a running server`() async throws {
        try await LiveServer.with { server in
            _ = try await server.guest()
            let reply = try await admin("GET", "/admin/v1/ledger/verify", on: server)
            #expect(reply.status == 200)
            #expect(reply.body.contains("event: report\n"))
            #expect(reply.body.contains(#""differences":[]"#))
        }
    }

    @Test func `an operator exports all accounts, an owner only their own`() async throws {
        try await LiveServer.with { server in
            let (first, second) = (try await server.guest(), try await server.guest())
            let all = try await admin(
                "GET",
                "/admin/v1/ledger/export?reason=books",
                accept: "text/csv",
                on: server
            )
            for guest in [first, second] {
                #expect(all.body.contains(guest.account.id.description))
            }
            let own = try await first.get("/v1/ledger/export")
            #expect(own.body.contains(first.account.id.description))
            #expect(!own.body.contains(second.account.id.description))
        }
    }

    @Test func `a spending limit is set for an account, and refuses its spends`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let set = try await admin(
                "PUT",
                "/admin/v1/accounts/\(guest.account.id)/spending",
                #"{"perDay":5,"reason":"asked by the owner"}"#,
                on: server
            )
            #expect(set.status == 200)
            let refused = try await guest.post("/v1/spend", #"{"amount":6,"reason":"tea"}"#)
            #expect(refused.status == 402 && refused.code == "spending_limit_reached")
            let spent = try await guest.post("/v1/spend", #"{"amount":5,"reason":"tea"}"#)
            #expect(spent.status == 200)
        }
    }

    @Test func `a grant with an expiry time is shown with the balance`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let moment = server.setup.wall.now() + .seconds(3_600)
            let granted = try await admin(
                "POST",
                "/admin/v1/accounts/\(guest.account.id)/grants",
                #"{"amount":5,"reason":"gift","expiresAt":"\#(moment)"}"#,
                on: server
            )
            #expect(granted.status == 200)
            #expect(try await guest.balance().expiring == [ExpiringAmount(amount: 5, at: moment)])
        }
    }

    @Test func `a summary is JSON, or CSV on request`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let summary = try await guest.get("/v1/ledger/summary?by=day")
            #expect(try summary.decode(LedgerSummary.self).items.map(\.granted) == [100])
            #expect(try await guest.get("/v1/ledger/summary?by=user").code == "malformed_request")
            #expect(try await guest.get("/v1/ledger/summary?by=day&from=x").status == 400)
        }
    }
}
