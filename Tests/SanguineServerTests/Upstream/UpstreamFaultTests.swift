import HostileUpstream
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// Every fault of an upstream, and the error it causes.
@Suite("Upstream faults", .bounded)
struct UpstreamFaultTests {
    private static let honest = HostileAnswer(to: "id=a words=5")
    private static let usage = UpstreamUsage(promptTokens: 2, completionTokens: 5)
    private static let broken = UpstreamError.failed(mayHaveBeenSent: true)

    @Test(arguments: [true, false])
    func `a correct upstream is understood`(streamed: Bool) async throws {
        try await UpstreamWorld.with(.none) { world in
            let asked = await world.ask(streamed: streamed)
            #expect(asked.answer?.text == Self.honest.text)
            #expect(asked.answer?.usage == Self.usage)
            #expect(asked.answer?.finishReason == "stop")
            #expect(asked.answer?.body.isEmpty == streamed)
            #expect(asked.pieces.joined() == (streamed ? Self.honest.text : ""))
            #expect(asked.pieces.count == (streamed ? 5 : 0))
        }
    }

    @Test(
        arguments: [
            (.refuses(status: 401), .refused(status: 401, retryAfterSeconds: nil)),
            (
                .refuses(status: 429, retryAfter: "7"),
                .refused(status: 429, retryAfterSeconds: 7)
            ),
            (
                .refuses(status: 503, retryAfter: "Sun, 06 Nov 1994 08:49:47 GMT"),
                .refused(status: 503, retryAfterSeconds: 10)
            ),
            (
                .refuses(status: 503, retryAfter: "soon"),
                .refused(status: 503, retryAfterSeconds: nil)
            ),
            (.refuses(status: 500), .refused(status: 500, retryAfterSeconds: nil)),
            (.garbage, .unreadable),
            (.cut(bytes: 0), broken), (.cut(bytes: 40), broken), (.reset(bytes: 0), broken),
            (.reset(bytes: 40), broken),
        ] as [(HostileUpstream.Fault, UpstreamError)],
        [true, false]
    )
    func `each fault causes its error`(
        _ fault: (HostileUpstream.Fault, UpstreamError),
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with(fault.0) { world in
            let asked = await world.ask(streamed: streamed)
            #expect(asked.error?.withoutWords == fault.1)
            #expect(asked.pieces.isEmpty)
        }
    }

    @Test(arguments: 0...60)
    func `a stream cut anywhere yields whole words and fails`(cut: Int) async throws {
        let bytes = cut * 13
        try await UpstreamWorld.with([{ _ in .cut(bytes: bytes) }]) { world in
            let asked = await world.ask()
            #expect(asked.error == Self.broken)
            let text = asked.pieces.joined()
            #expect(Self.honest.text.hasPrefix(text))
            // The invoice agrees with the received words.
            #expect(world.upstreams[0].invoice["a"]?.completionTokens == asked.pieces.count)
        }
    }

    @Test(arguments: [.silence, .headOnly] as [HostileUpstream.Fault], [true, false])
    func `a silent upstream times out`(
        fault: HostileUpstream.Fault,
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with(fault) { world in
            async let asked = world.ask(within: .seconds(20), streamed: streamed)
            try await world.upstreams[0].state.wait(for: "the request") { $0.requests == 1 }
            try await world.clock.waitForSleepers(1)
            world.clock.advance(by: .seconds(20))
            #expect(await asked.error == .timeout(mayHaveBeenSent: true))
            try await world.upstreams[0].state.wait(for: "a closed connection") { $0.closed == 1 }
        }
    }

    @Test func `an endless stream times out and keeps the words received before`()
        async throws
    {
        try await UpstreamWorld.with(.neverEnds) { world in
            let words = WatchedState(0)
            async let asked = world.ask(within: .seconds(20)) { _ in words.withLock { $0 += 1 } }
            try await words.wait(for: "20 words") { $0 >= 20 }
            world.clock.advance(by: .seconds(20))
            #expect(await asked.error == .timeout(mayHaveBeenSent: true))
            let hostile = world.upstreams[0]
            try await hostile.state.wait(for: "a closed connection") { $0.closed == 1 }
            #expect(await asked.pieces.count <= hostile.invoice["a"]?.completionTokens ?? 0)
        }
    }

    @Test func `a stream times out on silence, not on length`() async throws {
        try await UpstreamWorld.with(.none) { world in
            let hostile = world.upstreams[0]
            let words = WatchedState(0)
            // The clock advances by 30 s per word: 90 words take 45 minutes.
            async let asked = world.ask("id=a words=90 ahead=1", within: .seconds(7_200)) { event in
                guard !event.text.isEmpty else { return }
                world.clock.advance(by: .seconds(30))
                words.withLock { $0 += 1 }
                hostile.acknowledge(words.value, of: "a")
            }
            #expect(await asked.answer != nil)
            #expect(words.value == 90)
        }
    }

