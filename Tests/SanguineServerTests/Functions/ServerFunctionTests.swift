import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// Functions that a server's own code registers, with rules shared by client and server.
@Suite("A server's own functions", .bounded)
struct ServerFunctionTests {
    private struct Shout: FunctionCall {
        struct Input: Codable, Sendable { var text: String, times: Int? }
        typealias Output = [String]
        static let name = "shout"
        static let rules = FunctionRules(price: .fixed(2))
        var input: Input
    }

    private struct Reading: FunctionCall {
        enum Kind: String, Codable, CaseIterable { case face, palm, coffee }
        struct Input: Codable, Sendable { var kind: Kind }
        typealias Output = String
        static let name = "reading"
        static let rules = FunctionRules(
            price: .quota("readings"),
            cache: .untilMidnight,
            streams: true
        )
        var input: Input
    }

    private struct Card: FunctionCall {
        struct Input: Codable, Sendable { var sign: String, name: String? }
        struct Output: Codable, Hashable, Sendable { var title: String }
        static let name = "card"
        static let rules = FunctionRules(
            price: .free,
            cache: .forever.public(sharing: "sign")
        )
        var input: Input
    }

    private struct Chart: FunctionCall {
        struct Input: Codable, Sendable {}
        typealias Output = String
        static let name = "chart"
        static let rules = FunctionRules(price: .fixed(1), cache: .untilChange(of: "birth"))
        var input = Input()
    }

    private struct Metered: FunctionCall {
        struct Input: Codable, Sendable {}
        typealias Output = String
        static let name = "metered"
        static let rules = FunctionRules(
            price: .usage(perMillionInput: 1, perMillionOutput: 1),
            titles: "none"
        )
        var input = Input()
    }

