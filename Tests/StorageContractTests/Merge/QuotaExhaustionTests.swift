import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The event of an exhausted quota: one for each account, quota and period, by the command that
/// keeps the last unit.
@Suite("Exhaustion of a quota", .bounded)
struct QuotaExhaustionTests {
    private func withWorld(
        _ driver: StorageDriver,
        limit: Int64 = 3,
        _ body: (MergeWorld) async throws -> Void
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage) { settings in
                settings.recordsEvents = true
                settings.quotas = ["readings": QuotaRule(limit: limit)]
            }
            try await body(world)
        }
    }

    /// Returns the number of events of exhausted quotas.
    private func events(_ world: MergeWorld) async throws -> Int {
        try await world.authority.waitingEvents(limit: 1_000).count { event in
            String(decoding: event.body, as: UTF8.self).contains("quota.exhausted")
        }
    }

    private func keep(_ call: AcceptedCall, _ world: MergeWorld) async throws {
        _ = try await world.authority.settle(call, .succeeded(charge: 0) { _, _ in [] })
    }

    private func fail(_ call: AcceptedCall, _ world: MergeWorld) async throws {
        _ = try await world.authority.settle(call, .failed(Problem(.upstreamFailed, "No.")))
    }

    @Test(arguments: StorageDriver.allCases)
    func `concurrent uses report an exhausted quota once`(driver: StorageDriver) async throws {
        try await withWorld(driver, limit: 20) { world in
            let who = try await world.guest(1)
            let used = await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<50 {
                    group.addTask { (try? await world.consume(who)) != nil }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(used == 20)
            #expect(try await events(world) == 1)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `concurrent calls report it once, when the last one keeps its unit`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver, limit: 50) { world in
            let who = try await world.guest(1)
            var calls: [AcceptedCall] = []
            for number in 0..<50 {
                calls.append(try await world.call(who, "k\(number)", hold: 0, units: 1))
            }
            for call in calls.dropLast() { try await keep(call, world) }
            #expect(try await events(world) == 0)
            try await keep(calls[49], world)
            #expect(try await events(world) == 1)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a unit that a running call may return is not the last one`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            let calls = [
                try await world.call(who, "a", hold: 0, units: 1),
                try await world.call(who, "b", hold: 0, units: 1),
            ]
            try await world.consume(who)
            #expect(try await events(world) == 0)
            try await fail(calls[0], world)
            try await keep(calls[1], world)
            #expect(try await events(world) == 0)
            try await world.consume(who)
            #expect(try await events(world) == 1)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a unit that an administrator gives back is not a second event`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let who = try await world.guest(1)
            try await world.consume(who, 3)
            let gift = MergeWorld.submission("gift", 1)
            _ = try await world.authority.giveBack("readings", who.account, gift)
            try await world.consume(who)
            #expect(try await events(world) == 1)

            world.clock.advance(by: .seconds(2 * 86_400))
            try await world.consume(who, 3)
            #expect(try await events(world) == 2)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a guest's event is not repeated by its account`(driver: StorageDriver) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            try await world.consume(guest, 3)
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await events(world) == 1)
            let gift = MergeWorld.submission("gift", 1)
            _ = try await world.authority.giveBack("readings", account.account, gift)
            try await world.consume(account)
            #expect(try await events(world) == 1)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `units that a merge makes certain are the event of the merge`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            for who in [guest, account] {
                try await world.consume(who, 2)
                _ = try await world.call(who, "call of \(who.account)", hold: 0, units: 1)
            }
            #expect(try await events(world) == 0)
            // Of both uses, one counts: neither call can return its unit.
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await events(world) == 1)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a call that is merged with its unit is the event at its end`(
        driver: StorageDriver
    ) async throws {
        try await withWorld(driver) { world in
            let (guest, account) = (try await world.guest(1), try await world.registered(1))
            try await world.consume(guest, 2)
            let call = try await world.call(guest, "k", hold: 0, units: 1)
            _ = try await world.authority.merge(guest, into: account.account)
            #expect(try await events(world) == 0)
            try await keep(call, world)
            #expect(try await events(world) == 1)
        }
    }
}
