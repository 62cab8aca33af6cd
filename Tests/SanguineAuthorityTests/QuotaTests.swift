import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// A quota of three readings a day, by the user's calendar.
@Suite("Quotas", .bounded)
struct QuotaTests {
    private let account = Identifier.numbered(1)

    private func moment(_ text: String) throws -> Timestamp { try #require(Timestamp(text)) }

    private func commands(at now: Timestamp) -> QuotaCommands {
        QuotaCommands(limits: ["readings": 3, "letters": 10], now: now)
    }

    private func consume(
        _ key: String,
        _ amount: Int64? = nil,
        at now: Timestamp = ManualClock.start
    ) -> Command<Answer> {
        commands(at: now)
            .consume("readings", account, Submission(key, ConsumeRequest(amount: amount)))
    }

    private func world(in timeZone: String, plan: Account.Plan = .free) -> World {
        var world = World()
        world.open(account, granted: 0, plan: plan, timeZone: timeZone)
        return world
    }

    private func travel(to timeZone: String, in world: inout World) throws {
        var row = try #require(world.loaded([.account(account)]).account(account))
        row.profile.timeZone = timeZone
        world.store(.put(.account(row)))
    }

    private func shown(in world: World, at now: Timestamp) throws -> [Quota] {
        let keys = ["readings", "letters"].map { Key.quota(account, name: $0) }
        let loaded = world.loaded(keys + [.account(account)])
        let profile = try #require(loaded.account(account)).profile
        return commands(at: now).all(of: profile, loaded)
    }

    @Test func `three units a day are granted, and each takes a number of the feed`() throws {
        var world = world(in: "UTC")
        for used: Int64 in 1...3 {
            let answer = try world.perform(consume("k\(used)"))
            let quota = try answer.message(Quota.self)

            #expect(answer.stored.head == 1 + used)
            #expect((quota.limit, quota.used, quota.remaining) == (3, used, 3 - used))
            #expect(quota.resetsAt.description == "2026-11-22T00:00:00.000Z")
        }
        #expect(world.finding(account) == nil)
    }

    @Test func `the fourth unit is refused, with the reset time and the plan that lifts the limit`()
        throws
    {
        var world = world(in: "UTC")
        for key in ["a", "b", "c"] { _ = try world.perform(consume(key)) }
        let before = world.rows
        let refused = try world.mustRefuse(consume("d"))

        #expect(refused.code == .quotaExhausted && refused.status == 402)
        #expect(refused.resetsAt?.description == "2026-11-22T00:00:00.000Z")
        #expect(refused.retryAfter == 12 * 3_600)
        #expect(refused.lifts == ["premium"])
        #expect(world.rows == before)
    }

    @Test func `a period that a wrong clock began in the future does not count`() throws {
        var world = world(in: "Pacific/Auckland")
        let ahead = try moment("2027-11-21T12:00:00Z")
        _ = try world.perform(consume("all", 3, at: ahead))
        #expect(world.refusal(consume("more", at: ahead))?.code == .quotaExhausted)

        #expect(try shown(in: world, at: ManualClock.start).last?.used == 0)
        let quota = try world.perform(consume("right", 1)).message(Quota.self)
        #expect(quota.used == 1)
        #expect(quota.resetsAt - ManualClock.start <= .seconds(25 * 3_600))
    }

    @Test(arguments: ["Pacific/Kiritimati", "Europe/Berlin", "America/Santiago"])
    func `a whole day's period counts from its first moment`(zone: String) throws {
        // Days on which clocks are set back have 25 hours.
        for text in ["2026-10-24T22:00:00Z", "2026-11-20T10:00:00Z", "2026-04-04T03:00:00Z"] {
            var world = world(in: zone)
            let now = try moment(text)
            _ = try world.perform(consume("all", 3, at: now))
            #expect(world.refusal(consume("more", at: now))?.code == .quotaExhausted)
        }
    }

    @Test func `the same key can be used again the next day`() throws {
        var world = world(in: "UTC")
        _ = try world.perform(consume("all", 3))
        #expect(world.refusal(consume("d"))?.code == .quotaExhausted)

        let late = try moment("2026-11-21T23:59:59.999Z")
        #expect(world.refusal(consume("d", at: late))?.retryAfter == 1)
        let next = try world.perform(consume("d", at: late + .milliseconds(1)))
        #expect(try next.message(Quota.self).used == 1)
    }

    @Test func `an amount that does not fit uses no units, and one that fits is used as a whole`()
        throws
    {
        var world = world(in: "UTC")
        _ = try world.perform(consume("a", 2))

        #expect(world.refusal(consume("b", 2))?.code == .quotaExhausted)
        #expect(try world.perform(consume("c", 1)).message(Quota.self).remaining == 0)
    }

    @Test(arguments: [0, -1, .min, WireLimits.amount + 1, .max])
    func `an amount outside the limits is invalid`(amount: Int64) {
        var world = world(in: "UTC", plan: .premium)

        #expect(world.refusal(consume("k", amount))?.code == .invalidContent)
    }

    @Test func `premium use is counted and never refused`() throws {
        var world = world(in: "UTC", plan: .premium)
        for key in 1...20 {
            let quota = try world.perform(consume("k\(key)", WireLimits.amount))
                .message(Quota.self)
            #expect(quota.unlimited && quota.remaining == nil)
        }
    }

    @Test func `a replay returns the old answer, even on another day`() throws {
        var world = world(in: "UTC")
        let first = try world.perform(consume("k"))
        let later = ManualClock.start + .seconds(30 * 3_600)
        let again = try world.perform(consume("k", at: later))

        #expect(again.replayed && again.stored == first.stored)
        #expect(try shown(in: world, at: later).map(\.used) == [0, 0])
    }

    @Test func `an unknown name is not found, before the key is looked up`() throws {
        var world = world(in: "UTC")
        _ = try world.perform(consume("k"))
        let request = Submission("k", ConsumeRequest(amount: 2))
        let command = commands(at: ManualClock.start).consume("wishes", account, request)

        #expect(world.refusal(command)?.code == .notFound)
        #expect(world.refusal(consume("k", 2))?.code == .idempotencyMismatch)
        var empty = World()
        #expect(empty.refusal(consume("k"))?.code == .notFound)
    }

    @Test func `the list shows every quota by name, used or not`() throws {
        var world = world(in: "UTC")
        _ = try world.perform(consume("k"))

        #expect(try shown(in: world, at: ManualClock.start).map(\.name) == ["letters", "readings"])
        #expect(try shown(in: world, at: ManualClock.start).map(\.used) == [0, 1])
    }

    @Test(arguments: [
        ("Europe/Berlin", "2026-03-29", 23), ("Europe/Berlin", "2026-10-25", 25),
        ("America/Sao_Paulo", "2018-11-04", 23), ("Pacific/Kiritimati", "2026-11-21", 24),
    ])
    func `a period ends at the user's midnight, also on days of 23 and 25 hours`(
        zone: String,
        text: String,
        hours: Int
    ) throws {
        var world = world(in: zone)
        let day = try #require(CalendarDay(text))
        let start = day.start(in: try #require(TimeZone(identifier: zone)))
        _ = try world.perform(consume("all", 3, at: start))
        let refused = try world.mustRefuse(consume("one", at: start))

        #expect(refused.retryAfter == hours * 3_600)
        let end = start + .seconds(hours * 3_600)
        #expect(world.refusal(consume("one", at: end - .milliseconds(1))) != nil)
        #expect(try world.perform(consume("one", at: end)).message(Quota.self).used == 1)
    }

    @Test func `travelling east across midnight grants no immediate second quota`() throws {
        var world = world(in: "America/Los_Angeles")
        _ = try world.perform(consume("all", 3))
        try travel(to: "Pacific/Kiritimati", in: &world)
        let refused = try world.mustRefuse(consume("more"))

        // The period that began in Los Angeles ends at midnight there.
        #expect(refused.resetsAt?.description == "2026-11-22T08:00:00.000Z")
        let end = try moment("2026-11-22T08:00:00Z")
        #expect(try world.perform(consume("more", at: end)).message(Quota.self).used == 1)
    }

    @Test func `travelling west back into the same date grants no second quota`() throws {
        var world = world(in: "Pacific/Kiritimati")
        _ = try world.perform(consume("all", 3))  // It is November 22 there.
        try travel(to: "Pacific/Pago_Pago", in: &world)
        let kiritimatiMidnight = try moment("2026-11-22T10:00:00Z")
        let refused = try world.mustRefuse(consume("more", at: kiritimatiMidnight))

        // In Pago Pago, November 22 is yet to come, and its quota is used up.
        #expect(refused.resetsAt?.description == "2026-11-23T11:00:00.000Z")
        let end = try moment("2026-11-23T11:00:00Z")
        #expect(world.refusal(consume("more", at: end - .milliseconds(1))) != nil)
        #expect(try world.perform(consume("more", at: end)).message(Quota.self).used == 1)
    }

    @Test func `a clock that is set back a day grants no second quota`() throws {
        var world = world(in: "UTC")
        _ = try world.perform(consume("all", 3))

        #expect(world.refusal(consume("k", at: ManualClock.start - .seconds(86_400))) != nil)
    }

    @Test func `an unknown zone counts as UTC`() throws {
        var world = world(in: "Mars/Olympus_Mons")
        let quota = try world.perform(consume("k")).message(Quota.self)

        #expect(quota.resetsAt.description == "2026-11-22T00:00:00.000Z")
    }

    /// Plays four months of a traveller who changes zones and uses units at random times.
    @Test(arguments: UInt64(1)...20)
    func `no journey grants more than one quota per date`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let zones = [
            "UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/Sao_Paulo", "Asia/Beirut",
            "Europe/Istanbul", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia",
        ]
        var world = world(in: "UTC")
        let start = try moment("2018-01-15T00:00:00Z")
        var now = start
        var zone = TimeZone.gmt
        var dates: Set<CalendarDay> = []
        var total: Int64 = 0

        for step in 1...600 {
            now = now + .seconds(.random(in: 1...36_000, using: &random))
            if Int.random(in: 1...3, using: &random) == 1 {
                let name = zones[.random(in: zones.indices, using: &random)]
                zone = try #require(TimeZone(identifier: name))
                try travel(to: name, in: &world)
            }
            dates.insert(CalendarDay(containing: now, in: zone))
            let amount = Int64.random(in: 1...3, using: &random)
            if let refused = world.refusal(consume("k\(step)", amount, at: now)) {
                let resetsAt = try #require(refused.resetsAt)
                #expect(refused.code == .quotaExhausted && resetsAt > now)
                // The announced time holds unless the user travels in the meantime.
                var later = world
                #expect(later.refusal(consume("later", amount, at: resetsAt)) == nil)
            } else {
                total += amount
            }
        }

        let days = Int64((now - start) / .seconds(86_400)) + 1
        #expect(total <= 3 * Int64(dates.count))
        #expect(total <= 3 * (days + 2))
        #expect(total >= days, "The user gets a unit a day at least.")
    }
}
