import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The end of a plan, as connected devices see it.
@Suite("Ends of plans", .bounded)
struct PlanEndTests {
    /// Lets time pass for the wall clock and for the periodic work, which then waits again.
    private func pass(_ time: Duration, on server: LiveServer) async throws {
        try await server.setup.delay.waitForSleepers(1)
        server.setup.wall.advance(by: time)
        server.setup.delay.advance(by: time)
        try await server.setup.delay.waitForSleepers(1)
    }

    private func storedPlan(_ guest: Guest) async throws -> Account.Plan? {
        let id = guest.account.id
        return try await guest.server.setup.storage.load([.account(id)]).account(id)?.profile.plan
    }

    @Test func `a connected device gets the end of its plan exactly at that time`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let end = server.setup.wall.now() + .milliseconds(1_500)
            let (_, head) = try await server.authority.setPlan(
                .premium,
                until: end,
                of: guest.account.id
            )
            var reader = try await LiveReader(guest, since: head)
            #expect(try await reader.next() == ["retry: 2000"])
            #expect(try await guest.get("/v1/quotas").body.contains(#""unlimited":true"#))

            try await pass(Housekeeping.interval, on: server)
            #expect(try await storedPlan(guest) == .premium)
            try await pass(.milliseconds(499), on: server)
            #expect(try await storedPlan(guest) == .premium)
            try await pass(.milliseconds(1), on: server)

            let next = try await reader.nextChange()
            let change = try #require(next?.change)
            #expect(change.collection == "$account" && change.value?["plan"] == "free")
            #expect(try await storedPlan(guest) == .free)
            #expect(try await guest.get("/v1/quotas").body.contains(#""unlimited":false"#))
        }
    }

    @Test func `plans that ended while the server was stopped end at its start`() async throws {
        let setup = LiveServer.Setup()
        let authority = Authority(storage: setup.storage, keys: setup.keys, clock: setup.wall)
        let end = setup.wall.now() + .seconds(5)
        for number in 1...300 {
            let guest = GuestRequest(
                deviceId: "device-number-\(100_000 + number)",
                deviceSecret: Guest.secret(7)
            )
            let id = try await authority.guest(guest).signedIn.account.id
            _ = try await authority.setPlan(.premium, until: end, of: id)
        }
        setup.wall.advance(by: .seconds(10))
        try await LiveServer.with(setup) { server in
            try await pass(Housekeeping.interval, on: server)
            let left = try await setup.storage.accounts(
                withPlansEndingBy: setup.wall.now(),
                limit: 1
            )
            #expect(left.isEmpty)
        }
    }
}
