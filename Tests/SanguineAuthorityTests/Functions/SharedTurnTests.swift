import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// A shared run that waits for its turn starts with the first turn of any of its calls.
@Suite("Turns of shared runs", .bounded(.seconds(60)))
struct SharedTurnTests {
    /// The accounts whose slow calls may end.
    private let finished = WatchedState<Set<String>>([])

    /// A function with shared answers that is slow for inputs with `slow`.
    private func function(
        payer: FunctionRules.Payer = .first,
        runningPerAccount: Int? = nil
    ) -> ScriptedFunction {
        var rules = FunctionRules(
            price: .fixed(5).cached(1),
            cache: .forever.public(sharing: "q", "slow"),
            payer: payer
        )
        rules.limits.runningPerAccount = runningPerAccount
        return ScriptedFunction("f", rules) { [finished] input, _ async throws(Problem) in
            if let account = input["slow"]?.string {
                do {
                    try await finished.wait(for: "the end of a slow call") { $0.contains(account) }
                } catch {
                    throw Problem(.upstreamFailed, "Cut: \(error)")
                }
            }
            return .init(output: "made", charge: 5)
        }
    }

    private static let shared: JSONValue = ["q": "x"]

    /// Starts a slow call of an account that may run one at a time.
    private func occupy(
        _ who: Identity,
        _ runs: Int,
        _ function: ScriptedFunction,
        in world: CallWorld
    ) async throws -> Task<CallAnswer, Never> {
        let slow: JSONValue = ["slow": .string(who.account.description)]
        let call = Task { await world.answer(who, "slow", slow) }
        try await function.waitForRuns(runs)
        return call
    }

    /// Lets the slow calls of accounts end.
    private func free(_ who: Identity...) {
        for who in who { _ = finished.withLock { $0.insert(who.account.description) } }
    }

    /// Starts a call that shares the run, and waits until this many calls are accepted.
    private func share(
        _ who: Identity,
        _ accepted: Int,
        in world: CallWorld
    ) async throws -> Task<CallAnswer, Never> {
        let call = Task { await world.answer(who, "k", Self.shared) }
        try await world.reported.wait(for: "call \(accepted)", found: { "\($0.origins.count)" }) {
            $0.origins.count == accepted
        }
        return call
    }

    /// The number of concurrent runs, of which an account gets a quarter, and the number of
    /// concurrent calls of the function per account.
    private static let limits: [(running: Int, perAccount: Int?)] = [(4, nil), (64, 1)]

    @Test(arguments: FunctionRules.Payer.allCases, limits)
    func `a call that shares a run does not wait for the account of the leading call`(
        payer: FunctionRules.Payer,
        limits: (running: Int, perAccount: Int?)
    ) async throws {
        let function = function(payer: payer, runningPerAccount: limits.perAccount)
        let world = CallWorld(function, limits: CallRunner.Limits(running: limits.running))
        let (lead, follow) = (try await world.account(1), try await world.account(2))
        let slow = try await occupy(lead, 1, function, in: world)
        let leading = try await share(lead, 2, in: world)
        try await eventually("the run waits") { world.runner.counts.waiting == 1 }
        let answer = try await share(follow, 3, in: world).finished()
        #expect(answer.output == "made" && answer.charged == (payer == .first ? 1 : 5))
        // The leading call has the same answer, and pays for it, without its own turn.
        #expect(try await leading.finished().charged == 5)
        #expect(world.runner.counts == (1, 0) && function.runCount == 2)
        free(lead)
        #expect(try await slow.finished().output == "made")
        #expect(try await world.balance(lead).available == 90)
        #expect(try await world.balance(follow).available == (payer == .first ? 99 : 95))
        #expect(try await world.isSound())
    }

