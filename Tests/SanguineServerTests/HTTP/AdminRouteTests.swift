import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// A sink that keeps what is written to it.
private final class KeptLines: LogSink {
    private let bytes = Mutex<[UInt8]>([])

    var text: String { String(decoding: bytes.withLock { $0 }, as: UTF8.self) }

    func write(_ lines: [UInt8]) { bytes.withLock { $0 += lines } }
}

@Suite("Admin routes and private data", .bounded)
struct AdminRouteTests {
    private func grant(
        _ amount: Int,
        to id: String,
        key: String,
        on server: LiveServer
    ) async throws -> Reply {
        try await server.send(
            "POST",
            "/admin/v1/accounts/\(id)/grants",
            #"{"amount":\#(amount),"reason":"sorry"}"#,
            headers: ["Idempotency-Key": key],
            toAdmin: true
        )
    }

    @Test func `each port serves only its own routes`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let id = guest.account.id
            for path in [
                "/metrics", "/admin/v1/accounts?deviceId=\(guest.device)", "/admin/v1",
            ] {
                #expect(try await guest.get(path).code == "not_found", "\(path)")
            }
            let grants = "/admin/v1/accounts/\(id)/grants"
            #expect(try await guest.post(grants, #"{"amount":1,"reason":"a"}"#).status == 404)
            for path in ["/v1/balance", "/openapi.json", "/v1/functions"] {
                let headers = ["Authorization": "Bearer \(guest.session.accessToken)"]
                let reply = try await server.send("GET", path, headers: headers, toAdmin: true)
                #expect(reply.code == "not_found", "\(path)")
            }
            #expect(server.ports.http != server.ports.admin)
        }
    }

    @Test func `a grant credits once and appears in the ledger`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let id = guest.account.id.description
            let first = try await grant(50, to: id, key: "k", on: server)
            #expect(first.status == 200)
            #expect(try first.decode(BalanceAnswer.self).balance.available == 150)
            #expect(first.head == 3)
            let again = try await grant(50, to: id, key: "k", on: server)
            #expect(again.body == first.body)
            #expect(again["Idempotency-Replayed"] == "true")
            #expect(
                try await grant(51, to: id, key: "k", on: server).code == "idempotency_mismatch"
            )
            #expect(try await grant(0, to: id, key: "l", on: server).code == "invalid_content")
            let entry = try await guest.get("/v1/ledger?limit=1").decode(ListPage<LedgerEntry>.self)
                .items.first
            #expect(entry?.kind == .grant)
            #expect(entry?.reason == "sorry")
            for stranger in ["0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa", "me"] {
                #expect(try await grant(-1, to: stranger, key: "k", on: server).code == "not_found")
            }
        }
    }

    private func giveBack(
        _ amount: Int,
        of quota: String = "readings",
        to id: String,
        key: String,
        on server: LiveServer
    ) async throws -> Reply {
        try await server.send(
            "POST",
            "/admin/v1/accounts/\(id)/quotas/\(quota)",
            #"{"amount":\#(amount),"reason":"an outage"}"#,
            headers: ["Idempotency-Key": key],
            toAdmin: true
        )
    }

    @Test func `used quota units are returned once and appear in the ledger`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let id = guest.account.id.description
            let consume = "/v1/quotas/readings/consume"
            _ = try await guest.post(consume, #"{"amount":3}"#)
            let first = try await giveBack(2, to: id, key: "k", on: server)
            let answer = try first.decode(QuotaAnswer.self)
            #expect((answer.quota.used, answer.quota.remaining) == (1, 2))
            #expect(answer.balance.available == 100)
            let again = try await giveBack(2, to: id, key: "k", on: server)
            #expect(again.body == first.body && again["Idempotency-Replayed"] == "true")
            #expect(
                try await giveBack(1, to: id, key: "k", on: server).code == "idempotency_mismatch"
            )
            // The remaining units cannot exceed the daily limit.
            for (number, amount) in [2, 0, -1].enumerated() {
                let refused = try await giveBack(amount, to: id, key: "r\(number)", on: server)
                #expect(refused.code == "invalid_content")
            }
            #expect(
                try await giveBack(1, of: "none", to: id, key: "n", on: server).code == "not_found"
            )
            let quotas = try await guest.get("/v1/quotas").decode(Items<Quota>.self)
            #expect(quotas.items.first?.remaining == 2)
            let entry = try await guest.get("/v1/ledger?limit=1").decode(ListPage<LedgerEntry>.self)
                .items.first
            #expect(entry?.kind == .grant && entry?.amount == 0 && entry?.balanceAfter == 100)
            #expect(entry?.reason == "readings +2: an outage")
            #expect(try await server.authority.verifyLedger().differences.isEmpty)
            // Every device sees the change in the feed.
            let pull = try await guest.get("/v1/sync/pull?since=\((first.head ?? 0) - 1)")
                .decode(PullAnswer.self)
            let change = pull.changes.first { $0.collection == "$quotas" }
            #expect(change?.value?["remaining"] == 2 && change?.seq == first.head)
        }
    }

    @Test func `setting a plan lifts the quota`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = "/admin/v1/accounts/\(guest.account.id)/plan"
            let premium = #"{"plan":"premium","reason":"b"}"#
            let reply = try await server.send("PUT", path, premium, toAdmin: true)
            #expect(try reply.decode(Account.self).plan == .premium)
            #expect(reply.head == 3)
            let consume = "/v1/quotas/readings/consume"
            let quota = try await guest.post(consume, #"{"amount":10}"#).decode(Quota.self)
            #expect(quota.unlimited)
            #expect(quota.used == 10)
            #expect(quota.remaining == nil)
            let unknown = #"{"plan":"gold","reason":"b"}"#
            let gold = try await server.send("PUT", path, unknown, toAdmin: true)
            #expect(gold.code == "invalid_content")
            let stranger = "/admin/v1/accounts/0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa/plan"
            let lost = try await server.send("PUT", stranger, unknown, toAdmin: true)
            #expect(lost.code == "not_found")
        }
    }

    @Test func `an account is found by its device`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let accounts = "/admin/v1/accounts"
            let found = try await server.send(
                "GET",
                "\(accounts)?deviceId=\(guest.device)",
                toAdmin: true
            )
            #expect(try found.decode(Account.self) == guest.account)
            for query in ["?deviceId=nobody", "?email=a@b.org"] {
                let reply = try await server.send("GET", accounts + query, toAdmin: true)
                #expect(reply.code == "not_found")
            }
            let bare = try await server.send("GET", accounts, toAdmin: true)
            #expect(try bare.decode(ListPage<Account>.self).items.count == 1)
        }
    }

    @Test func `metrics are OpenMetrics text with route templates and without ids`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let hold = try await guest.post("/v1/holds", #"{"amount":1}"#).decode(HoldAnswer.self)
                .hold
            _ = try await guest.post("/v1/holds/\(hold.id)/release")
            _ = try await guest.echo("a")
            _ = try await guest.get("/nothing/\(guest.device)")
            let reply = try await server.send("GET", "/metrics", toAdmin: true)
            #expect(reply.status == 200)
            let type = try #require(reply["Content-Type"])
            #expect(type.hasPrefix("application/openmetrics-text; version=1.0.0"))
            #expect(reply.body.hasSuffix("\n# EOF\n"))
            let label = #"[a-zA-Z_]\w*="[^"\\]*""#
            let sample = try Regex(
                #"[a-zA-Z_:][a-zA-Z0-9_:]*(\{\#(label)(,\#(label))*\})? [-+0-9.eInfNa]+"#
            )
            let comment = #/# (TYPE|UNIT|HELP) .+|# EOF/#
            for line in reply.body.split(separator: "\n") {
                let isRight =
                    line.wholeMatch(of: sample) != nil || line.wholeMatch(of: comment) != nil
                #expect(isRight, "\(line)")
            }
            #expect(
                reply.body.contains(
                    #"method="POST",route="/v1/holds/{id}/release",status="200""#
                )
            )
            #expect(reply.body.contains("function_calls_total"))
            for secret in secrets(of: guest) + [hold.id.description] {
                #expect(!reply.body.contains(secret))
            }
        }
    }

    @Test func `the access log has a line for each request and no personal data`()
        async throws
    {
        let sink = KeptLines()
        let log = LogQueue(sink: sink)
        try await LiveServer.with {
            $0.log = log
        } _: { server in
            let guest = try await server.guest()
            let hold = try await guest.post("/v1/holds", #"{"amount":1}"#, key: "key-of-mine")
                .decode(HoldAnswer.self).hold
            _ = try await guest.post("/v1/holds/\(hold.id)/release?at=\(guest.device)")
            _ = try await guest.get("/v1/ledger?cursor=\(guest.device)")
            _ = try await guest.get("/\(guest.device)")
            await log.flush(within: .seconds(30))
            let lines = sink.text.split(separator: "\n")
            #expect(lines.count == 5)
            let entries = try lines.map {
                try JSONDecoder().decode(JSONValue.self, from: Data($0.utf8))
            }
            #expect(entries.compactMap { $0["status"]?.integer } == [201, 201, 200, 400, 404])
            #expect(entries[2]["route"] == "/v1/holds/{id}/release")
            #expect(entries[0]["requestBytes"] != 0)
            for secret in secrets(of: guest) + [hold.id.description, "key-of-mine", "127.0.0.1"] {
                #expect(!sink.text.contains(secret), "\(secret)")
            }
        }
    }

    @Test func `no response contains a device, a secret or a hash`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let hold = try await guest.post("/v1/holds", #"{"amount":1}"#).decode(HoldAnswer.self)
                .hold
            let wrong = #"{"deviceId":"\#(guest.device)","deviceSecret":"\#(Guest.secret(9))"}"#
            let replies = [
                try await guest.get("/v1/account"), try await guest.get("/v1/balance"),
                try await guest.get("/v1/quotas"), try await guest.get("/v1/ledger"),
                try await guest.get("/v1/functions"),
                try await guest.send("PATCH", "/v1/account", #"{"language":"tr"}"#),
                try await guest.post("/v1/holds/\(hold.id)/release"),
                try await guest.echo("a"), try await guest.ask("a"), try await guest.spend(1_000),
                try await guest.get("/\(guest.device)"),
                try await server.send("POST", "/v1/accounts/guest", wrong),
                try await server.send(
                    "POST",
                    "/v1/sessions/refresh",
                    #"{"refreshToken":"\#(guest.session.refreshToken)x"}"#
                ),
                try await server.send(
                    "GET",
                    "/admin/v1/accounts?deviceId=\(guest.device)",
                    toAdmin: true
                ),
            ]
            for reply in replies {
                let text = reply.body + reply.headers.map { "\($0.name): \($0.value)" }.joined()
                for secret in secrets(of: guest) where secret != guest.account.id.description {
                    #expect(!text.contains(secret), "\(reply.body)")
                }
                #expect(!reply.body.lowercased().contains("hash"))
                #expect(reply["Server"] == nil)
            }
        }
    }

    @Test func `a guest's response contains tokens, but not the device's secret`() async throws {
        try await LiveServer.with { server in
            let secret = Guest.secret(3)
            let body = #"{"deviceId":"a-device-of-16-and-more","deviceSecret":"\#(secret)"}"#
            let reply = try await server.send("POST", "/v1/accounts/guest", body)
            guard case .object(let members) = try reply.json,
                case .object(let account) = members["account"],
                case .object(let session) = members["session"]
            else { throw Reply.Unexpected(reply: reply.body) }
            #expect(Set(members.keys) == ["account", "session"])
            #expect(
                Set(account.keys) == [
                    "id", "kind", "timeZone", "language", "plan", "settings", "createdAt",
                ]
            )
            #expect(Set(session.keys) == ["accessToken", "expiresIn", "refreshToken"])
            #expect(!reply.body.contains(secret))
            #expect(!reply.body.contains("a-device-of-16-and-more"))
        }
    }

    private func secrets(of guest: Guest) -> [String] {
        [
            guest.device, guest.secret, guest.session.accessToken, guest.session.refreshToken,
            guest.account.id.description,
        ]
    }
}
