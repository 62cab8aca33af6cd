import AsyncHTTPClient
import HostileUpstream
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// The reuse and the end of connections to an upstream.
@Suite("Upstream connections", .bounded)
struct UpstreamConnectionTests {
    @Test(arguments: [true, false])
    func `a connection is reused after a complete answer`(streamed: Bool) async throws {
        try await UpstreamWorld.with(.none) { world in
            for number in 1...10 {
                let prompt = "id=a question \(number)"
                let asked = await world.ask(prompt, streamed: streamed)
                #expect(asked.answer?.text == HostileAnswer(to: prompt).text)
            }
            #expect(world.upstreams[0].state.value.connections == 1)
        }
    }

    @Test func `a connection is reused after a refusal`() async throws {
        try await UpstreamWorld.with(.refuses(status: 400)) { world in
            for _ in 1...10 { _ = await world.ask() }
            #expect(world.upstreams[0].state.value.connections == 1)
        }
    }

    @Test(arguments: [true, false], [true, false])
    func `a request lost on a kept connection is sent again on a new one`(
        streamed: Bool,
        resets: Bool
    ) async throws {
        try await UpstreamWorld.with([
            { $0.numberOnConnection == 1 ? .none : .hangsUp(resets: resets) }
        ]) { world in
            // Several connections are kept, and all of them are lost, one after the other.
            let gate = WatchedState(false)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...4 {
                    group.addTask {
                        _ = await world.ask("id=a question \(number)", streamed: true) { _ in
                            try? await gate.wait(for: "all requests") { $0 }
                        }
                    }
                }
                try await world.upstreams[0].state.wait(for: "four requests") { $0.requests == 4 }
                gate.withLock { $0 = true }
                try await group.waitForAll()
            }
            for number in 5...12 {
                let prompt = "id=b question \(number)"
                let asked = await world.ask(prompt, streamed: streamed)
                #expect(asked.answer?.text == HostileAnswer(to: prompt).text)
            }
            #expect(world.outcomes.allSatisfy { $0 == .answered })
            #expect(world.pool.phases.map(\.phase) == [.closed])
        }
    }

    @Test(arguments: [true, false])
    func `a request lost on a new connection is not sent again`(
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with(.hangsUp(resets: false)) { world in
            let asked = await world.ask(streamed: streamed)
            #expect(asked.error == .failed(mayHaveBeenSent: true))
            #expect(world.upstreams[0].state.value.requests == 1)
        }
    }

    @Test func `a request lost on two connections is not sent a third time`()
        async throws
    {
        try await UpstreamWorld.with([
            { $0.number == 1 ? .none : .hangsUp(resets: false) }
        ]) { world in
            _ = await world.ask("id=a")
            let asked = await world.ask("id=b")
            #expect(asked.error == .failed(mayHaveBeenSent: true))
            #expect(world.upstreams[0].state.value.requests == 3)
            #expect(world.outcomes == [.answered, .failed])
        }
    }

    @Test func `an answer that breaks off on a kept connection is not requested again`()
        async throws
    {
        try await UpstreamWorld.with([
            { $0.number == 1 ? .none : .cut(bytes: 0) }
        ]) { world in
            _ = await world.ask("id=a")
            let asked = await world.ask("id=b")
            #expect(asked.answer == nil)
            #expect(world.upstreams[0].state.value.requests == 2)
        }
    }

    @Test(arguments: [true, false])
    func `an idle connection that the upstream has closed blocks no caller`(
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with(.none) { world in
            let hostile = world.upstreams[0]
            for round in 1...10 {
                let before = await world.ask("id=a\(round)", streamed: streamed)
                #expect(before.answer != nil, "round \(round)")
                await hostile.hangUp()
                // This request may be sent before the client notices the close.
                _ = await world.ask("id=b\(round)", streamed: streamed)
                let after = await world.ask("id=c\(round)", streamed: streamed)
                #expect(after.answer != nil, "round \(round): \(world.outcomes.suffix(3))")
            }
            #expect(hostile.state.value.connections > 10)
            #expect(world.pool.unavailable() == nil)
        }
    }

    @Test func `concurrent calls succeed after the upstream has closed its idle connections`()
        async throws
    {
        try await UpstreamWorld.with(.none) { world in
            for round in 1...10 {
                for part in ["a", "b"] {
                    let asked = await withTaskGroup(of: UpstreamWorld.Asked.self) { group in
                        for number in 1...8 {
                            group.addTask { await world.ask("id=\(part)\(round)x\(number)") }
                        }
                        return await group.reduce(into: []) { $0.append($1) }
                    }
                    #expect(
                        asked.allSatisfy { $0.answer != nil },
                        "round \(round), \(part): \(asked.compactMap(\.error))"
                    )
                    if part == "a" { await world.upstreams[0].hangUp() }
                }
            }
            #expect(world.outcomes.allSatisfy { $0 == .answered })
        }
    }

    @Test(arguments: [true, false])
    func `a cancelled call's connection is closed and not reused`(
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with([
            {
                $0.number == 1 ? ($0.isStreamed ? .neverEnds : .headOnly) : .none
            }
        ]) { world in
            let hostile = world.upstreams[0]
            let words = WatchedState(0)
            let call = Task {
                await world.ask("id=first", streamed: streamed) { _ in words.withLock { $0 += 1 } }
            }
            try await hostile.state.wait(for: "the request") { $0.requests == 1 }
            if streamed { try await words.wait(for: "three words") { $0 >= 3 } }
            call.cancel()
            let asked = try await call.finished()
            #expect(asked.error == .cancelled(mayHaveBeenSent: true))
            try await hostile.state.wait(for: "the closed connection") { $0.closed == 1 }
            for number in 1...5 {
                let prompt = "id=b question \(number)"
                let next = await world.ask(prompt, streamed: streamed)
                #expect(next.answer?.text == HostileAnswer(to: prompt).text)
            }
            #expect(world.outcomes.first == .cancelled)
            #expect(world.pool.unavailable() == nil)
        }
    }

    @Test func `a reader that waits slows down the upstream`() async throws {
        try await UpstreamWorld.with(.none) { world in
            let hostile = world.upstreams[0]
            let gate = WatchedState(false)
            let events = WatchedState(0)
            let prompt = UpstreamPrompt(
                messages: [.init(.user, "id=a words=40000")],
                maxOutputTokens: 40_000
            )
            let call = Task {
                try await world.pool.answer(
                    .prompt(prompt),
                    within: .seconds(60),
                    streamed: true
                ) { _ in
                    events.withLock { $0 += 1 }
                    try? await gate.wait(for: "the test to continue") { $0 }
                }
            }
            try await events.wait(for: "the first piece") { $0 == 1 }
            let stalls = hostile.state.value.stalls
            try await hostile.state.wait(for: "a connection that accepts no more") {
                $0.stalls > stalls
            }
            #expect(events.value == 1)
            #expect(hostile.total.completionTokens < 40_000)
            call.cancel()
            gate.withLock { $0 = true }
            await #expect(throws: UpstreamError.cancelled(mayHaveBeenSent: true)) {
                try await call.finished()
            }
            #expect(events.value == 1)
        }
    }

    @Test func `small writes to the upstream are not delayed`() async throws {
        let options = Mutex<[SocketOptionValue]>([])
        try await UpstreamWorld.with([{ _ in .none }]) {
            $0.http1_1ConnectionDebugInitializer = { channel in
                channel.getOption(.tcpOption(.tcp_nodelay)).map { value in
                    options.withLock { $0.append(value) }
                }
            }
        } _: { world in
            #expect(await world.ask().answer != nil)
            #expect(options.withLock { $0 }.map { $0 != 0 } == [true])
        }
    }

    @Test func `a request has the form of OpenAI's API`() async throws {
        let seen = Mutex<HostileUpstream.Request?>(nil)
        try await UpstreamWorld.with([
            { request in
                seen.withLock { $0 = request }
                return .none
            }
        ]) { world in
            let prompt = UpstreamPrompt(
                messages: [
                    .init(.system, "Be kind."),
                    .init(
                        .user,
                        [
                            .text("What is this?"), .image(type: "image/png", bytes: [1, 2, 3]),
                            .file(name: "a.mp4", type: "video/mp4", bytes: [4]),
                        ]
                    ),
                    .init(.assistant, "A cat."),
                ],
                maxOutputTokens: 7
            )
            _ = try await world.pool.answer(.prompt(prompt), within: .seconds(9), streamed: true)
            let request = try #require(seen.withLock { $0 })
            #expect(request.path == "/v1/chat/completions")
            #expect(request.headers.first(name: "Authorization") == "Bearer \(UpstreamWorld.key)")
            #expect(request.headers.first(name: "Accept") == "text/event-stream")
            let parts = JSONValue.array([
                ["type": "text", "text": "What is this?"],
                ["type": "image_url", "image_url": ["url": "data:image/png;base64,AQID"]],
                [
                    "type": "file",
                    "file": ["filename": "a.mp4", "file_data": "data:video/mp4;base64,BA=="],
                ],
            ])
            let expected: JSONValue = [
                "model": "m-1", "max_tokens": 7, "stream": true,
                "stream_options": ["include_usage": true],
                "messages": .array([
                    ["role": "system", "content": "Be kind."], ["role": "user", "content": parts],
                    ["role": "assistant", "content": "A cat."],
                ]),
            ]
            #expect(request.body == expected)
        }
    }

    @Test(arguments: [true, false])
    func `a raw chat is forwarded with the upstream's model`(streamed: Bool) async throws {
        let seen = Mutex<JSONValue?>(nil)
        try await UpstreamWorld.with([
            { request in
                seen.withLock { $0 = request.body }
                return .none
            }
        ]) { world in
            let messages = JSONValue.array([["role": "user", "content": "id=a words=2"]])
            let body: JSONValue = [
                "model": "theirs", "messages": messages, "temperature": .number(0.5),
                "stream": "maybe",
                "tools": .array([["type": "function", "function": ["name": "f"]]]),
                "stream_options": ["include_usage": false, "include_obfuscation": false],
            ]
            let answer = try await world.pool.answer(
                .chat(body.canonical, maxOutputTokens: 100),
                within: .seconds(9),
                streamed: streamed
            )
            #expect(answer.text == HostileAnswer(to: "id=a words=2").text)
            let sent = try #require(seen.withLock { $0 })
            #expect(sent["model"] == "m-1")
            #expect(sent["tools"] == body["tools"])
            #expect(sent["temperature"] == .number(0.5))
            #expect(sent["stream"] == (streamed ? true : nil))
            let options: JSONValue = ["include_usage": true, "include_obfuscation": false]
            #expect(sent["stream_options"] == (streamed ? options : nil))
        }
    }
}
