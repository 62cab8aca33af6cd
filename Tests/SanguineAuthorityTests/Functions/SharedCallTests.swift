import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Identical calls that share one run: each is answered and charged as declared, and the end of one
/// does not affect the others.
@Suite("Shared calls", .bounded(.seconds(60)))
struct SharedCallTests {
    private let gate = WatchedState(false)

    private func function(
        _ price: Price = .fixed(5),
        payer: FunctionRules.Payer = .first,
        cache: ResultCache = .forever.public(sharing: "q"),
        streams: Bool = false
    ) -> ScriptedFunction {
        let rules = FunctionRules(price: price, cache: cache, payer: payer, streams: streams)
        return ScriptedFunction("f", rules) { [gate] _, context async throws(Problem) in
            await context.write("one ", 4)
            try await gate.pass()
            await context.write("two", 3)
            return .init(output: "one two", charge: 5)
        }
    }

    private let roomy = CallRunner.Limits(running: 1_024)

    /// Starts calls of this many accounts, which all wait for one run.
    private func start(
        _ count: Int,
        in world: CallWorld,
        _ function: ScriptedFunction
    ) async throws -> (people: [Identity], tasks: [Task<CallAnswer, Never>]) {
        var people: [Identity] = []
        var tasks: [Task<CallAnswer, Never>] = []
        for number in 1...UInt64(count) {
            let who = try await world.account(number)
            people.append(who)
            tasks.append(Task { await world.answer(who, "k", ["q": "x"]) })
            if number == 1 { try await function.waitForRuns(1) }
        }
        try await world.reported.wait(for: "all calls accepted", found: { "\($0.origins.count)" }) {
            $0.origins.count == count
        }
        return (people, tasks)
    }

    private static let payers: [(FunctionRules.Payer, Int64)] = [(.first, 1), (.each, 5)]

    @Test(arguments: payers)
    func `a thousand concurrent identical calls share a run, each charged as declared`(
        payer: FunctionRules.Payer,
        charge: Int64
    ) async throws {
        let function = function(.fixed(5).cached(1), payer: payer)
        let world = CallWorld(function, limits: roomy)
        let (people, tasks) = try await start(1_000, in: world, function)
        gate.open()
        var charges: [Int64: Int] = [:]
        for task in tasks {
            let answer = try await task.finished()
            #expect(answer.status == 200 && answer.output == "one two")
            charges[answer.charged ?? -1, default: 0] += 1
        }
        #expect(function.runCount == 1)
        #expect(charges == (payer == .first ? [5: 1, charge: 999] : [5: 1_000]))
        #expect(try await world.balance(people[0]).available == 95)
        #expect(try await world.balance(people[500]).available == 100 - charge)
        #expect(try await world.isSound())
    }

    @Test func `a leader without a client is charged, and the other calls are not affected`()
        async throws
    {
        let function = function()
        let world = CallWorld(function, limits: roomy)
        let (people, tasks) = try await start(1_000, in: world, function)
        for task in tasks.prefix(10) { task.cancel() }
        gate.open()
        for task in tasks.dropFirst(10) {
            #expect(try await task.finished().output == "one two")
        }
        await world.runner.waitUntilIdle()
        #expect(function.runCount == 1)
        #expect(try await world.balance(people[0]).available == 95)
        #expect(try await world.balance(people[1]).available == 100)
        // The client that disconnected finds its answer by its key.
        let again = await world.answer(people[0], "k", ["q": "x"])
        #expect(again.isReplayed && again.charged == 5)
    }

