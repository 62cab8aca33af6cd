import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Products of 30 days without an end of their own.
@Suite("Passes of a plan", .bounded)
struct PlanPassTests {
    private static let day = 86_400

    /// A pass that is bought after a number of days.
    private func pass(
        _ id: String,
        _ world: PurchaseWorld,
        after days: Int = 0,
        _ more: [String: JSONValue] = [:]
    ) -> [String: JSONValue] {
        world.store.transaction(
            id,
            of: "pass",
            ["purchaseDate": world.milliseconds(after: days * Self.day)].merging(more) { $1 }
        )
    }

    private func days(_ count: Int, _ world: PurchaseWorld) -> Timestamp {
        world.store.now + .seconds(count * Self.day)
    }

    private func end(_ account: Identifier, _ world: PurchaseWorld) async throws -> Timestamp? {
        try await world.authority.overview(of: account).planExpiresAt
    }

    @Test func `two passes of one day add up`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.purchase(account, pass("1", world))
        let answer = try await world.purchase(account, pass("2", world))
        #expect(answer.plan == .premium)
        #expect(answer.planExpiresAt == days(60, world))
        world.clock.advance(by: .seconds(60 * Self.day - 1))
        #expect(try await world.plan(account) == .premium)
        world.clock.advance(by: .seconds(1))
        #expect(try await world.plan(account) == .free)
    }

    @Test func `each unit of a transaction counts`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let answer = try await world.purchase(account, pass("1", world, ["quantity": 2]))
        #expect(answer.planExpiresAt == days(60, world))
    }

    @Test func `a pass that is sent repeatedly counts once`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        for number in 0..<3 {
            try await world.purchase(account, pass("1", world), key: "first \(number)")
            try await world.purchase(account, pass("2", world), key: "second \(number)")
            try await world.notify("ONE_TIME_CHARGE", "n\(number)", pass("1", world))
        }
        #expect(try await end(account, world) == days(60, world))
    }

    @Test func `a pass begins when the one before it ends, in any order of arrival`()
        async throws
    {
        let world = try PurchaseWorld()
        let account = try await world.account()
        world.clock.advance(by: .seconds(100 * Self.day))
        try await world.purchase(account, pass("3", world, after: 95))
        #expect(try await end(account, world) == days(125, world))
        // Bought in this order: 60 days from the first day, and the third after a gap.
        try await world.purchase(account, pass("2", world, after: 20))
        try await world.purchase(account, pass("1", world))
        #expect(try await end(account, world) == days(125, world))
        // With a fourth one, there is no gap.
        try await world.purchase(account, pass("4", world, after: 50, ["quantity": 2]))
        #expect(try await end(account, world) == days(150, world))
    }

    @Test func `a refund takes only the days of its own pass, until it is reversed`()
        async throws
    {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.purchase(account, pass("1", world))
        try await world.purchase(account, pass("2", world))
        try await world.notify("REFUND", "n1", pass("1", world), after: 10)
        #expect(try await end(account, world) == days(30, world))
        try await world.notify("REFUND_REVERSED", "n2", pass("1", world), after: 20)
        #expect(try await end(account, world) == days(60, world))
        try await world.notify("REFUND", "n3", pass("2", world), after: 30)
        try await world.notify("REFUND", "n4", pass("1", world), after: 30)
        #expect(try await world.plan(account) == .free)
    }

    @Test func `a refund of one unit takes its part of the days`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.purchase(account, pass("1", world, ["quantity": 2]))
        let refund: [String: JSONValue] = [
            "quantity": 2, "revocationDate": world.milliseconds(after: 10),
            "revocationPercentage": 50_000,
        ]
        try await world.notify("REFUND", "n1", pass("1", world, refund), after: 10)
        #expect(try await end(account, world) == days(30, world))
        #expect(try await world.plan(account) == .premium)
    }

    @Test func `a refund that comes before the pass is kept for it`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        try await world.notify("REFUND", "n1", pass("1", world), after: 10)
        try await world.purchase(account, pass("1", world))
        #expect(try await world.plan(account) == .free)
        try await world.purchase(account, pass("2", world))
        #expect(try await end(account, world) == days(30, world))
    }

    @Test func `a pass runs while a subscription does`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let month = world.store.transaction(
            "1",
            of: "premium",
            ["expiresDate": world.milliseconds(after: 40 * Self.day)]
        )
        try await world.purchase(account, month)
        try await world.purchase(account, pass("2", world))
        #expect(try await end(account, world) == days(40, world))
        try await world.purchase(account, pass("3", world))
        #expect(try await end(account, world) == days(60, world))
        // The refund of one source leaves the others.
        try await world.notify("REFUND", "n1", month, after: 10)
        #expect(try await end(account, world) == days(60, world))
    }

    @Test func `the passes of a merged guest and its account add up`() async throws {
        let world = try PurchaseWorld()
        var who: [Identity] = []
        for number in 0..<2 {
            let session = try await world.guest(number).signedIn.session
            who.append(try await world.authority.tokens.verify(session.accessToken))
            try await world.purchase(who[number].account, pass("\(number)", world))
        }
        _ = try await world.authority.register(.email("ana@example.org"), email: nil, who[1])
        _ = try await world.authority.merge(who[0], into: who[1].account)
        #expect(try await end(who[1].account, world) == days(60, world))
        try await world.notify("REFUND", "n1", pass("0", world), after: 10)
        #expect(try await end(who[1].account, world) == days(30, world))
    }

    @Test func `a pass in an older document keeps its end`() async throws {
        let world = try PurchaseWorld()
        let account = try await world.account()
        let old = StoreSubscription(
            original: "1",
            account: account,
            periods: [
                "1": StoreSubscription.Period(
                    endsAt: days(10, world),
                    isVoid: false,
                    knownAt: Timestamp(millisecondsSince1970: 0)
                )
            ],
            graceKnownAt: Timestamp(millisecondsSince1970: 0),
            knownAt: Timestamp(millisecondsSince1970: 0)
        )
        _ = try await world.storage.perform(
            Command(keys: []) { _ in Decision((), changes: [.put(old)]) }
        )
        try await world.purchase(account, pass("1", world))
        #expect(try await end(account, world) == days(10, world))
        try await world.purchase(account, pass("2", world))
        #expect(try await end(account, world) == days(40, world))
    }

    @Test func `a pass beyond the limit counts from its purchase, and once`() throws {
        let begin = ManualClock.start
        let row = AccountRow(
            profile: Account(
                id: Identifier(at: begin),
                kind: .guest,
                timeZone: "UTC",
                language: "en",
                createdAt: begin
            ),
            seq: 1
        )
        var sources = PlanSources(of: row)
        for _ in 0..<2 {
            for number in 0...PlanPass.limit {
                let pass = PlanPass(boughtAt: begin, seconds: 86_400, refundedPart: 0)
                var subscription = StoreSubscription(
                    original: "\(1_000 + number)",
                    graceKnownAt: begin,
                    knownAt: begin
                )
                subscription.add(
                    .init(endsAt: pass.ownEnd, isVoid: false, knownAt: begin, pass: pass),
                    of: subscription.original
                )
                sources.set(subscription)
            }
        }
        #expect(sources.passes?.count == PlanPass.limit)
        let end = begin + .seconds(PlanPass.limit * Self.day)
        #expect(sources.plan(at: begin).endsAt == end)
        sources.drop(before: end + PlanPass.kept)
        #expect(sources.passes?.isEmpty == true && sources.purchases.isEmpty)
    }
}
