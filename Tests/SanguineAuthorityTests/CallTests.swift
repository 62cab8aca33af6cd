import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The life of a metered call, with its end and its expiry in every order.
@Suite("Calls", .bounded)
struct CallTests {
    private let account = Identifier.numbered(1)

    private func calls(after seconds: Int = 0) -> CallCommands {
        CallCommands(now: ManualClock.start + .seconds(seconds))
    }

    private func start(
        _ key: String = "k",
        hold: Int64 = 10,
        in world: inout World
    ) throws -> AcceptedCall {
        let start = try world.perform(calls().start(account, Submission(key, hold: hold)))
        return try #require(start.call)
    }

    private func expire(
        _ call: AcceptedCall,
        after seconds: Int = 600,
        in world: inout World
    ) throws -> Bool {
        let id = try #require(call.hold)
        let hold = try #require(world.hold(id))
        return try world.perform(calls(after: seconds).expire(hold))
    }

    private func succeeded(_ charge: Int64) -> CallEnd {
        .succeeded(charge: charge) { balance, _ in
            Array("\(balance.available)/\(balance.held)/\(balance.head)".utf8)
        }
    }

    private let failed = CallEnd.failed(Problem(.upstreamFailed, "Call again."))

    private func text(_ answer: Answer) -> String {
        String(decoding: answer.stored.body, as: UTF8.self)
    }

