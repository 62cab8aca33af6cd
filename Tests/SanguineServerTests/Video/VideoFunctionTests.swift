import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Videos of calls, with upstreams that accept videos or only pictures.
@Suite("Videos of calls", .bounded(.seconds(60)))
struct VideoFunctionTests {
    /// A function about a video that costs one token for each of the upstream's.
    private static let rules = FunctionRules(
        price: .usage(perMillionInput: 1_000_000, perMillionOutput: 1_000_000),
        attachments: AttachmentRules(count: 1, types: ["video/mp4"], tokens: 100)
    )

    private static let function = FunctionSetting(
        name: "watch",
        kind: .upstream,
        rules: rules,
        inputs: [InputMember("question")],
        prompt: "{{question}}",
        maxOutputTokens: 10
    )

    /// The part types that an upstream received, for each request.
    private let shown = WatchedState<[[String]]>([])
    private let other = WatchedState<[[String]]>([])

    /// An upstream that answers and records the types of the parts it received.
    private static func answers(_ shown: WatchedState<[[String]]>) -> ScriptedUpstream.Script {
        { request in
            shown.withLock { $0.append(parts(request)) }
            let usage = #"{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}"#
            return .bytes(ScriptedUpstream.completion("Seen.", usage: usage))
        }
    }

    private static func parts(_ request: ScriptedUpstream.Request) -> [String] {
        let body = try? JSONDecoder().decode(JSONValue.self, from: Data(request.body.utf8))
        guard case .array(let messages) = body?["messages"],
            case .array(let parts) = messages.last?["content"]
        else { return [] }
        return parts.compactMap { $0["type"]?.string }
    }

    private static func watch(_ guest: Guest) async throws -> (quote: Quote, Int) {
        let facts = try await guest.upload(SampleFile.mp4.bytes()).decode(BlobFacts.self)
        let body = #"{"input":{"question":"Who?"},"attachments":["\#(facts.id)"]}"#
        let quote = try await guest.post("/v1/functions/watch/quote", body).decode(Quote.self)
        return (quote, try await guest.post("/v1/functions/watch", body).status)
    }

    private static func stream(_ key: String, _ guest: Guest) async throws -> Reply {
        let facts = try await guest.upload(SampleFile.mp4.bytes()).decode(BlobFacts.self)
        let body = #"{"input":{"question":"Who?"},"attachments":["\#(facts.id)"]}"#
        let headers = ["Accept": "text/event-stream"]
        return try await guest.post("/v1/functions/watch", body, key: key, headers: headers)
    }

    @Test func `an upstream that accepts only pictures gets pictures, which the hold covers`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            _ = try FFmpegTests.script(FFmpegTests.twoPictures, in: folder)
            try await ScriptedUpstream.with(Self.answers(shown)) { upstream in
                try await LiveServer.with {
                    $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                    $0.settings.upstream.video = "frames"
                    $0.settings.video.ffmpeg = folder.appending(path: "ffmpeg").path
                    $0.settings.video.frames = 3
                    $0.settings.accounts.grant = 1_000
                    $0.settings.functions = [Self.function]
                } _: { server in
                    let guest = try await server.guest()
                    let (quote, status) = try await Self.watch(guest)
                    #expect(status == 200)
                    // Three pictures of 100, the bytes of the prompt, the text around it, the
                    // answer.
                    #expect(quote.hold == 300 + 4 + 32 + 10)
                    #expect(shown.value == [["text", "image_url", "image_url"]])
                    #expect(try await guest.balance().available == 992)
                }
            }
        }
    }

    @Test
    func `a fallback gets pictures after an upstream that got the file`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            _ = try FFmpegTests.script(FFmpegTests.twoPictures, in: folder)
            try await ScriptedUpstream.with({ [other] request in
                other.withLock { $0.append(Self.parts(request)) }
                return .bytes(ScriptedUpstream.json("{}", status: "500 Internal Server Error"))
            }) { first in
                try await ScriptedUpstream.with(Self.answers(shown)) { second in
                    try await LiveServer.with {
                        $0.settings.upstream.url = "http://127.0.0.1:\(first.port)"
                        $0.settings.upstream.fallbacks = ["spare"]
                        $0.settings.upstreams = [
                            UpstreamSetting(
                                name: "spare",
                                url: "http://127.0.0.1:\(second.port)",
                                video: .frames
                            )
                        ]
                        $0.settings.video.ffmpeg = folder.appending(path: "ffmpeg").path
                        $0.settings.accounts.grant = 1_000
                        $0.settings.functions = [Self.function]
                    } _: { server in
                        let guest = try await server.guest()
                        #expect(try await Self.watch(guest).1 == 200)
                        #expect(other.value == [["text", "file"]])
                        #expect(shown.value == [["text", "image_url", "image_url"]])
                    }
                }
            }
        }
    }

    @Test func `a call that ends during sampling calls no upstream and costs nothing`()
        async throws
    {
        var function = Self.function
        function.rules.streams = true
        let streamed = function
        try await TemporaryFolder.with { folder in
            let begun = folder.appending(path: "begun").path
            _ = try FFmpegTests.script("echo > \(begun); exec /bin/sleep 600", in: folder)
            try await ScriptedUpstream.with(Self.answers(shown)) { upstream in
                try await LiveServer.with {
                    $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                    $0.settings.upstream.video = "frames"
                    $0.settings.video.ffmpeg = folder.appending(path: "ffmpeg").path
                    $0.settings.accounts.grant = 1_000
                    $0.settings.functions = [streamed]
                } _: { server in
                    let guest = try await server.guest()
                    let call = Task { try await Self.stream("k", guest) }
                    try await eventually("the program is running") {
                        FileManager.default.fileExists(atPath: begun)
                    }
                    let ending = try await guest.send("DELETE", "/v1/calls/k")
                    #expect(try ending.decode(CallCancellation.self).charged == 0)
                    #expect(try await call.finished().body.contains("call_cancelled"))
                    #expect(shown.value.isEmpty)
                    let balance = try await guest.balance()
                    #expect((balance.available, balance.held) == (1_000, 0))
                }
            }
        }
    }

    @Test func `an unreadable video is the caller's error and costs nothing`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            _ = try FFmpegTests.script("echo 'moov atom not found' >&2; exit 1", in: folder)
            try await ScriptedUpstream.with(Self.answers(shown)) { upstream in
                try await LiveServer.with {
                    $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                    $0.settings.upstream.video = "frames"
                    $0.settings.video.ffmpeg = folder.appending(path: "ffmpeg").path
                    $0.settings.accounts.grant = 1_000
                    $0.settings.functions = [Self.function]
                } _: { server in
                    let guest = try await server.guest()
                    #expect(try await Self.watch(guest).1 == 422)
                    #expect(shown.value.isEmpty)
                    let balance = try await guest.balance()
                    #expect((balance.available, balance.held) == (1_000, 0))
                }
            }
        }
    }
}