    @Test func `a call that is cancelled while its run waits does not affect the other calls`()
        async throws
    {
        let function = function(payer: .each)
        let world = CallWorld(function, limits: CallRunner.Limits(running: 4))
        let (lead, follow) = (try await world.account(1), try await world.account(2))
        let slow = [
            try await occupy(lead, 1, function, in: world),
            try await occupy(follow, 2, function, in: world),
        ]
        let leading = try await share(lead, 3, in: world)
        let following = try await share(follow, 4, in: world)
        try await eventually("the run waits") { world.runner.counts.waiting == 1 }
        let ending = try await world.cancel(lead, "k")
        #expect(ending.state == .cancelled && ending.charged == 0)
        #expect(try await leading.finished().code == "call_cancelled")
        // The account of the cancelled call no longer gives the run a turn.
        free(lead)
        #expect(try await slow[0].finished().output == "made")
        try await eventually("one run is running, and one waits") { world.runner.counts == (1, 1) }
        free(follow)
        let answer = try await following.finished()
        #expect(answer.output == "made" && answer.charged == 5)
        #expect(try await slow[1].finished().output == "made")
        #expect(function.runCount == 3)
        #expect(try await world.balance(lead).available == 95)
        #expect(try await world.balance(follow).available == 90)
        // The answer is cached although the leading call was cancelled.
        #expect(await world.answer(lead, "k2", Self.shared).isFromCache)
        await world.runner.waitUntilIdle()
        #expect(world.runner.counts == (0, 0))
        #expect(try await world.isSound())
    }

    @Test func `a call that is cancelled gives up its turn in a run that still waits`() async throws
    {
        let function = function(payer: .each)
        let world = CallWorld(function, limits: CallRunner.Limits(running: 4))
        let (lead, follow) = (try await world.account(1), try await world.account(2))
        let slow = [
            try await occupy(lead, 1, function, in: world),
            try await occupy(follow, 2, function, in: world),
        ]
        let leading = try await share(lead, 3, in: world)
        let following = try await share(follow, 4, in: world)
        try await eventually("the run waits") { world.runner.counts.waiting == 1 }
        #expect(try await world.cancel(follow, "k").charged == 0)
        #expect(try await following.finished().code == "call_cancelled")
        free(follow)
        #expect(try await slow[1].finished().charged == 5)
        try await eventually("one run is running, and one waits") { world.runner.counts == (1, 1) }
        free(lead)
        #expect(try await leading.finished().charged == 5)
        #expect(try await slow[0].finished().charged == 5)
        #expect(try await world.balance(follow).available == 95)
        await world.runner.waitUntilIdle()
        #expect(world.runner.counts == (0, 0))
    }

    @Test func `a call of a refused account leads no run that others share`()
        async throws
    {
        var function = function()
        let kept = Identifier.numbered(1)
        let problem = Problem(.overloaded, "Wait.", retryAfter: 5)
        function.unavailableFor = { $0 == kept ? problem : nil }
        let world = CallWorld(function)
        let (out, other) = (try await world.account(1), try await world.account(2))
        // The call of the other account waits for the first one to lead, and then leads itself.
        let refused = Task { await world.answer(out, "k", Self.shared) }
        let answer = Task { await world.answer(other, "k", Self.shared) }
        #expect(try await answer.finished().output == "made")
        _ = try await refused.finished()
        #expect(await world.answer(out, "l", ["q": "y"]).code == "overloaded")
        #expect(function.runCount == 1)
        #expect(try await world.balance(out).held == 0)
        // It gets the cached answers of other accounts.
        #expect(await world.answer(out, "m", Self.shared).isFromCache)
    }

    @Test(arguments: FunctionRules.Payer.allCases)
    func `a run whose leading account is excluded while it waits is made for another account`(
        payer: FunctionRules.Payer
    ) async throws {
        let excluded = WatchedState<Set<Identifier>>([])
        let problem = Problem(.overloaded, "Wait.", retryAfter: 5)
        let inner = function(payer: payer)
        var function = ScriptedFunction("f", inner.rules) { input, context async throws(Problem) in
            // An upstream refuses the excluded account, as its breaker does.
            guard let caller = context.caller, !excluded.value.contains(caller) else {
                throw problem
            }
            return try await inner.body(input, context)
        }
        function.unavailableFor = { excluded.value.contains($0) ? problem : nil }
        let world = CallWorld(function, limits: CallRunner.Limits(running: 4))
        let (lead, follow) = (try await world.account(1), try await world.account(2))
        let slow = [
            try await occupy(lead, 1, function, in: world),
            try await occupy(follow, 2, function, in: world),
        ]
        let leading = try await share(lead, 3, in: world)
        let following = try await share(follow, 4, in: world)
        try await eventually("the run waits") { world.runner.counts.waiting == 1 }
        excluded.withLock { _ = $0.insert(lead.account) }
        // The excluded account has the next turn.
        free(lead)
        #expect(try await following.finished().output == "made")
        #expect(try await leading.finished().output == "made")
        free(follow)
        for call in slow { _ = try await call.finished() }
        await world.runner.waitUntilIdle()
        #expect(world.runner.counts == (0, 0))
        #expect(try await world.isSound())
    }