    @Test func `an accepted call holds its largest cost`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)

        #expect(call.hold == call.operation)
        #expect(world.balance(account)?.available == 90 && world.balance(account)?.held == 10)
        #expect(world.operation(account, "k")?.state == .running(hold: call.hold))
    }

    @Test func `settling charges, returns the new balance, and is replayed`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        #expect(try world.perform(calls().markSent(call)))
        let answer = try world.perform(calls().settle(call, succeeded(4)))

        #expect(answer.stored.status == 200 && text(answer) == "96/0/4")
        #expect(answer.stored.head == 4)
        let again = try world.perform(calls().start(account, Submission("k", hold: 10)))
        #expect(again == .replayed(Answer(answer.stored, replayed: true), run: nil))
        #expect(world.finding(account) == nil)
    }

    @Test func `a failed call releases its hold and returns its problem`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        _ = try world.perform(calls().markSent(call))
        let answer = try world.perform(calls().settle(call, failed))

        #expect(answer.stored.status == 502)
        #expect(try answer.message(Problem.self).code == .upstreamFailed)
        #expect(world.balance(account)?.available == 100 && world.balance(account)?.held == 0)
    }

    private static let charges: [(Int64, Int64)] = [
        (-5, 100), (0, 100), (1, 99), (10, 90), (11, 90), (.max, 90),
    ]

    @Test(arguments: charges)
    func `a charge is never negative and never above the hold`(
        charge: Int64,
        available: Int64
    ) throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        _ = try world.perform(calls().settle(call, succeeded(charge)))

        #expect(world.balance(account)?.available == available)
        #expect(world.finding(account) == nil)
    }

    @Test func `settling twice changes nothing, even with a different second end`() throws {
        for second in [succeeded(4), succeeded(0), failed] {
            var world = World(account, granted: 100)
            let call = try start(in: &world)
            let first = try world.perform(calls().settle(call, succeeded(4)))
            let rows = world.rows

            #expect(try world.perform(calls().settle(call, second)).stored == first.stored)
            #expect(world.rows == rows)
        }
    }

    @Test func `a sent call without an answer is charged when it expires`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        _ = try world.perform(calls().markSent(call))

        #expect(try !expire(call, after: 599, in: &world))
        #expect(try expire(call, in: &world))
        #expect(world.balance(account)?.available == 90 && world.balance(account)?.held == 0)
        // A repetition gets this end, and the late end changes nothing.
        let late = try world.perform(calls(after: 601).settle(call, succeeded(1)))
        #expect(try late.message(Problem.self).code == .upstreamTimeout)
        let again = try world.perform(calls().start(account, Submission("k", hold: 10)))
        #expect(again == .replayed(Answer(late.stored, replayed: true), run: nil))
        #expect(world.balance(account)?.available == 90)
        #expect(world.finding(account) == nil)
    }

    @Test func `an unsent call is released when it expires, and its key is free`()
        throws
    {
        var world = World(account, granted: 100)
        let call = try start(in: &world)

        #expect(try expire(call, in: &world))
        #expect(world.balance(account)?.available == 100)
        #expect(world.operation(account, "k") == nil)
        #expect(try !world.perform(calls(after: 601).markSent(call)))
        #expect(
            world.refusal(calls(after: 601).settle(call, succeeded(4)))?.code == .upstreamTimeout
        )
        #expect(try start(hold: 7, in: &world).hold != nil)
        #expect(world.balance(account)?.available == 93)
    }

    @Test func `the late end of an expired call does not affect a new call with its key`() throws {
        var world = World(account, granted: 100)
        let old = try start(in: &world)
        _ = try expire(old, in: &world)
        let new = try start(hold: 7, in: &world)
        let rows = world.rows

        #expect(
            world.refusal(calls(after: 601).settle(old, succeeded(4)))?.code == .upstreamTimeout
        )
        #expect(world.refusal(calls(after: 601).settle(old, failed))?.code == .upstreamTimeout)
        #expect(try !world.perform(calls(after: 601).markSent(old)))
        #expect(world.rows == rows)
        #expect(world.operation(account, "k")?.state == .running(hold: new.hold))
    }

    @Test func `an expired call is not sent, even before the sweep`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)

        #expect(try world.perform(calls(after: 599).markSent(call)))
        let late = try start("late", in: &world)
        #expect(try !world.perform(calls(after: 600).markSent(late)))
        // So its failure is stored, and everything is released.
        _ = try world.perform(calls(after: 600).settle(late, failed))
        #expect(world.balance(account)?.available == 90)
    }

    @Test func `an expiry that lists the hold before the settlement changes nothing`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        _ = try world.perform(calls().markSent(call))
        let id = try #require(call.hold)
        let listed = try #require(world.hold(id))
        let answer = try world.perform(calls(after: 600).settle(call, succeeded(4)))

        #expect(try !world.perform(calls(after: 600).expire(listed)))
        #expect(world.balance(account)?.available == 96)
        #expect(world.operation(account, "k")?.state == .done(answer.stored))
    }

    @Test(arguments: [Int64(0), 10], [false, true])
    func `a withdrawn call leaves nothing, marked as sent or not, and its key is free`(
        hold: Int64,
        isMarked: Bool
    ) throws {
        var world = World(account, granted: 100)
        let call = try start(hold: hold, in: &world)
        if isMarked { #expect(try world.perform(calls().markSent(call))) }
        try world.perform(calls().withdraw(call))

        #expect(world.balance(account)?.available == 100 && world.balance(account)?.held == 0)
        #expect(world.operation(account, "k") == nil)
        #expect(world.finding(account) == nil)
        let rows = world.rows
        try world.perform(calls().withdraw(call))
        #expect(world.rows == rows)
        #expect(try start(hold: hold, in: &world).key == "k")
    }

    @Test func `a call that has ended cannot be withdrawn`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        let answer = try world.perform(calls().settle(call, succeeded(4)))
        try world.perform(calls().withdraw(call))

        #expect(world.balance(account)?.available == 96)
        #expect(world.operation(account, "k")?.state == .done(answer.stored))
    }

    @Test func `a free call holds nothing, is settled and replayed`() throws {
        var world = World(account, granted: 0)
        let call = try start(hold: 0, in: &world)
        #expect(call.hold == nil && world.balance(account)?.head == 1)
        #expect(try world.perform(calls().markSent(call)))
        let answer = try world.perform(calls().settle(call, succeeded(50)))

        #expect(text(answer) == "0/0/1")
        #expect(try world.perform(calls().settle(call, failed)).stored == answer.stored)
        #expect(world.transfers[account] == nil)
    }

    @Test func `a call of a missing account is not found`() throws {
        var world = World(account, granted: 100)
        let call = try start(in: &world)
        world.store(.delete(.balance(account)))

        #expect(world.refusal(calls().settle(call, succeeded(1)))?.code == .notFound)
        #expect(
            world.refusal(calls().start(account, Submission("n", hold: 1)))?.code == .notFound
        )
        #expect(try !expire(call, in: &world))
    }

    @Test func `one of two calls that together exceed the balance is refused`() throws {
        var world = World(account, granted: 15)
        _ = try start("a", in: &world)
        let second = world.refusal(calls().start(account, Submission("b", hold: 10)))

        #expect(second?.code == .insufficientTokens)
        #expect((second?.available, second?.held, second?.required) == (5, 10, 10))
        #expect(world.operation(account, "b") == nil)
    }
}