    @Test func `a stream that pauses for the upstream's timeout is cut`() async throws {
        try await UpstreamWorld.with(.none) { world in
            let words = WatchedState(0)
            let isOver = WatchedState(false)
            async let asked = {
                defer { isOver.withLock { $0 = true } }
                return await world.ask("id=a words=90 ahead=1", within: .seconds(7_200)) { event in
                    if !event.text.isEmpty { words.withLock { $0 += 1 } }
                }
            }()
            try await words.wait(for: "the first word") { $0 == 1 }
            // The watch may start after the clock has advanced, because it restarts with each part.
            try await eventually("the stream has ended") {
                if world.clock.timeToNextWake == .seconds(60) {
                    world.clock.advance(by: .seconds(60))
                }
                return isOver.value
            }
            #expect(await asked.error == .timeout(mayHaveBeenSent: true))
        }
    }

    @Test(arguments: [true, false])
    func `a line without end is too large`(streamed: Bool) async throws {
        try await UpstreamWorld.with(.lineWithoutEnd, answerBytes: 100_000) { world in
            let asked = await world.ask(streamed: streamed)
            #expect(asked.error == .tooLarge(limit: 100_000))
            try await world.upstreams[0].state.wait(for: "a closed connection") { $0.closed == 1 }
        }
    }

    @Test(
        arguments: [
            .noUsage, .wrongUsage(.negative), .wrongUsage(.huge), .wrongUsage(.text),
        ] as [HostileUpstream.Fault],
        [true, false]
    )
    func `a missing or invalid usage is ignored`(
        fault: HostileUpstream.Fault,
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with(fault) { world in
            let asked = await world.ask(streamed: streamed)
            #expect(asked.answer?.text == Self.honest.text)
            #expect(asked.answer != nil && asked.answer?.usage == nil)
        }
    }

    @Test func `slow words arrive one by one`() async throws {
        try await UpstreamWorld.with(.slow(.milliseconds(5))) { world in
            let asked = await world.ask()
            #expect(asked.pieces.count == 5)
            #expect(asked.answer?.text == Self.honest.text)
        }
    }

    @Test func `an error among the chunks is a refusal with its status`() async throws {
        try await UpstreamWorld.with(.errorInStream(words: 2)) { world in
            let asked = await world.ask()
            #expect(asked.error?.withoutWords == .refused(status: 503, retryAfterSeconds: nil))
            #expect(asked.pieces.count == 2)
        }
    }

    @Test func `a stream without a finish reason fails and keeps its words`()
        async throws
    {
        try await UpstreamWorld.with(.noFinishReason) { world in
            let asked = await world.ask()
            #expect(asked.error == .unfinished)
            #expect(asked.pieces.count == 5)
            let attempts = world.reported.withLock(\.attempts)
            #expect(attempts == [.init(name: "u1", outcome: .failed)])
        }
    }

    @Test func `a stream that ends after its finish reason is complete`() async throws {
        try await UpstreamWorld.with(.noDone) { world in
            #expect(await world.ask().answer?.text == Self.honest.text)
        }
    }

    @Test func `a body that stays open after DONE does not delay the answer forever`() async throws
    {
        try await UpstreamWorld.with(.hangsAfterDone) { world in
            async let asked = world.ask()
            try await eventually("the wait for the end of the body has begun") {
                world.clock.timeToNextWake == UpstreamClient.lingerTime
            }
            world.clock.advance(by: UpstreamClient.lingerTime)
            #expect(await asked.answer?.text == Self.honest.text)
            try await world.upstreams[0].state.wait(for: "a closed connection") { $0.closed == 1 }
        }
    }

    @Test func `an unreachable upstream has certainly not received the request`() async throws {
        try await UpstreamWorld.with(.none) { world in
            try await world.upstreams[0].close()
            #expect(await world.ask().error == .failed(mayHaveBeenSent: false))
        }
    }

    @Test(arguments: [true, false])
    func `no error contains the key, the prompt or the answer`(streamed: Bool) async throws {
        for fault in [.garbage, .refuses(status: 401), .cut(bytes: 99)] as [HostileUpstream.Fault] {
            try await UpstreamWorld.with(fault) { world in
                let error = try #require(
                    await world.ask("id=a my secret", streamed: streamed).error
                )
                let text = "\(error) \(String(reflecting: error))"
                for secret in [UpstreamWorld.key, "secret", "html"] {
                    #expect(!text.contains(secret))
                }
            }
        }
    }
}
