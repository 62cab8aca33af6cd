import NIOCore
import NIOPosix
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Tasks on event loops", .bounded)
struct LoopExecutorTests {
    private struct Words: Codable, Sendable { var text: String }

    /// A function that the server's own code computes.
    private struct Place: FunctionCall {
        typealias Output = Bool
        static let name = "place"
        static let rules = FunctionRules(price: .free)
        var input: Words
    }

    /// A function that asks a model.
    private struct Question: FunctionCall {
        typealias Output = String
        static let name = "question"
        static let rules = FunctionRules(price: .free)
        var input: Words
    }

    /// A function with files that records whether a connection's thread decoded its output.
    private struct Look: FunctionCall {
        struct Output: Codable, Sendable {
            static let places = Mutex<[Bool]>([])

            init(from decoder: any Decoder) {
                Self.places.withLock { $0.append(LoopExecutor.current != nil) }
            }

            func encode(to encoder: any Encoder) {}
        }

        static let name = "look"
        static let rules = FunctionRules(
            price: .free,
            attachments: AttachmentRules(count: 1, types: ["image/jpeg"], tokens: 1)
        )
        var input: Words
    }

    @Test func `a task and its children stay on the thread of their loop`()
        async throws
    {
        let loop = MultiThreadedEventLoopGroup.singleton.any()
        let executor = try #require(LoopExecutor.of(loop))
        #expect(LoopExecutor.of(loop) === executor)
        let places = await withTaskExecutorPreference(executor) {
            var places = [loop.inEventLoop, LoopExecutor.current === executor]
            try? await loop.submit {}.get()
            places.append(loop.inEventLoop)
            async let child = loop.inEventLoop
            places.append(await child)
            let run = Task(executorPreference: LoopExecutor.current) { loop.inEventLoop }
            if let place = try? await run.finished("the task on the loop") { places.append(place) }
            return places
        }
        #expect(places == [true, true, true, true, true])
        #expect(LoopExecutor.current == nil)
    }

    @Test func `a loop of a group that can shut down has no executor`() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        #expect(LoopExecutor.of(group.next()) == nil)
        try await group.shutdownGracefully()
    }

    @Test func `a short call runs on its connection's thread, and a long one does not`()
        async throws
    {
        let places = Mutex<[Bool]>([])
        try await LiveServer.with {
            $0.functions = [
                ServerFunction(asking: Question.self) { input in
                    places.withLock { $0.append(LoopExecutor.current != nil) }
                    return Prompt(input.text)
                }
            ]
        } _: { server in
            let guest = try await server.guest()
            for length in [10, EdgeLimits.shortBodyBytes] {
                let text = String(repeating: "a", count: length)
                let body = #"{"input":{"text":"\#(text)"}}"#
                #expect(try await guest.post("/v1/functions/question", body).status == 503)
            }
        }
        #expect(places.withLock { $0 } == [true, false])
    }

    /// Content that records whether it was decoded on a connection's thread.
    private struct Spot: Codable, Sendable {
        var isOnLoop: Bool

        init(from decoder: any Decoder) { isOnLoop = LoopExecutor.current != nil }

        func encode(to encoder: any Encoder) {}
    }

    /// A request whose body has been received.
    private struct ReadRequest: WireRequest {
        let bytes: [UInt8]

        var method: String { "POST" }
        var path: String { "/" }
        var address: String? { nil }
        var query: WireQuery { WireQuery() }

        func field(_ field: WireField) -> String? { field == .idempotencyKey ? "k" : nil }
        func parameter(_ name: String) -> String? { nil }
        func body() async throws(Problem) -> [UInt8] { bytes }
        func file() async throws(Problem) -> [UInt8] { bytes }
        func admit(_ identity: Identity) throws(Problem) {}
        func admitAnonymous() throws(Problem) {}
        func checkAddress() throws(Problem) {}
        func charge(_ time: Duration) {}
    }

    @Test func `long JSON is parsed and decoded off the connection's thread`()
        async throws
    {
        let admission = Admission(Authority(storage: MemoryStorage(), keys: SigningKeys()))
        let executor = try #require(LoopExecutor.of(MultiThreadedEventLoopGroup.singleton.any()))
        let places = Mutex<[Bool]>([])
        try await withTaskExecutorPreference(executor) {
            for length in [10, WireBody.shortBytes] {
                let text = String(repeating: "a", count: length)
                let request = ReadRequest(bytes: Array(#"{"text":"\#(text)"}"#.utf8))
                let submission = try await admission.submission(request, as: Spot.self) { _ in
                    places.withLock { $0.append(LoopExecutor.current != nil) }
                    return ""
                }
                let content = try submission.content.get()
                places.withLock { $0.append(content.isOnLoop) }
                #expect(LoopExecutor.current === executor)
            }
        }
        #expect(places.withLock { $0 } == [true, true, false, false])
    }

    @Test func `a call with files leaves its connection's thread`() async throws {
        let script: ScriptedUpstream.Script = { _ in
            .bytes(ScriptedUpstream.completion("{}", usage: "null"))
        }
        try await ScriptedUpstream.with(script) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.functions = [ServerFunction(asking: Look.self) { Prompt($0.text) }]
            } _: { server in
                let guest = try await server.guest()
                let file = try await guest.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
                for files in ["[]", #"["\#(file.id)"]"#] {
                    let body = #"{"input":{"text":"a"},"attachments":\#(files)}"#
                    #expect(try await guest.post("/v1/functions/look", body).status == 200)
                }
            }
        }
        #expect(Look.Output.places.withLock { $0 } == [true, false])
    }

    @Test func `a function of the server's own code does not block a connection's thread`()
        async throws
    {
        try await LiveServer.with {
            $0.functions = [ServerFunction(Place.self) { _ in LoopExecutor.current != nil }]
        } _: { server in
            let guest = try await server.guest()
            let reply = try await guest.post("/v1/functions/place", #"{"input":{"text":"a"}}"#)
            #expect(try reply.decode(FunctionResult<Bool>.self).output == false)
        }
    }
}