    @Test func `an error reaches all waiting calls, is not charged, and is not cached`()
        async throws
    {
        let gate = gate
        let isBroken = WatchedState(true)
        var function = function()
        function.body = { _, _ async throws(Problem) in
            try await gate.pass()
            guard !isBroken.value else { throw .upstreamFailed }
            return .init(output: "well", charge: 5)
        }
        let world = CallWorld(function, limits: roomy)
        let (people, tasks) = try await start(100, in: world, function)
        gate.open()
        for task in tasks { #expect(try await task.finished().code == "upstream_failed") }
        #expect(function.runCount == 1)
        #expect(try await world.balance(people[0]).available == 100)

        isBroken.withLock { $0 = false }
        let later = await world.answer(people[7], "k2", ["q": "x"])
        #expect(later.output == "well" && later.charged == 5 && function.runCount == 2)
        #expect(await world.answer(people[0], "k").status == 422)
    }

    @Test func `a call that cannot pay is refused, and the next one leads`() async throws {
        let function = function()
        let world = CallWorld(function)
        let poor = try await world.account(1, tokens: 4)
        let rich = try await world.account(2)
        gate.open()
        #expect(await world.answer(poor, "k", ["q": "x"]).code == "insufficient_tokens")
        #expect(await world.answer(rich, "k", ["q": "x"]).charged == 5)
        #expect(await world.answer(poor, "k", ["q": "x"]).charged == 0)
        #expect(function.runCount == 1)
    }

    @Test func `a refused call can be repeated with its key`() async throws {
        let function = function(.fixed(5).cached(2))
        let world = CallWorld(function)
        let poor = try await world.account(1, tokens: 1)
        gate.open()
        _ = await world.answer(try await world.account(2), "k", ["q": "x"])
        let refused = await world.answer(poor, "k", ["q": "x"])
        #expect(refused.code == "insufficient_tokens" && refused.problem?.required == 2)
        #expect(try await world.balance(poor).available == 1)
    }

    // MARK: - Cancellation

    /// Starts a streamed run with a leading and a following call.
    private func stream(
        payer: FunctionRules.Payer
    ) async throws -> (CallWorld, lead: Identity, follow: Identity, [CallEventStream]) {
        let world = CallWorld(function(payer: payer, streams: true))
        let (lead, follow) = (try await world.account(1), try await world.account(2))
        let first = try await world.stream(lead, "k", ["q": "x"])
        _ = try await first.read(1)
        let second = try await world.stream(follow, "k", ["q": "x"])
        return (world, lead, follow, [first, second])
    }

    @Test func `a leader that cancels its call does not end the other, and each pays its own`()
        async throws
    {
        let (world, lead, follow, events) = try await stream(payer: .each)
        let ending = try await world.delay.advancing { try await world.cancel(lead, "k") }
        #expect(ending.state == .cancelled && ending.charged == 5)
        let heard = try await events[0].read()
        #expect(heard.code == "call_cancelled" && heard.endIndex == 1 && heard.texts == [])
        gate.open()
        let other = try await events[1].read()
        #expect(other.texts == ["one ", "two"] && other.status == 200 && other.endIndex == 2)
        #expect(try await world.balance(lead).available == 95)
        #expect(try await world.balance(follow).available == 95)
        // A reader of the cancelled call sees its parts, and no later ones.
        let again = try await world.find(lead, "k").read()
        #expect(again.texts == ["one "] && again.endIndex == 1 && again.code == "call_cancelled")
        #expect(try await world.isSound())
    }

    @Test func `a following call can be cancelled, and one that pays for others cannot`()
        async throws
    {
        let (world, lead, follow, events) = try await stream(payer: .first)
        let refused = await problem { () throws(Problem) in try await world.cancel(lead, "k") }
        #expect(refused?.code == .operationInProgress)
        let ending = try await world.delay.advancing { try await world.cancel(follow, "k") }
        #expect(ending.state == .cancelled && ending.charged == 0)
        // Now the leader's call is the only one, and can be cancelled.
        let own = try await world.delay.advancing { try await world.cancel(lead, "k") }
        #expect(own.state == .cancelled && own.charged == 5)
        #expect(try await events[0].read().code == "call_cancelled")
        #expect(try await world.isSound())
    }

    private func sharedRun(
        _ number: UInt64,
        onUnread: @escaping @Sendable (SharedRun) -> Void = { _ in }
    ) -> SharedRun {
        SharedRun(
            id: .numbered(number),
            at: ManualClock.start,
            isStreamed: true,
            turn: CallQueue(limit: 1, accountShare: 1).turn(of: "f", FunctionLimits()),
            onUnread: onUnread
        )
    }

    @Test func `no call joins a run that is cut short`() async throws {
        let sharedRun = self.sharedRun(1)
        let table = SharedRunTable(over: ResultMemoryCache(bytes: 1_000))
        var question = FunctionRules(cache: .forever)
        question.version = "1"
        let key = try #require(
            ResultKey(
                "f",
                question,
                input: [:],
                identity: Identity(account: .numbered(1), session: .numbered(2)),
                profile: Account(
                    id: .numbered(1),
                    kind: .guest,
                    timeZone: "UTC",
                    language: "en",
                    createdAt: ManualClock.start
                ),
                sessionLife: .seconds(1),
                now: ManualClock.start
            )
        )
        func find(_ sharedRun: SharedRun) -> SharedRun? {
            switch table.find(key, at: ManualClock.start, else: { sharedRun }) {
            case .lead(let sharedRun), .follow(let sharedRun): sharedRun
            case .known: nil
            }
        }
        let other = self.sharedRun(2)
        #expect(find(sharedRun) === sharedRun && find(other) === sharedRun)
        // Two calls want it, so neither can cancel it for the other.
        #expect(!sharedRun.cancelIfOnesOwn(.callCancelled) && sharedRun.cutReason == nil)
        sharedRun.leave(isUnread: true)
        #expect(sharedRun.cancelIfOnesOwn(.callCancelled))
        #expect(find(other) === other)
        table.remove(key, sharedRun)
        #expect(find(sharedRun) === other)
    }

    @Test func `a run without calls is stopped`() async throws {
        let unread = WatchedState(0)
        let sharedRun = self.sharedRun(1) { _ in unread.withLock { $0 += 1 } }
        #expect(sharedRun.join())
        sharedRun.readerJoined(isFirst: true)
        sharedRun.leave(isUnread: false)
        #expect(sharedRun.cutReason == nil)
        sharedRun.readerLeft()
        // The reader of the other call has not arrived yet.
        #expect(unread.value == 0)
        sharedRun.readerJoined(isFirst: true)
        sharedRun.readerLeft()
        #expect(unread.value == 1 && sharedRun.cutReason == nil)
        sharedRun.leave(isUnread: false)
        #expect(sharedRun.cutReason?.code == .callCancelled)
        #expect(!sharedRun.join())
    }
}