    @Test func `a run whose accounts are all excluded while it waits costs nothing`() async throws {
        let excluded = WatchedState<Set<Identifier>>([])
        let problem = Problem(.overloaded, "Wait.", retryAfter: 5)
        let inner = function(payer: .each)
        var function = ScriptedFunction("f", inner.rules) { input, context async throws(Problem) in
            guard let caller = context.caller, !excluded.value.contains(caller) else {
                throw problem
            }
            return try await inner.body(input, context)
        }
        function.unavailableFor = { excluded.value.contains($0) ? problem : nil }
        let world = CallWorld(function, limits: CallRunner.Limits(running: 4))
        let lead = try await world.account(1)
        let slow = try await occupy(lead, 1, function, in: world)
        let leading = try await share(lead, 2, in: world)
        try await eventually("the run waits") { world.runner.counts.waiting == 1 }
        excluded.withLock { _ = $0.insert(lead.account) }
        free(lead)
        #expect(try await leading.finished().code == "overloaded")
        #expect(try await slow.finished().charged == 5)
        #expect(try await world.balance(lead).available == 95)
        await world.runner.waitUntilIdle()
    }

    @Test func `a call leads its own run after all calls that were to lead it are refused`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        let profile = try await world.authority.profile(who.account)
        let key = try #require(
            ResultKey(
                "f",
                function.rules,
                input: Self.shared,
                identity: who,
                profile: profile,
                sessionLife: world.authority.settings.refreshTokenLife,
                now: world.wall.now()
            )
        )
        let services = world.runner.services
        func lead() -> SharedRun {
            let turn = services.queue.turn(of: "f", FunctionLimits())
            let new = SharedRun(
                id: .numbered(1),
                at: world.wall.now(),
                isStreamed: false,
                turn: turn
            ) { _ in }
            _ = services.sharedRuns.find(key, at: world.wall.now()) { new }
            return new
        }
        var leader = lead()
        let call = Task { await world.answer(who, "k", Self.shared) }
        for number in 1...CallLimits.refusedLeaders {
            let refused = leader
            try await eventually("the call waits for leader \(number)") { refused.callCount == 2 }
            services.sharedRuns.remove(key, refused)
            leader = lead()
            refused.election.resolve(false)
        }
        #expect(try await call.finished().output == "made")
        #expect(function.runCount == 1 && leader.election.value == nil)
    }

    @Test func `a run that gets no turn in time is not started, and costs nothing`() async throws {
        let function = function(payer: .each)
        let world = CallWorld(function, limits: CallRunner.Limits(running: 4))
        let (lead, follow) = (try await world.account(1), try await world.account(2))
        let slow = [
            try await occupy(lead, 1, function, in: world),
            try await occupy(follow, 2, function, in: world),
        ]
        let calls = [
            try await share(lead, 3, in: world), try await share(follow, 4, in: world),
        ]
        try await world.delay.waitForSleepers(1, dueIn: .seconds(60))
        world.delay.advance(by: .seconds(60))
        for call in calls { #expect(try await call.finished().code == "overloaded") }
        #expect(function.runCount == 2 && world.runner.counts == (2, 0))
        free(lead, follow)
        for call in slow { #expect(try await call.finished().charged == 5) }
        #expect(try await world.balance(lead).available == 95)
        #expect(try await world.balance(follow).available == 95)
    }
}
