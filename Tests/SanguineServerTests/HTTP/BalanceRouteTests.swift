import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Balance, quotas and ledger over HTTP", .bounded)
struct BalanceRouteTests {
    @Test func `a balance contains only unit, amounts, head and time`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.get("/v1/balance")
            #expect(reply.status == 200)
            #expect(
                try reply.json == [
                    "unit": "tokens", "available": 100, "held": 0, "head": 2,
                    "asOf": .string(server.setup.wall.now().description),
                ]
            )
        }
    }

    @Test func `spending returns the new balance and its head`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.spend(30)
            #expect(reply.status == 200)
            let balance = try reply.decode(BalanceAnswer.self).balance
            #expect(balance.available == 70)
            #expect(balance.head == 3)
            #expect(reply.head == 3)
            #expect(try await guest.balance() == balance)
        }
    }

    @Test func `spending more than the balance returns the available amount`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await guest.post("/v1/holds", #"{"amount":60}"#)
            let reply = try await guest.spend(41)
            #expect(reply.status == 402)
            #expect(reply.code == "insufficient_tokens")
            #expect(try reply.json["available"] == 40)
            #expect(try reply.json["held"] == 60)
            #expect(try reply.json["required"] == 41)
            #expect(reply.head == nil)
        }
    }

    @Test func `capturing part of a hold returns the rest`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let placed = try await guest.post("/v1/holds", #"{"amount":60,"expiresIn":30}"#)
            #expect(placed.status == 201)
            let answer = try placed.decode(HoldAnswer.self)
            #expect(placed.head == answer.balance.head)
            #expect(answer.hold.amount == 60)
            #expect(answer.hold.expiresAt == server.setup.wall.now() + .seconds(30))
            #expect(answer.balance.available == 40)
            #expect(answer.balance.held == 60)

            let path = "/v1/holds/\(answer.hold.id)"
            #expect(
                try await guest.post(path + "/capture", #"{"amount":61}"#).code == "invalid_content"
            )
            let captured = try await guest.post(path + "/capture", #"{"amount":25}"#)
            #expect(captured.status == 200)
            let balance = try captured.decode(BalanceAnswer.self).balance
            #expect(balance.available == 75)
            #expect(balance.held == 0)
            #expect(captured.head == balance.head)

            let again = try await guest.post(path + "/capture", #"{"amount":25}"#)
            #expect(try again.decode(BalanceAnswer.self).balance.available == 75)
            for reply in [
                try await guest.post(path + "/capture", #"{"amount":24}"#),
                try await guest.post(path + "/release"),
            ] {
                #expect(reply.status == 409)
                #expect(reply.code == "hold_settled")
            }
        }
    }

    @Test func `a hold is released whole, and only by its owner`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let other = try await server.guest()
            let hold = try await guest.post("/v1/holds", #"{"amount":60}"#)
                .decode(HoldAnswer.self).hold
            #expect(hold.expiresAt == server.setup.wall.now() + .seconds(600))
            #expect(try await other.post("/v1/holds/\(hold.id)/release").code == "not_found")
            let released = try await guest.post("/v1/holds/\(hold.id)/release", nil)
            #expect(try released.decode(BalanceAnswer.self).balance.available == 100)
        }
    }

    @Test(arguments: [
        #"{"amount":0}"#, #"{"amount":1,"expiresIn":0}"#, #"{"amount":1,"expiresIn":86401}"#, "{}",
    ])
    func `a hold outside its limits is invalid content`(body: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(try await guest.post("/v1/holds", body).code == "invalid_content")
        }
    }

    @Test func `an expired hold is released`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let hold = try await guest.post("/v1/holds", #"{"amount":60,"expiresIn":1}"#)
                .decode(HoldAnswer.self).hold
            server.setup.wall.advance(by: .seconds(1))
            try await server.setup.delay.waitForSleepers(1)
            server.setup.delay.advance(by: .seconds(1))
            try await server.setup.delay.waitForSleepers(1)  // Housekeeping has run.
            #expect(try await guest.balance().available == 100)
            let late = try await guest.post("/v1/holds/\(hold.id)/capture", #"{"amount":1}"#)
            #expect(late.code == "hold_settled")
        }
    }

    @Test func `a quota is consumed, then refused with the time of its reset`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = "/v1/quotas/readings/consume"
            let two = try await guest.post(path, #"{"amount":2}"#)
            #expect(two.status == 200)
            #expect(two.head == 3)
            let quota = try two.decode(Quota.self)
            #expect((quota.name, quota.limit, quota.used, quota.remaining) == ("readings", 3, 2, 1))
            #expect(!quota.unlimited)
            #expect(try await guest.get("/v1/quotas").decode(Items<Quota>.self).items == [quota])

            let tooMuch = try await guest.post(path, #"{"amount":2}"#, key: "again")
            #expect(tooMuch.status == 402)
            #expect(tooMuch.code == "quota_exhausted")
            #expect(try tooMuch.json["resetsAt"] == .string(quota.resetsAt.description))
            #expect(try tooMuch.json["lifts"] == .array(["premium"]))
            let seconds = (quota.resetsAt - server.setup.wall.now()).secondsRoundedUp
            #expect(tooMuch["Retry-After"] == String(seconds))

            #expect(try await guest.post(path, nil).decode(Quota.self).remaining == 0)
            server.setup.wall.advance(by: .seconds(seconds))
            let tomorrow = try await server.guest(device: guest.device)
            let fresh = try await tomorrow.post(path, #"{"amount":2}"#, key: "again")
            #expect(try fresh.decode(Quota.self).used == 2)
            #expect(fresh["Idempotency-Replayed"] == nil)  // The refusal was not stored.
        }
    }

    @Test(arguments: [#"{"amount":0}"#, #"{"amount":-1}"#, #"{"amount":"1"}"#])
    func `an amount of quota units must be positive`(body: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(
                try await guest.post("/v1/quotas/readings/consume", body).code == "invalid_content"
            )
        }
    }

    @Test func `a balance reports which operations it includes`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await guest.spend(1, key: "done")
            async let running = guest.echo("slow", key: "runs", delayMs: 1_000)
            try await server.setup.delay.waitForSleepers(2)
            let balance = try await guest.get("/v1/balance?operations=done,runs,never")
                .decode(Balance.self)
            #expect(
                balance.operations == [
                    "done": OperationState(.settled), "runs": OperationState(.running, held: 1),
                    "never": OperationState(.unknown),
                ]
            )
            #expect(balance.held == 1)
            server.setup.delay.advance(by: .seconds(1))
            let answer = try await running
            #expect(answer.status == 200)
            let after = try await guest.get("/v1/balance?operations=runs").decode(Balance.self)
            #expect(after.operations == ["runs": OperationState(.settled)])
            #expect(after.available == 98)
        }
    }

    @Test func `concurrent spends never overspend, and each response agrees with the ledger`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let replies = try await withThrowingTaskGroup(of: Reply.self) { tasks in
                for _ in 0..<60 { tasks.addTask { try await guest.spend(3) } }
                return try await tasks.reduce(into: [Reply]()) { $0.append($1) }
            }
            let accepted = try replies.filter { $0.status == 200 }
                .map { try $0.decode(BalanceAnswer.self).balance }
            #expect(accepted.count == 33)
            #expect(replies.allSatisfy { $0.status == 200 || $0.code == "insufficient_tokens" })
            #expect(Set(accepted.map(\.head)).count == 33)
            for balance in accepted { #expect(balance.available == 100 - 3 * (balance.head - 2)) }
            let entries = try await guest.get("/v1/ledger?limit=100")
                .decode(ListPage<LedgerEntry>.self).items
            #expect(entries.reduce(0) { $0 + $1.amount } == 1)
        }
    }
}
