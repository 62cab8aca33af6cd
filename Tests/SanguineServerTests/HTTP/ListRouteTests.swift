import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Lists over HTTP", .bounded)
struct ListRouteTests {
    /// Returns a guest with the given number of ledger entries, including the grant.
    private func guest(_ server: LiveServer, entries: Int) async throws -> Guest {
        let guest = try await server.guest()
        for number in 1..<entries {
            let body = #"{"amount":1,"reason":"number \#(number)"}"#
            #expect(try await guest.post("/v1/spend", body).status == 200)
        }
        return guest
    }

    @Test func `pages follow each other, newest first, without gaps or repeats`() async throws {
        try await LiveServer.with { server in
            let guest = try await guest(server, entries: 25)
            var entries: [LedgerEntry] = []
            var path = "/v1/ledger"
            var sizes: [Int] = []
            while true {
                let page = try await guest.get(path).decode(ListPage<LedgerEntry>.self)
                entries += page.items
                sizes.append(page.items.count)
                #expect(page.hasMore == (page.nextCursor != nil))
                // New entries at the top do not shift later pages.
                _ = try await guest.spend(1)
                guard let cursor = page.nextCursor else { break }
                path = "/v1/ledger?cursor=\(cursor)"
            }
            #expect(sizes == [20, 5])
            #expect(
                entries.map(\.reason) == (1..<25).reversed().map { "number \($0)" } + ["welcome"]
            )
            #expect(entries.last?.kind == .grant)
            #expect(entries.map(\.balanceAfter) == Array(76...100))
        }
    }

    @Test func `a limit is clamped to 1 through 100`() async throws {
        try await LiveServer.with { server in
            let guest = try await guest(server, entries: 101)
            for (limit, count) in [
                ("1", 1), ("100", 100), ("101", 100), ("99999999999999999999999", 100),
            ] {
                let page = try await guest.get("/v1/ledger?limit=\(limit)")
                    .decode(ListPage<LedgerEntry>.self)
                #expect(page.items.count == count)
                #expect(page.hasMore)
            }
        }
    }

    @Test func `a cursor is opaque and valid only for its own list and account`() async throws {
        try await LiveServer.with { server in
            let guest = try await guest(server, entries: 3)
            let other = try await server.guest()
            let cursor = try #require(
                try await guest.get("/v1/ledger?limit=1").decode(ListPage<LedgerEntry>.self)
                    .nextCursor
            )
            #expect(!cursor.contains(guest.account.id.description))
            #expect(try await guest.get("/v1/ledger?cursor=\(cursor)").status == 200)
            for (reader, cursor) in [
                (other, cursor), (guest, "x"), (guest, ""), (guest, cursor + "A"),
                (guest, String(cursor.dropLast())), (guest, String(repeating: "A", count: 2_000)),
            ] {
                let reply = try await reader.get("/v1/ledger?cursor=\(cursor)")
                #expect(reply.status == 400)
                #expect(reply.code == "malformed_request", "\(cursor)")
            }
        }
    }

    @Test func `an invalid cursor is malformed before anything else is checked`()
        async throws
    {
        try await LiveServer.with { server in
            for cursor in ["x", "", String(repeating: "A", count: 2_100)] {
                let reply = try await server.send("GET", "/v1/ledger?cursor=\(cursor)")
                #expect(reply.code == "malformed_request")
            }
            let guest = try await guest(server, entries: 2)
            let cursor = try #require(
                try await guest.get("/v1/ledger?limit=1").decode(ListPage<LedgerEntry>.self)
                    .nextCursor
            )
            let reply = try await server.send("GET", "/v1/ledger?cursor=\(cursor)")
            #expect(reply.code == "unauthenticated")
        }
    }

    @Test func `only the requested fields are returned`() async throws {
        try await LiveServer.with { server in
            let guest = try await guest(server, entries: 2)
            let some = try await guest.get("/v1/ledger?fields=amount,reason,nothing").json
            #expect(
                some["items"]
                    == .array([
                        ["amount": -1, "reason": "number 1"], ["amount": 100, "reason": "welcome"],
                    ])
            )
            #expect(some["hasMore"] == false)
            let all = try await guest.get("/v1/ledger").json
            #expect(try await guest.get("/v1/ledger?fields=").json == all)
            let amounts = try await guest.get("/v1/ledger?fields=amount")
            let reasons = try await guest.get("/v1/ledger?fields=reason")
            #expect(amounts["ETag"] != reasons["ETag"])
        }
    }

}