/// The cleanup of a crashed process's calls by a new process.
@Suite("Recovery of calls", .bounded)
struct CallRecoveryTests {
    private let clock = ManualClock()
    private let storage = MemoryStorage()

    private func authority() async throws -> (Authority, Identifier) {
        let authority = Authority(storage: storage, keys: SigningKeys(), clock: clock)
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let request = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        return (authority, try await authority.guest(request).signedIn.account.id)
    }

    /// Stores a running free call, as servers did that stored every call from its start.
    private func storeFreeCall(_ account: Identifier, _ key: String) async throws {
        let row = OperationRow(
            account: account,
            key: key,
            fingerprint: Fingerprint("ask", "input").bytes,
            state: .running(hold: nil),
            at: clock.now(),
            run: nil
        )
        let command = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.put(.operation(row))])
        }
        _ = try await storage.perform(command).get()
    }

    @Test func `unsent and free calls are deleted, and sent ones are charged at once`() async throws
    {
        let (before, account) = try await authority()
        let unsent = try await before.start(account, Submission("unsent", hold: 10)).call
        let sent = try #require(try await before.start(account, Submission("sent", hold: 20)).call)
        try await storeFreeCall(account, "free")
        #expect(try await before.markSent(sent))
        #expect(try await before.balance(account).available == 70)

        let (after, _) = try await authority()
        #expect(try await after.recover() == 3)
        let keys = ["unsent", "sent", "free", "never"]
        let balance = try await after.balance(account, operations: keys)
        #expect((balance.available, balance.held) == (80, 0))
        #expect(
            balance.operations == [
                "unsent": OperationState(.unknown), "free": OperationState(.unknown),
                "sent": OperationState(.settled), "never": OperationState(.unknown),
            ]
        )
        #expect(try await after.recover() == 0)
        #expect(try await after.start(account, Submission("unsent", hold: 10)).call != unsent)

        clock.advance(by: .seconds(600))
        #expect(try await after.expireHolds() == 1)
        #expect(try await after.balance(account).available == 80)
        #expect(try await after.verifyLedger().differences.isEmpty)
    }

    @Test func `recovery handles more calls than fit on a page`() async throws {
        let (before, account) = try await authority()
        for number in 1...600 {
            try await storeFreeCall(account, "f\(number)")
        }
        for number in 1...50 {
            _ = try await before.start(account, Submission("p\(number)", hold: 1))
        }

        #expect(try await authority().0.recover() == 650)
        #expect(try await storage.runningOperations(after: nil, limit: 10).isEmpty)
        #expect(try await before.balance(account).available == 100)
    }

    @Test func `a bounded number of holds expires at a time`() async throws {
        let (authority, account) = try await authority()
        for number in 1...10 {
            _ = try await authority.start(account, Submission("\(number)", hold: 1))
        }
        clock.advance(by: .seconds(600))

        #expect(try await authority.expireHolds(limit: 4) == 4)
        #expect(try await authority.balance(account).held == 6)
        #expect(try await authority.expireHolds() == 6)
    }

    @Test func `an answer is kept for two days, and its key forever`() async throws {
        let (authority, account) = try await authority()
        let spend = Submission("k", SpendRequest(amount: 1, reason: "tea"))
        let first = try await authority.spend(account, spend)
        clock.advance(by: .seconds(48 * 3_600))
        try await authority.sweep()
        #expect(try await authority.spend(account, spend).stored == first.stored)
        clock.advance(by: .milliseconds(1))
        try await authority.sweep()

        let refused = await problem { () throws(Problem) in
            try await authority.spend(account, spend)
        }
        #expect(refused?.code == .idempotencyExpired)
        let state = try await authority.balance(account, operations: ["k"]).operations?["k"]
        #expect(state == OperationState(.settled))
    }
}
