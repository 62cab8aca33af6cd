import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// A call as the user sees it: its hold at once, then its charge, without flicker (trap 6).
    @Suite("Metered calls of a client", .bounded(.seconds(120)))
    struct MeteredClientTests {
        private struct Stage: Sendable {
            let client: SanguineClient
            let screen: Screen
            let server: LocalServer
            let upstream: ScriptedUpstream

            /// Checks the balance that the client shows, and the server's.
            func expectBoth(_ available: Int64) async throws {
                let shown = try #require(client.cached(.balance))
                #expect(shown.available == available)
                #expect(shown.held == 0)
                let confirmed = try await client.refresh(.balance)
                #expect(confirmed.available == available)
                #expect(confirmed.held == 0)
            }
        }

        /// A client that has its balance, with a server whose upstream follows the script.
        private static func withStage(
            grant: Int = 100,
            timeout: Duration = .seconds(30),
            _ script: @escaping ScriptedUpstream.Script,
            _ body: @escaping @Sendable (Stage) async throws -> Void
        ) async throws {
            try await ScriptedUpstream.with(script) { upstream in
                var settings = ServerSettings()
                settings.upstream.url = upstream.url
                settings.upstream.timeout = timeout
                settings.accounts.grant = grant
                try await LocalServer.with(settings: settings) { server in
                    let client = try server.client()
                    defer { client.close() }
                    _ = try await client.value(of: .balance)
                    let screen = Screen(client)
                    try await screen.shows(Int64(grant), held: 0)
                    try await body(
                        Stage(client: client, screen: screen, server: server, upstream: upstream)
                    )
                }
            }
        }

        @Test func `the hold is shown before the answer, and the charge with it`() async throws {
            let gate = Gate()
            try await Self.withStage { _ in
                await gate.wait()
                return .answer("Sure.")
            } _: { stage in
                let client = stage.client
                async let result = client.result(of: Ask(question: "Is it late?"))
                try await stage.upstream.requests.when { $0.count == 1 }
                #expect(client.cached(.balance)?.available == 97)
                #expect(client.cached(.balance)?.held == 3)
                // The server already has a hold of 5. The user sees one hold, not two.
                let reloaded = try await client.refresh(.balance)
                #expect(reloaded.available == 97)
                #expect(reloaded.held == 3)
                gate.open()
                let answer = try await result
                #expect(answer.output == "Sure.")
                #expect(answer.charged == 3)
                try await stage.expectBoth(97)
                try await stage.screen.shows(97, held: 0)
                #expect(stage.screen.numbers == [100, 97])
            }
        }

        @Test func `a streamed call yields the whole text and is charged once, even if read again`()
            async throws
        {
            try await Self.withStage { _ in
                .answer("Sure, it is late.")
            } _: { stage in
                let stream = try stage.client.stream(Ask(question: "Is it late?"))
                #expect(stage.client.cached(.balance)?.held == 3)
                var text = ""
                var parts = stream.makeAsyncIterator()
                while let part = try await parts.next() { text += part }
                #expect(text == "Sure, it is late.")
                let charged = try await stage.client.result(of: Ask.self, key: stream.key).charged
                #expect(charged > 0 && stage.upstream.requests.value.count == 1)
                try await stage.expectBoth(100 - charged)
                #expect(stage.client.openCalls.isEmpty)
            }
        }

        /// A failure of the upstream and the error that the client gets.
        struct Failure: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let reply: ScriptedUpstream.Reply
            let code: ProblemCode
        }

        static let failures = [
            Failure(
                testDescription: "never answers",
                reply: .silence,
                code: .upstreamTimeout
            ),
            Failure(testDescription: "fails", reply: .status(500), code: .upstreamFailed),
            Failure(
                testDescription: "hangs up",
                reply: .bytesThenHangUp("HTTP/1.1 200 OK\r\n"),
                code: .upstreamFailed
            ),
        ]

        /// Makes a call and waits until its hold is visible and the upstream has received its
        /// request.
        @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
        private static func beginCall(
            on stage: Stage
        ) async throws -> Task<Result<FunctionResult<String>, SanguineError>, Never> {
            let client = stage.client
            let call = Task.immediate { () async -> Result<FunctionResult<String>, SanguineError> in
                do throws(SanguineError) {
                    return .success(try await client.result(of: Ask(question: "Is it late?")))
                } catch {
                    return .failure(error)
                }
            }
            #expect(client.cached(.balance)?.available == 97)
            #expect(client.cached(.balance)?.held == 3)
            try await stage.screen.shows(97, held: 3)
            try await stage.upstream.requests.when { $0.count == 1 }
            return call
        }

        @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
        @Test(arguments: failures)
        func `a failed call releases its hold`(failure: Failure) async throws {
            let gate = Gate()
            // Long enough to see the hold of a call without an answer.
            let timeout: Duration = failure.code == .upstreamTimeout ? .seconds(3) : .seconds(30)
            try await Self.withStage(timeout: timeout) { _ in
                await gate.wait()
                return failure.reply
            } _: { stage in
                let call = try await Self.beginCall(on: stage)
                gate.open()
                switch try await call.finished() {
                case .success: Issue.record("It succeeded.")
                case .failure(let error): #expect(error.code == failure.code.rawValue)
                }
                try await stage.expectBoth(100)
                try await stage.screen.shows(100, held: 0)
                #expect(stage.screen.numbers == [100, 97, 100])
                #expect(stage.upstream.requests.value.count == 1)
            }
        }

        @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
        @Test func `excessive reported usage costs the hold and no more`() async throws {
            let lie = #"{"prompt_tokens":1000000000,"completion_tokens":1000000000}"#
            let gate = Gate()
            try await Self.withStage { _ in
                await gate.wait()
                return .answer("Sure.", usage: lie)
            } _: { stage in
                let call = try await Self.beginCall(on: stage)
                gate.open()
                #expect(try await call.finished().get().charged == 5)
                try await stage.expectBoth(95)
                try await stage.screen.shows(95, held: 0)
                #expect(stage.screen.numbers == [100, 97, 95])
            }
        }

        @Test func `a call whose caller cancels is still completed and charged`() async throws {
            let gate = Gate()
            try await Self.withStage { _ in
                await gate.wait()
                return .answer("Sure.")
            } _: { stage in
                let client = stage.client
                let call = Task { () async -> SanguineError? in
                    do throws(SanguineError) {
                        try await client.call(Ask(question: "Is it late?"))
                        return nil
                    } catch {
                        return error
                    }
                }
                try await stage.upstream.requests.when { $0.count == 1 }
                call.cancel()
                #expect(try await call.finished() == .cancelled)
                #expect(client.cached(.balance)?.available == 97)
                #expect(client.cached(.balance)?.held == 3)
                gate.open()
                try await stage.screen.shows(97, held: 0)
                #expect(stage.screen.numbers == [100, 97])
                try await stage.expectBoth(97)
            }
        }

        @Test(arguments: [21, 22, 23] as [UInt64])
        func `the balance never flickers when many calls end in any order`(
            seed: UInt64
        )
            async throws
        {
            let gate = Gate()
            let count = 20
            try await Self.withStage(grant: 1_000) { request in
                await gate.wait(for: request.question)
                return request.question.hasPrefix("bad") ? .status(500) : .answer("Sure.")
            } _: { stage in
                let client = stage.client
                let names = (0..<count).map { $0 % 4 == 3 ? "bad \($0)" : "good \($0)" }
                let ended = Watched<Set<String>>([])
                async let charges = concurrently(count) { number in
                    let name = names[number]
                    defer { ended.update { _ = $0.insert(name) } }
                    return try? await client.result(of: Ask(question: name)).charged
                }
                try await stage.upstream.requests.reach(count, "calls") { $0.count }
                try await stage.screen.shows(940, held: 60)

                var random = SplitMix64(seed: seed)
                for (number, name) in names.shuffled(using: &random).enumerated() {
                    gate.open(name)
                    if number % 3 == 0 { _ = try await client.refresh(.balance) }
                    if number % 4 == 0 { try await ended.when { $0.contains(name) } }
                }
                #expect(try await charges.compactMap(\.self) == Array(repeating: 3, count: 15))
                try await stage.screen.shows(955, held: 0)
                try await stage.expectBoth(955)

                // The number decreases while calls begin, then increases as calls fail, and changes
                // in no other way.
                let numbers = stage.screen.numbers
                let lowest = try #require(numbers.firstIndex(of: 940))
                #expect(numbers[...lowest] == numbers[...lowest].sorted(by: >)[...])
                #expect(Array(numbers[lowest...]) == numbers[lowest...].sorted())
                #expect(numbers.min() == 940)
            }
        }

        @Test func `a cancelled call leaves no response for the client's next one`() async throws {
            let gate = Gate()
            try await Self.withStage { request in
                if request.question == "first" { await gate.wait() }
                return .answer("to \(request.question)")
            } _: { stage in
                let client = stage.client
                let first = Task { try await client.call(Ask(question: "first")) }
                try await stage.upstream.requests.when { $0.count == 1 }
                first.cancel()
                await #expect(throws: SanguineError.cancelled) { try await first.finished() }
                async let second = client.call(Ask(question: "second"))
                gate.open()
                #expect(try await second == "to second")
                #expect(try await client.call(Ask(question: "third")) == "to third")
                try await stage.screen.shows(91, held: 0)
            }
        }
    }
}
