import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Streamed calls", .bounded)
struct FunctionStreamTests {
    let stage = StreamStage()

    @Test func `the hold is shown at once, then the parts in order, then the result`()
        async throws
    {
        let client = try await stage.launch()
        let call = Tell(parts: 5, isWaiting: true)
        let stream = try client.stream(call)
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 3)
        stage.allow(5)
        let parts = try await stream.parts()
        #expect(parts == call.texts)
        let result = try await stream.whole()
        #expect(result.output == call.text && result.charged == 3)
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 0)
        #expect(client.openCalls.isEmpty && client.balance.pendingCalls.isEmpty)
    }

    @Test(arguments: 0...6)
    func `a stream cut after any event continues without gaps and is charged once`(
        parts: Int
    ) async throws {
        let client = try await stage.launch()
        stage.network.breakStream(of: StreamStage.path, afterParts: parts)
        let call = Tell(seed: UInt64(parts), parts: 6)
        let stream = try client.stream(call)
        #expect(try await stream.rest() == call.text)
        #expect(try await stream.whole().output == call.text)
        #expect(stage.network.count(of: .streamBroken) == 1)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `a reader slower than the network continues over other connections`() async throws {
        let hasty = HastyTransport(stage.authority, limitBytes: 500)
        var configuration = SanguineClient.Configuration(server: URL(string: "http://test.invalid"))
        configuration.isInMemory = true
        configuration.transport = hasty
        configuration.delay = SkippingClock()
        configuration.logger = .silent
        let client = try SanguineClient(configuration)
        let call = Tell(parts: 200)
        let stream = try client.stream(call)
        var iterator = stream.makeAsyncIterator()
        let first = try await iterator.next()
        try await eventually("the connection of the slow reader is cut") { hasty.cuts > 0 }
        #expect(try await (first ?? "") + stream.rest() == call.text)
        #expect(stage.authority.balance().available == 97)
    }

    @Test func `waiting for the result skips the parts`() async throws {
        let client = try await stage.launch()
        let call = Tell(parts: 9)
        #expect(try await client.stream(call).whole().output == call.text)
    }

    @Test func `the caller gives up when the network always breaks the stream at once`()
        async throws
    {
        let client = try await stage.launch()
        var faults = FaultyNetwork.Faults()
        faults.streamBreak = 1
        stage.network.faults = faults
        let stream = try client.stream(Tell(parts: 3))
        let error = await #expect(throws: SanguineError.self) { try await stream.rest() }
        #expect(error?.code == "outcome_unknown")
        #expect(stage.network.count(of: .streamBroken) == BalanceLimits.callAttempts)
        #expect(client.openCalls.map(\.key) == [stream.key])
        stage.network.faults = .none
        // The call was made anyway and can be found again.
        let found = try await client.result(of: Tell.self, key: stream.key)
        #expect(found.output == Tell(parts: 3).text && client.openCalls.isEmpty)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `a cancelled reader does not stop the call, and the next reader continues`()
        async throws
    {
        let client = try await stage.launch()
        let call = Tell(parts: 4, isWaiting: true)
        let stream = try client.stream(call)
        stage.allow(2)
        let seen = WatchedState("")
        let reading = Task {
            for try await part in stream { seen.withLock { $0 += part } }
        }
        let beginning = call.texts.prefix(2).joined()
        try await seen.wait(for: "two parts") { $0 == beginning }
        reading.cancel()
        await #expect(throws: SanguineError.cancelled) { try await reading.finished() }
        #expect(client.openCalls.map(\.state) == [.running])
        #expect(client.cached(.balance)?.held == 3)
        stage.allow(4)
        let rest = try await stream.rest()
        #expect(seen.withLock { $0 } + rest == call.text)
        #expect(stage.count("DELETE /v1/calls/\(stream.key)") == 0)
        #expect(try await stage.isSettled(client, available: 97))
        #expect(client.openCalls.isEmpty)
    }

    @Test func `a released stream can be found by its key, also from another device`()
        async throws
    {
        let authority = InMemoryAuthority(accounts: .one)
        authority.serve(Tell.self) { input, write in
            for text in Tell(seed: input.seed, parts: input.parts).texts { await write(text) }
            return Tell(seed: input.seed, parts: input.parts).text
        }
        let devices = (1...2).map { seed in
            TestDevice(network: authority, seed: UInt64(seed)) {
                $0.logger = .silent
                $0.delay = SkippingClock()
            }
        }
        let (first, second) = (try devices[0].launch(), try devices[1].launch())
        let call = Tell(parts: 8)
        let key = try first.stream(call).key
        try await eventually("the call is charged") {
            authority.balance().available == 97
        }
        #expect(try await second.stream(of: Tell.self, key: key).rest() == call.text)
        #expect(try await first.result(of: Tell.self, key: key).output == call.text)
        #expect(first.openCalls.isEmpty && authority.balance().available == 97)
        let error = await #expect(throws: SanguineError.self) {
            try await second.result(of: Tell.self, key: "another")
        }
        #expect(error?.code == "not_found")
    }

    @Test func `a call still in flight is found by its key`() async throws {
        let client = try await stage.launch()
        let call = Tell(parts: 3)
        let key = try client.stream(call).key
        #expect(try await client.result(of: Tell.self, key: key).output == call.text)
        let other = try client.stream(call).key
        #expect(try await client.stream(of: Tell.self, key: other).rest() == call.text)
        #expect(try await stage.isSettled(client, available: 94))
    }

    @Test func `cancelling ends the call once, and its reader is notified`() async throws {
        let client = try await stage.launch()
        let call = Tell(parts: 4, isWaiting: true)
        let stream = try client.stream(call)
        stage.allow(1)
        let seen = WatchedState("")
        let reading = Task {
            for try await part in stream { seen.withLock { $0 += part } }
        }
        try await seen.wait(for: "a part") { [call] in $0 == call.texts[0] }
        #expect(try await stream.cancel() == 3)
        let error = await #expect(throws: SanguineError.self) { try await reading.finished() }
        #expect(error?.code == "call_cancelled")
        #expect(try await stream.cancel() == 3)
        #expect(try await stage.isSettled(client, available: 97))
        #expect(client.openCalls.isEmpty)
    }

    @Test func `a call cancelled before it produces anything is refunded`() async throws {
        let client = try await stage.launch()
        let stream = try client.stream(Tell(parts: 1, isWaiting: true))
        #expect(try await stream.cancel() == 0)
        let refusal = await #expect(throws: SanguineError.self) { try await stream.whole() }
        #expect(refusal?.code == "call_cancelled")
        #expect(try await stage.isSettled(client, available: 100))
    }

    @Test func `a failure after the first part reports its charge`() async throws {
        stage.authority.serve(Tell.self) { _, write in
            await write("Once")
            throw Problem(.upstreamFailed, "A test's refusal.")
        }
        let client = try await stage.launch()
        let stream = try client.stream(Tell(parts: 1))
        var iterator = stream.makeAsyncIterator()
        let part = try await iterator.next()
        #expect(part == "Once")
        await #expect {
            _ = try await iterator.next()
        } throws: { error in
            guard case SanguineError.problem(let problem) = error else { return false }
            return problem.code == .upstreamFailed && problem.charged == 3
        }
        try await eventually("the call is settled") { client.balance.pendingCalls.isEmpty }
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.openCalls.isEmpty)
    }

    @Test func `a function without streaming delivers one part and its result`() async throws {
        struct Whole: FunctionCall {
            static let name = "whole"
            typealias Output = String
            var input = ["a": 1]
        }
        stage.authority.serve(Whole.self) { _ in "all of it" }
        let client = try await stage.launch()
        let stream = try client.stream(Whole())
        let parts = try await stream.parts()
        #expect(parts == ["all of it"])
        #expect(try await stream.whole().output == "all of it")
    }

    @Test func `a transport without streams delivers one part and the result`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        let stream = try client.stream(Ask(question: "why?"))
        #expect(try await stream.rest() == "an answer")
        #expect(try await stream.whole().charged == 3)
        #expect(client.cached(.balance)?.available == 97)
    }

    @Test func `a refused call releases its hold and delivers nothing`() async throws {
        stage.authority.setBalance(2)
        let client = try await stage.launch()
        let stream = try client.stream(Tell(parts: 1))
        let error = await #expect(throws: SanguineError.self) { try await stream.rest() }
        #expect(error?.code == "insufficient_tokens")
        #expect(client.cached(.balance)?.available == 2)
        #expect(client.openCalls.isEmpty && client.balance.pendingCalls.isEmpty)
    }

    @Test func `a second reading task gets an error`() async throws {
        let client = try await stage.launch()
        let stream = try client.stream(Tell(parts: 1, isWaiting: true))
        let readers = (1...2).map { _ in Task { try await stream.rest() } }
        let first = await withTaskGroup(of: SanguineError?.self) { group in
            for reader in readers {
                group.addTask {
                    do {
                        _ = try await reader.finished()
                        return nil
                    } catch {
                        return error as? SanguineError
                    }
                }
            }
            // The first reader waits for the part.
            let first = await group.next() ?? nil
            stage.allow(1)
            return first
        }
        #expect(first?.code == "invalid_declaration")
    }

    @Test func `a quote reports the hold and holds nothing`() async throws {
        let client = try await stage.launch()
        let quote = try await client.quote(Tell(parts: 1))
        #expect(quote == Quote(estimate: 3, hold: 3))
        #expect(stage.authority.balance().held == 0 && client.balance.pendingCalls.isEmpty)
    }

    @Test func `a quote names the thread of the call`() async throws {
        let client = try await stage.launch()
        // The function keeps no history, so the server refuses a thread.
        let error = await #expect(throws: SanguineError.self) {
            try await client.quote(Tell(parts: 1), in: .new())
        }
        #expect(error?.code == "invalid_content")
    }

    @Test func `a plain call killed in flight is found by its key`() async throws {
        let client = try await stage.launch()
        stage.allow(0)
        let waiting = Task { try await client.result(of: Tell(parts: 2, isWaiting: true)) }
        try await eventually("the call is held") { stage.authority.balance().held == 3 }
        let key = try #require(client.openCalls.first?.key)
        try stage.device.kill()
        let refusal = await #expect(throws: SanguineError.self) { try await waiting.finished() }
        #expect(refusal == .cancelled)
        let second = try await stage.launch()
        #expect(second.openCalls.map(\.key) == [key])
        stage.allow(2)
        let call = Tell(parts: 2, isWaiting: true)
        #expect(try await second.result(of: Tell.self, key: key).output == call.text)
        #expect(second.openCalls.isEmpty)
        #expect(try await stage.isSettled(second, available: 97))
    }
}