    @Test func `a computed function is charged by the rules of its call`() async throws {
        try await LiveServer.with {
            $0.functions = [
                ServerFunction(Shout.self) { call in
                    Array(repeating: call.input.text.uppercased(), count: call.input.times ?? 1)
                }
            ]
        } _: { server in
            let guest = try await server.guest()
            let body = #"{"input":{"text":"a","times":2}}"#
            let result = try await guest.post("/v1/functions/shout", body)
                .decode(FunctionResult<[String]>.self)
            #expect(result.output == ["A", "A"])
            #expect((result.charged, result.tokensRemaining) == (2, 98))
            let items = try await guest.get("/v1/functions")
                .decode(Items<FunctionDescription>.self).items
            let shout = try #require(items.last)
            #expect(
                (shout.name, shout.price, shout.stream) == (
                    "shout", .fixed(2).charged(.onStart), false
                )
            )
            #expect(shout.inputs == ["text": "string", "times?": "integer"])
        }
    }

    @Test(arguments: [true, false])
    func `a failed function releases its hold, and a refusal reaches the caller`(
        refuses: Bool
    ) async throws {
        struct Failure: Error {}
        try await LiveServer.with {
            $0.functions = [
                ServerFunction(Shout.self) { _ in
                    if refuses { throw Refusal("too_loud", "Whisper.") }
                    throw Failure()
                }
            ]
        } _: { server in
            let guest = try await server.guest()
            let reply = try await guest.post("/v1/functions/shout", #"{"input":{"text":"a"}}"#)
            #expect(reply.code == (refuses ? "too_loud" : "upstream_failed"))
            #expect(reply.status == (refuses ? 422 : 502))
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (100, 0))
        }
    }

    @Test func `a function that takes too long is cancelled and costs nothing`() async throws {
        try await LiveServer.with {
            let clock = $0.delay
            $0.settings.upstream.timeout = .seconds(5)
            $0.functions = [
                ServerFunction(Shout.self) { _ in
                    try await clock.sleep(for: .seconds(3_600))
                    return []
                }
            ]
        } _: { server in
            let guest = try await server.guest()
            async let reply = guest.post("/v1/functions/shout", #"{"input":{"text":"a"}}"#)
            try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(3_600))
            try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(5))
            server.setup.delay.advance(by: .seconds(5))
            #expect(try await reply.code == "upstream_timeout")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a function that costs a quota uses one unit per answer, and none for a cached one`()
        async throws
    {
        try await ScriptedUpstream.with({ _ in
            .bytes(ScriptedUpstream.completion("A long life."))
        }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.functions = [
                    ServerFunction(asking: Reading.self) { "Read this \($0.kind.rawValue)." }
                ]
            } _: { server in
                var guest = try await server.guest()
                func read(_ kind: String) async throws -> Reply {
                    try await guest.post(
                        "/v1/functions/reading",
                        #"{"input":{"kind":"\#(kind)"}}"#
                    )
                }
                let first = try await read("face").decode(FunctionResult<String>.self)
                #expect((first.charged, first.quota?.remaining) == (0, 2))
                #expect(try await read("face").decode(FunctionResult<String>.self).cached)
                #expect(try await read("palm").status == 200)
                #expect(try await read("coffee").status == 200)
                #expect(try await read("hand").code == "invalid_content")
                server.setup.wall.advance(by: .seconds(86_400))
                // The access token has expired after a day.
                guest = try await server.guest(device: guest.device)
                let next = try await read("face").decode(FunctionResult<String>.self)
                #expect((next.cached, next.quota?.remaining) == (false, 2))
            }
        }
    }

    @Test(arguments: [true, false])
    func `an answer that depends on account settings is cached until they change`(
        asks: Bool
    ) async throws {
        try await ScriptedUpstream.with({ request in
            .bytes(ScriptedUpstream.completion(request.body.contains("leap") ? "Leap" : "Plain"))
        }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.functions = [
                    asks
                        ? ServerFunction(asking: Chart.self) { _, settings in
                            Prompt("Born on \(settings["birth"]?.string ?? "some day")")
                        }
                        : ServerFunction(Chart.self) { call in
                            call.settings["birth"]?.string == "leap" ? "Leap" : "Plain"
                        }
                ]
            } _: { server in
                let guest = try await server.guest()
                func chart() async throws -> FunctionResult<String> {
                    try await guest.post("/v1/functions/chart", #"{"input":{}}"#).decode(
                        FunctionResult<String>.self
                    )
                }
                #expect(try await chart().output == "Plain")
                #expect(try await chart().cached)
                let patch = #"{"settings":{"birth":"leap","other":1}}"#
                #expect(try await guest.send("PATCH", "/v1/account", patch).status == 200)
                let changed = try await chart()
                #expect((changed.output, changed.cached) == ("Leap", false))
                let other = #"{"settings":{"other":2}}"#
                #expect(try await guest.send("PATCH", "/v1/account", other).status == 200)
                #expect(try await chart().cached)
            }
        }
    }

    @Test func `the next upstream answers for one that fails, and one answer is charged`()
        async throws
    {
        try await ScriptedUpstream.with({ _ in
            .bytes(ScriptedUpstream.json("{}", status: "500 Internal Server Error"))
        }) { first in
            try await ScriptedUpstream.with({ _ in
                .bytes(ScriptedUpstream.completion("Spare."))
            }) { second in
                try await LiveServer.with {
                    $0.settings.upstream.url = "http://127.0.0.1:\(first.port)"
                    $0.settings.upstream.fallbacks = ["spare"]
                    $0.settings.upstreams = [
                        UpstreamSetting(name: "spare", url: "http://127.0.0.1:\(second.port)")
                    ]
                } _: { server in
                    let guest = try await server.guest()
                    let reply = try await guest.post("/v1/functions/daily", #"{"input":{}}"#)
                    #expect(try reply.decode(FunctionResult<String>.self).output == "Spare.")
                    #expect(try await guest.balance().available == 99)
                }
            }
        }
    }

    @Test func `one public answer serves all accounts and sees only shared input`()
        async throws
    {
        let accounts = Mutex<[Identifier?]>([])
        try await LiveServer.with {
            $0.functions = [
                ServerFunction(Card.self) { call in
                    accounts.withLock { $0.append(call.account) }
                    return Card.Output(title: "For \(call.input.sign)")
                }
            ]
        } _: { server in
            let (guest, other) = (try await server.guest(), try await server.guest())
            let body = #"{"input":{"sign":"leo"}}"#
            let first = try await guest.post("/v1/functions/card", body)
            #expect(first["Cache-Status"] == "sanguine; fwd=miss; stored")
            let second = try await other.post("/v1/functions/card", body)
            #expect(try second.decode(FunctionResult<Card.Output>.self).output.title == "For leo")
            #expect(second["Cache-Status"] == "sanguine; hit")
            #expect(second["Age"] == "0")
            #expect(accounts.withLock { $0 } == [nil])
        }
    }

    @Test func `an answer that does not decode as the output is an upstream failure`() async throws
    {
        try await ScriptedUpstream.with({ request in
            let text = request.number == 1 ? #"{\"title\":\"Yes\"}"# : "Yes"
            return .bytes(ScriptedUpstream.completion(text))
        }) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.functions = [ServerFunction(asking: Card.self) { "A card for \($0.sign)" }]
            } _: { server in
                let guest = try await server.guest()
                let first = try await guest.post(
                    "/v1/functions/card",
                    #"{"input":{"sign":"leo"}}"#
                )
                let output = try first.decode(FunctionResult<Card.Output>.self).output
                #expect(output == Card.Output(title: "Yes"))
                let second = try await guest.post(
                    "/v1/functions/card",
                    #"{"input":{"sign":"libra"}}"#
                )
                #expect(second.code == "upstream_failed")
            }
        }
    }

    @Test func `invalid functions are refused at the start, with all reasons`()
        async throws
    {
        var setup = LiveServer.Setup()
        setup.settings.quotas = []
        setup.functions = [
            ServerFunction(Metered.self) { _ in "" },
            ServerFunction(asking: Reading.self, maxOutputTokens: 0) { _ in "" },
            ServerFunction(asking: Reading.self, upstreams: ["spare"]) { _ in "" },
        ]
        let error = await #expect(throws: SettingsError.self) { _ = try await setup.server() }
        let text = error?.description ?? ""
        #expect(text.contains("'metered' a fixed price"))
        #expect(text.contains("Declare the function 'none', which makes titles for 'metered'."))
        #expect(text.contains("cannot have 'titles'"))
        #expect(text.contains("Add the quota 'readings'"))
        #expect(text.contains("Register the function 'reading' once"))
        #expect(text.contains("Set 'maxOutputTokens' of the function 'reading' to a whole number"))
        #expect(text.contains("Add the upstream 'spare' of 'reading'"))
    }
}
