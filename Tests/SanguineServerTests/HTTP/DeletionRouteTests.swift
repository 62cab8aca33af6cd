import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Deletion, export and administration", .bounded)
struct DeletionRouteTests {
    private func push(_ id: String, in collection: String, by guest: Guest) async throws -> Reply {
        let operation = Identifier(at: guest.server.setup.wall.now())
        let body = """
            {"device":"\(guest.device)","operations":[{"id":"\(operation)","sequence":1,\
            "lane":"\(collection)/\(id)","mutator":"record.create","arguments":\
            {"collection":"\(collection)","id":"\(id)","fields":{"text":"private"}}}]}
            """
        return try await guest.send("POST", "/v1/sync/push", body)
    }

    private func removeAll(_ guest: Guest) async throws {
        var walk = RemovalWalk()
        let authority = guest.server.authority
        while try await authority.removeSome(of: guest.account.id, &walk) == .removed {}
    }

    private func delete(_ guest: Guest, _ body: String = "{}") async throws -> Reply {
        try await guest.send("DELETE", "/v1/account", body)
    }

    private func admin(
        _ method: String,
        _ path: String,
        _ body: String? = nil,
        as token: AdminToken? = nil,
        on server: LiveServer
    ) async throws -> Reply {
        var headers = ["Idempotency-Key": UUID().uuidString]
        if let token { headers["Authorization"] = "Bearer \(token.reveal())" }
        return try await server.send(
            method,
            "/admin/v1/\(path)",
            body,
            headers: headers,
            toAdmin: true
        )
    }

