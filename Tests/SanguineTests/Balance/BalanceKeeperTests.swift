import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Balance keeper", .bounded)
struct BalanceKeeperTests {
    typealias Fixture = ClientFixture

    let fixture = Fixture()
    let path = Fixture.askPath
    var authority: StagedAuthority { fixture.authority }

    @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
    @Test func `the hold is visible before the call first suspends`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .request)
        let call = Task.immediate { try await client.call(Ask(question: "why?")) }
        // Nothing has been awaited since, so this runs before anything that the call waits for.
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 3)
        try await authority.reached(path, at: .request)
        try await authority.release(path, at: .request)
        #expect(try await call.finished() == "an answer")
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 0)
    }

    @Test func `the hold is stored before the call is sent`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .request)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(path, at: .request)
        let key = try #require(authority.requests(path).first?.headers["Idempotency-Key"])
        let data = try #require(try client.users.current.store.state(BalanceKeeper.stateName))
        #expect(try #require(SpendingArchive(data)).balance.pending.map(\.key) == [key])
        try await authority.release(path, at: .request)
        _ = try await call.finished()
    }

    @Test func `two calls answered in reverse order never move the number back`() async throws {
        let client = try await fixture.clientWithBalance()
        let seen = Seen(client)
        authority.stop(path, at: .answer)
        let first = Task { try await client.call(Ask(question: "one")) }
        try await authority.reached(path, at: .answer)
        let second = Task { try await client.call(Ask(question: "two")) }
        try await authority.reached(path, at: .answer, count: 2)
        try await authority.release(path, at: .answer, index: 1)
        _ = try await second.finished()
        #expect(client.cached(.balance)?.available == 94)
        try await authority.release(path, at: .answer)
        _ = try await first.finished()
        #expect(client.cached(.balance)?.available == 94)
        #expect(client.cached(.balance)?.held == 0)
        client.close()
        let available = try await seen.values().compactMap { $0.value?.available }
        #expect(available.allSatisfy { [100, 97, 94].contains($0) })
        #expect(available == available.sorted(by: >), "It flickered: \(available)")
    }

    @Test(arguments: [StagedAuthority.Stage.request, .work, .answer])
    func `a refetch during a call shows the call once at every stage`(
        stage: StagedAuthority.Stage
    ) async throws {
        let client = try await fixture.clientWithBalance()
        authority.serveAsk(hold: 10)
        authority.stop(path, at: stage)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(path, at: stage)
        authority.server.grant(50)
        #expect(try await client.refresh(.balance).available == 147)
        #expect(client.cached(.balance)?.held == (stage == .answer ? 0 : 3))
        try await authority.release(path, at: stage)
        _ = try await call.finished()
        #expect(client.cached(.balance)?.available == 147)
        #expect(client.cached(.balance)?.held == 0)
    }

    @Test func `a lost answer is requested again with the same key and charged once`()
        async throws
    {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .answer)
        let call = Task { try await client.result(of: Ask(question: "why?")) }
        try await authority.reached(path, at: .answer)
        authority.open(path, at: .answer)
        try await authority.release(path, at: .answer, losing: .timedOut)
        #expect(try await call.finished().charged == 3)
        let keys = authority.requests(path).map { $0.headers["Idempotency-Key"] }
        #expect(keys.count == 2 && Set(keys).count == 1)
        #expect(authority.server.balance().available == 97)
        #expect(client.cached(.balance)?.available == 97)
    }

    @Test func `a refusal releases the hold and reaches the caller`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.serveAsk(hold: 1_000)
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(Ask(question: "why?"))
        }
        #expect(error?.code == "insufficient_tokens")
        #expect(client.cached(.balance)?.available == 100)
        #expect(authority.count(path) == 1)
    }

    @Test func `an upstream failure releases the hold, even one that a fetch contained`()
        async throws
    {
        let client = try await fixture.clientWithBalance()
        authority.serveAsk(fails: true)
        authority.stop(path, at: .work)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(path, at: .work)
        #expect(try await client.refresh(.balance).available == 97)
        try await authority.release(path, at: .work)
        let refusal = await #expect(throws: SanguineError.self) { try await call.finished() }
        #expect(refusal?.code == "upstream_failed")
        #expect(client.cached(.balance)?.available == 100)
        // Only a newer balance contains the release; it is fetched automatically.
        try await eventually("no call is pending") { client.balance.pendingCalls.isEmpty }
        #expect(client.cached(.balance)?.available == 100)
    }

    @Test func `a call without any answer is unknown, and correct after the next fetch`()
        async throws
    {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .request)
        authority.stop(Fixture.balancePath, at: .request)
        let call = Task { try await client.call(Ask(question: "why?")) }
        for _ in 1...BalanceLimits.callAttempts {
            try await authority.reached(path, at: .request)
            try await authority.release(path, at: .request, losing: .timedOut)
        }
        let error = await #expect(throws: SanguineError.self) { try await call.finished() }
        #expect(error?.code == "outcome_unknown")
        #expect(client.cached(.balance)?.available == 97)
        try await authority.reached(Fixture.balancePath, at: .request)
        try await authority.release(Fixture.balancePath, at: .request)
        try await eventually("100 are available") { client.cached(.balance)?.available == 100 }
        #expect(client.cached(.balance)?.held == 0)
    }

    @Test func `a call that never reached the server is refused and leaves no trace`() async throws
    {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .request)
        let call = Task { try await client.call(Ask(question: "why?")) }
        for _ in 1...BalanceLimits.callAttempts {
            try await authority.reached(path, at: .request)
            try await authority.release(path, at: .request, losing: .offline("no route"))
        }
        await #expect(throws: SanguineError.transport(.offline("no route"))) {
            try await call.finished()
        }
        #expect(client.cached(.balance)?.available == 100)
        #expect(client.balance.pendingCalls.isEmpty)
    }

    @Test func `while the first send runs, the next one waits as the server asks`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.refuse(path, Problem(.operationInProgress, "Wait.", retryAfter: 7))
        #expect(try await client.call(Ask(question: "why?")) == "an answer")
        #expect(fixture.delay.sleeps == [.seconds(7)])
    }

    @Test func `a kill during a call keeps the hold, and the next process settles it`() async throws
    {
        try await Fixture.withFolder { folder in
            let first = try await fixture.clientWithBalance(folder: folder)
            authority.stop(path, at: .work)
            let call = Task { try await first.call(Ask(question: "why?")) }
            try await authority.reached(path, at: .work)
            // From this point, the process is dead and writes nothing.
            first.users.current.store.close()

            let second = try fixture.client(folder: folder)
            #expect(second.cached(.balance)?.available == 97)
            #expect(second.cached(.balance)?.held == 3)
            try await authority.release(path, at: .work)
            _ = try? await call.finished()
            #expect(try await second.value(of: .balance).available == 97)
            #expect(second.cached(.balance)?.held == 0)
            #expect(second.balance.pendingCalls.isEmpty)
        }
    }

    @Test func `an answer that arrives after the sign-out changes nothing`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .answer)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(path, at: .answer)
        await client.signOut()
        try await authority.release(path, at: .answer)
        await #expect(throws: SanguineError.userChanged) { try await call.finished() }
        #expect(client.cached(.balance) == nil)
        #expect(client.balanceHistory.isEmpty)
    }

    @Test func `a fetch that completes after the sign-out changes nothing`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.stop(Fixture.balancePath, at: .answer)
        let fetch = Task { try await client.refresh(.balance) }
        try await authority.reached(Fixture.balancePath, at: .answer)
        await client.signOut()
        await #expect(throws: SanguineError.userChanged) { try await fetch.finished() }
        try await authority.left(Fixture.balancePath, at: .answer)
        #expect(client.cached(.balance) == nil)
    }

    @Test func `a call is not sent for another user`() async throws {
        let client = try fixture.client()
        authority.stop(Fixture.guestPath, at: .answer)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(Fixture.guestPath, at: .answer)
        await client.signOut()
        authority.open(Fixture.guestPath, at: .answer)
        await #expect(throws: SanguineError.userChanged) { try await call.finished() }
        #expect(authority.count(path) == 0)
    }

    @Test func `a cancelled caller does not prevent the number from being correct`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.serveAsk(price: 2)
        authority.stop(path, at: .work)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(path, at: .work)
        call.cancel()
        await #expect(throws: SanguineError.cancelled) { try await call.finished() }
        #expect(client.cached(.balance)?.available == 97)
        try await authority.release(path, at: .work)
        try await eventually("nothing is held") { client.cached(.balance)?.held == 0 }
        #expect(client.cached(.balance)?.available == 98)
    }

    @Test func `an output of the wrong type is charged anyway`() async throws {
        struct Wrong: FunctionCall {
            static let name = "ask"
            static let expectedCost: Int64 = 3
            struct Output: Codable, Sendable { var number: Int }
            let input = Ask.Input(question: "why?")
        }
        let client = try await fixture.clientWithBalance()
        let error = await #expect(throws: SanguineError.self) {
            try await client.result(of: Wrong())
        }
        #expect(error?.code == "decoding")
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 0)
    }

    @Test func `a function's cost is learned and survives a restart`() async throws {
        try await Fixture.withFolder { folder in
            authority.serveAsk(price: 7, hold: 10)
            let first = try await fixture.clientWithBalance(folder: folder)
            _ = try await first.call(Ask(question: "why?"))
            first.close()
            let second = try fixture.client(folder: folder)
            authority.stop(path, at: .request)
            let begun = try second.users.current.functions.begin(Ask(question: "why?"))
            #expect(second.cached(.balance)?.held == 7)
            try await authority.release(path, at: .request)
            _ = try await begun.value()
        }
    }

    @Test func `a balance older than two minutes is fetched once for all callers`() async throws {
        let client = try await fixture.clientWithBalance()
        _ = try await client.value(of: .balance)
        #expect(authority.count(Fixture.balancePath) == 1)
        fixture.clock.advance(by: .seconds(121))
        authority.stop(Fixture.balancePath, at: .answer)
        let readers = (0..<100).map { _ in Task { try await client.value(of: .balance) } }
        try await eventually("100 readers wait") {
            client.queries.entries.waiterCount(of: .balance) == 100
        }
        try await authority.release(Fixture.balancePath, at: .answer)
        for reader in readers { #expect(try await reader.finished().available == 100) }
        #expect(authority.count(Fixture.balancePath) == 2)
    }

    @Test func `observers are notified of every change and nothing else`() async throws {
        let client = try await fixture.clientWithBalance()
        let seen = Seen(client)
        try await seen.wait(for: "100 available") { $0.value?.available == 100 }
        for question in ["one", "two"] {
            _ = try await client.call(Ask(question: question))
            try await seen.wait(for: "nothing held") { $0.value?.held == 0 }
        }
        client.close()
        let states = try await seen.values()
        #expect(zip(states, states.dropFirst()).allSatisfy { $0 != $1 })
        #expect(states.last?.value?.available == 94)
    }

    @Test func `the history contains the server's balances after a restart`() async throws {
        try await Fixture.withFolder { folder in
            let first = try await fixture.clientWithBalance(folder: folder)
            _ = try await first.call(Ask(question: "why?"))
            #expect(first.balanceHistory.map(\.balance.available) == [100, 97])
            first.close()
            #expect(try fixture.client(folder: folder).balanceHistory == first.balanceHistory)
        }
    }

    @Test func `the balance is read like any other query`() async throws {
        let client = try fixture.client()
        #expect(client.cached(.balance) == nil)
        #expect(try await client.value(of: .balance).available == 100)
        #expect(client.cached(.balance)?.available == 100)
        #expect(client.snapshot(of: .balance).asOf == fixture.clock.now())
        let model = await client.model(.balance)
        let shown = await MainActor.run { model.value }
        #expect(shown?.available == 100)
        client.close()
    }

    @Test func `an invalidated balance is fetched again and not taken from an earlier fetch`()
        async throws
    {
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        authority.stop(Fixture.balancePath, at: .answer)
        let early = Task { try await client.refresh(.balance) }
        try await authority.reached(Fixture.balancePath, at: .answer)
        authority.server.grant(50)
        client.invalidate(.balance)
        let late = Task { try await client.value(of: .balance) }
        try await eventually("2 readers wait") {
            client.queries.entries.waiterCount(of: .balance) == 2
        }
        authority.open(Fixture.balancePath, at: .answer)
        try await authority.release(Fixture.balancePath, at: .answer)
        #expect(try await early.finished().available == 100)
        #expect(try await late.finished().available == 150)
    }

    @Test func `a first balance that calls in flight make ambiguous is rejected with the reason`()
        async throws
    {
        let client = try fixture.client()
        defer { client.close() }
        authority.stop(path, at: .request)
        let call = Task { try await client.call(Ask(question: "why?")) }
        try await authority.reached(path, at: .request)
        // A server that reports nothing about the calls in the request.
        let body = try WireCoding.encode(authority.server.balance())
        let silent = TransportResponse(status: 200, body: body)
        authority.script(Fixture.balancePath, [silent, silent])
        await #expect(throws: SanguineError.balanceUnsettled) {
            try await client.value(of: .balance)
        }
        try await authority.release(path, at: .request)
        _ = try await call.finished()
    }

    @Test func `a fetch is cancelled only when its last caller cancels`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        authority.stop(Fixture.balancePath, at: .request)
        let readers = (0..<3).map { _ in Task { try await client.value(of: .balance) } }
        try await eventually("3 readers wait") {
            client.queries.entries.waiterCount(of: .balance) == 3
        }
        try await authority.reached(Fixture.balancePath, at: .request)
        for reader in readers.dropLast() {
            reader.cancel()
            await #expect(throws: SanguineError.cancelled) { try await reader.finished() }
        }
        #expect(client.snapshot(of: .balance).isFetching)
        #expect(authority.stopped(Fixture.balancePath, at: .request) == 1)
        readers.last?.cancel()
        try await authority.left(Fixture.balancePath, at: .request)
        try await eventually("nothing is being fetched") {
            !client.snapshot(of: .balance).isFetching
        }

        authority.open(Fixture.balancePath, at: .request)
        #expect(try await client.value(of: .balance).available == 100)
        #expect(authority.count(Fixture.balancePath) == 2)
    }

    @Test func `an observer keeps a fetch alive, and the last one to leave cancels it`()
        async throws
    {
        let client = try fixture.client()
        defer { client.close() }
        authority.stop(Fixture.balancePath, at: .request)
        let observer = Task { for await _ in client.updates(of: .balance) {} }
        try await authority.reached(Fixture.balancePath, at: .request)
        let reader = Task { try await client.refresh(.balance) }
        try await eventually("a reader waits") {
            client.queries.entries.waiterCount(of: .balance) == 1
        }
        reader.cancel()
        await #expect(throws: SanguineError.cancelled) { try await reader.finished() }
        #expect(authority.stopped(Fixture.balancePath, at: .request) == 1)
        observer.cancel()
        try await observer.finished()
        try await authority.left(Fixture.balancePath, at: .request)
    }

    @Test(arguments: [true, false])
    func `closing the client or signing out cancels a fetch`(
        closes: Bool
    ) async throws {
        let client = try await fixture.clientWithBalance()
        authority.stop(Fixture.balancePath, at: .request)
        let reader = Task { try await client.refresh(.balance) }
        try await authority.reached(Fixture.balancePath, at: .request)
        if closes { client.close() } else { await client.signOut() }
        await #expect(throws: closes ? SanguineError.closed : .userChanged) {
            try await reader.finished()
        }
        try await authority.left(Fixture.balancePath, at: .request)
        client.close()
    }

    /// Loses every send of a call, so that only a fetch of the balance can settle it.
    private func loseCall(_ client: SanguineClient) async throws {
        authority.stop(path, at: .request)
        let call = Task { try await client.call(Ask(question: "why?")) }
        for _ in 1...BalanceLimits.callAttempts {
            try await authority.reached(path, at: .request)
            try await authority.release(path, at: .request, losing: .timedOut)
        }
        let refusal = await #expect(throws: SanguineError.self) { try await call.finished() }
        #expect(refusal?.code == "outcome_unknown")
    }

    @Test func `a hold that a fetch cannot settle is polled at growing intervals`() async throws {
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        for _ in 1...3 { authority.refuse(Fixture.balancePath, Problem(.notFound, "Not now.")) }
        try await loseCall(client)
        try await eventually("no call is pending") { client.balance.pendingCalls.isEmpty }
        #expect(client.cached(.balance)?.available == 100)
        #expect(client.cached(.balance)?.held == 0)
        #expect(authority.count(Fixture.balancePath) == 5)
        let waits = fixture.delay.sleeps.suffix(3).map { $0 / .seconds(1) }
        for (wait, expected) in zip(waits, [2.0, 4, 8]) {
            #expect(abs(wait - expected) <= expected / 4)
        }
    }

    @Test(arguments: [true, false])
    func `polling for a hold stops once the client is closed or the user has left`(
        closes: Bool
    ) async throws {
        let delay = ManualClock()
        let client = try fixture.client { $0.delay = delay }
        _ = try await client.value(of: .balance)
        authority.refuse(Fixture.balancePath, Problem(.notFound, "Not now."))
        authority.refuse(path, Problem(.idempotencyExpired, "Too late."))
        let refusal = await #expect(throws: SanguineError.self) {
            try await client.call(Ask(question: "why?"))
        }
        #expect(refusal?.code == "outcome_unknown")
        try await delay.waitForSleepers(1)
        if closes { client.close() } else { await client.signOut() }
        try await delay.waitForNoSleepers()
        #expect(authority.count(Fixture.balancePath) == 2)
        #expect(authority.count(Fixture.guestPath) == 1)
        client.close()
    }

    @Test func `without a server a call is refused with a readable error`() async throws {
        let client = try SanguineClient(.inMemory())
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(Echo(text: "hello"))
        }
        #expect(error?.code == "not_configured")
    }
}

/// Collects all snapshots delivered to a client's observers.
private struct Seen {
    private let states = WatchedState<[ValueSnapshot<Balance>]>([])
    private let task: Task<Void, Never>

    init(_ client: SanguineClient) {
        let stream = client.updates(of: .balance)
        task = Task { [states] in
            for await state in stream {
                states.withLock { $0.append(state) }
            }
        }
    }

    /// All snapshots, once the client is closed.
    func values() async throws -> [ValueSnapshot<Balance>] {
        try await task.finished("the end of the updates")
        return states.value
    }

    func wait(
        for awaited: String,
        fileID: String = #fileID,
        line: Int = #line,
        until condition: @escaping @Sendable (ValueSnapshot<Balance>) -> Bool
    ) async throws {
        try await states.wait(for: awaited, fileID: fileID, line: line) {
            $0.last.map(condition) ?? false
        }
    }
}