    // ory/kratos#69, supabase/auth-helpers#702: the tokens of a deleted user stayed valid.
    @Test func `a deletion ends all access at once and leaves nothing readable`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let other = try await server.guest(device: guest.device)
            let reader = try await server.guest()
            _ = try await push("a", in: "posts", by: guest)
            _ = try await push("b", in: "notes", by: guest)
            _ = try await guest.echo("private")
            let reply = try await delete(guest)
            #expect(reply.status == 200)
            for device in [guest, other] {
                #expect(try await device.get("/v1/account").code == "session_ended")
                let body = #"{"refreshToken":"\#(device.session.refreshToken)"}"#
                let refresh = try await server.send("POST", "/v1/sessions/refresh", body)
                #expect(refresh.status == 401)
            }
            let posts = try await reader.get("/v1/collections/posts/records")
            #expect(!posts.body.contains("private"))
            server.setup.wall.advance(by: .seconds(61))
            try await removeAll(guest)
            let status = try await server.authority.removalStatus(guest.account.id)
            #expect(status?.state == .done)
            for kind in AccountRowsQuery.Kind.allCases {
                let query = AccountRowsQuery(kind, of: guest.account.id, limit: 9)
                #expect(try await server.setup.storage.rows(query) == [], "\(kind)")
            }
            #expect(try await server.authority.verifyLedger().differences == [])
            let fresh = try await server.guest(device: guest.device)
            #expect(fresh.account.id != guest.account.id)
        }
    }

    @Test func `a deletion needs the refresh token or a recent sign-in`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            server.setup.wall.advance(by: .seconds(601))
            #expect(try await delete(guest).code == "credentials_invalid")
            let stranger = try await server.guest()
            let wrong = #"{"refreshToken":"\#(stranger.session.refreshToken)"}"#
            #expect(try await delete(guest, wrong).code == "credentials_invalid")
            #expect(try await guest.get("/v1/balance").status == 200)
            let right = #"{"refreshToken":"\#(guest.session.refreshToken)"}"#
            #expect(try await delete(guest, right).status == 200)
        }
    }

    @Test func `an admitted push after the deletion adds nothing`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await delete(guest)
            await #expect(throws: Problem.self) {
                _ = try await server.authority.push(
                    guest.account.id,
                    PushRequest(device: guest.device, operations: [])
                )
            }
        }
    }

    @Test func `a deletion under load leaves nothing readable, and sums are right`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        for number in 0..<10 {
                            _ = try await push("n\(worker)-\(number)", in: "notes", by: guest)
                            _ = try await push("p\(worker)-\(number)", in: "posts", by: guest)
                            _ = try await guest.echo("private")
                            _ = try await guest.post("/v1/holds", #"{"amount":1}"#)
                        }
                    }
                }
                group.addTask { _ = try await delete(guest) }
                try await group.waitForAll()
            }
            server.setup.wall.advance(by: .seconds(61))
            try await removeAll(guest)

            let status = try await server.authority.removalStatus(guest.account.id)
            #expect(status?.state == .done)
            let live = FeedQuery(of: guest.account.id, after: 0, limit: 9, liveOnly: true)
            #expect(try await server.setup.storage.feed(live).records == [])
            for kind in AccountRowsQuery.Kind.allCases {
                let query = AccountRowsQuery(kind, of: guest.account.id, limit: 9)
                #expect(try await server.setup.storage.rows(query) == [], "\(kind)")
            }
            let balance = try await server.setup.storage.load([.balance(guest.account.id)])
                .balance(guest.account.id)
            #expect(balance?.available == 0 && balance?.held == 0)
            #expect(try await server.authority.verifyLedger().differences == [])
        }
    }

    @Test func `an export has every part and ends with its count`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await push("b", in: "notes", by: guest)
            _ = try await guest.echo("hello")
            let reply = try await guest.get("/v1/account/export")
            #expect(reply.status == 200)
            let lines = reply.body.split(separator: "\n")
            let types = try lines.map { line in
                try JSONDecoder().decode(JSONValue.self, from: Data(line.utf8))["type"]?.string
            }
            #expect(types.first == "export")
            #expect(types.last == "end")
            let wanted: Set<String?> = [
                "account", "balance", "device", "session", "record", "operation", "ledger",
            ]
            #expect(Set(types).isSuperset(of: wanted))
            #expect(lines.last?.contains(#""lines":\#(lines.count)"#) == true)
        }
    }

    @Test func `a role permits its calls and no others`() async throws {
        var setup = LiveServer.Setup()
        let (reading, support) = (
            AdminToken(owner: "board", role: .read), AdminToken(owner: "anna", role: .support)
        )
        setup.adminTokens = [reading, support]
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let path = "accounts/\(guest.account.id)"
            let gift = #"{"amount":5,"reason":"sorry"}"#
            #expect(try await admin("GET", path, as: reading, on: server).status == 200)
            let refused = try await admin("POST", "\(path)/grants", gift, as: reading, on: server)
            #expect(refused.code == "role_missing")
            let given = try await admin("POST", "\(path)/grants", gift, as: support, on: server)
            #expect(given.status == 200)
            let deletion = "\(path)?reason=asked"
            let kept = try await admin("DELETE", deletion, as: support, on: server)
            #expect(kept.code == "role_missing")
            #expect(try await admin("DELETE", deletion, on: server).status == 200)
            #expect(try await guest.get("/v1/balance").code == "session_ended")
        }
    }

    @Test func `a refused role is in the audit log`() async throws {
        var setup = LiveServer.Setup()
        let board = AdminToken(owner: "board", role: .read)
        setup.adminTokens = [board]
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let path = "accounts/\(guest.account.id)"
            let gift = #"{"amount":5,"reason":"mine"}"#
            let limit = #"{"perDay":5,"reason":"mine"}"#
            let plan = #"{"plan":"premium","reason":"mine"}"#
            for (method, path, body) in [
                ("POST", "\(path)/grants", gift), ("POST", "\(path)/debits", gift),
                ("POST", "\(path)/quotas/readings", gift), ("PUT", "\(path)/spending", limit),
                ("PUT", "\(path)/plan", plan), ("DELETE", "\(path)/sessions?reason=a", nil),
                ("GET", "\(path)/export?reason=a", nil), ("DELETE", "\(path)?reason=a", nil),
            ] as [(String, String, String?)] {
                let reply = try await admin(method, path, body, as: board, on: server)
                #expect(reply.code == "role_missing", "\(method) \(path)")
            }
            let log = try await admin("GET", "audit", on: server)
            let items = try log.decode(ListPage<Authority.AuditEntry>.self).items
            #expect(items.count == 8)
            #expect(items.allSatisfy { $0.outcome == "role_missing" && $0.actor == "board" })
            #expect(items.allSatisfy { $0.account == guest.account.id })
            #expect(items.first?.action == "account.delete")
        }
    }

    @Test func `an entry of the audit log says what was done`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = "accounts/\(guest.account.id)"
            let gift = #"{"amount":5,"reason":"a","expiresAt":"2030-01-31T00:00:00Z"}"#
            _ = try await admin("POST", "\(path)/grants", gift, on: server)
            let debit = #"{"amount":7,"reason":"a"}"#
            _ = try await admin("POST", "\(path)/debits", debit, on: server)
            let plan = #"{"plan":"premium","reason":"a"}"#
            _ = try await admin("PUT", "\(path)/plan", plan, on: server)
            let log = try await admin("GET", "audit", on: server)
            let items = try log.decode(ListPage<Authority.AuditEntry>.self).items
            #expect(items.map(\.detail) == ["premium", "7", "5 until 2030-01-31T00:00:00.000Z"])
        }
    }

    @Test func `every act is recorded once, with its name, reason and outcome`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = "accounts/\(guest.account.id)"
            let debit = #"{"amount":40,"reason":"a mistake"}"#
            #expect(try await admin("POST", "\(path)/debits", debit, on: server).status == 200)
            let much = #"{"amount":61,"reason":"too much"}"#
            let refused = try await admin("POST", "\(path)/debits", much, on: server)
            #expect(refused.code == "insufficient_tokens")
            #expect(try await guest.balance().available == 60)
            let log = try await admin("GET", "audit", on: server)
            let page = try log.decode(ListPage<Authority.AuditEntry>.self)
            #expect(page.items.map(\.outcome) == ["insufficient_tokens", "done"])
            #expect(page.items.map(\.reason) == ["too much", "a mistake"])
            #expect(page.items.allSatisfy { $0.actor == "owner" })
            #expect(page.items.allSatisfy { $0.account == guest.account.id })
        }
    }

    @Test func `accounts are listed by kind, page by page`() async throws {
        try await LiveServer.with { server in
            for _ in 0..<3 { _ = try await server.guest() }
            let first = try await admin("GET", "accounts?kind=guest&limit=2", on: server)
                .decode(ListPage<Account>.self)
            #expect(first.items.count == 2)
            let cursor = try #require(first.nextCursor)
            let path = "accounts?kind=guest&limit=2&cursor=\(cursor)"
            let second = try await admin("GET", path, on: server).decode(ListPage<Account>.self)
            #expect(second.items.count == 1)
            #expect(!second.hasMore)
        }
    }
}
