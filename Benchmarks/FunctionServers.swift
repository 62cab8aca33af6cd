import AsyncHTTPClient
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer

/// The processes of the functions' benchmarks: the model, the server in front of it, and the
/// baselines.
enum FunctionServers {
    private static let upstreamArgument = "--functions-upstream"
    private static let bareArgument = "--functions-bare"
    private static let serverArgument = "--functions-server"

    /// The durable storage of a server.
    enum Store: String {
        /// SQLite in a folder on the disk. A commit is on the disk before anything follows it.
        case disk
        /// The process's memory, which shows the cost of a call without the disk.
        case memory
    }

    /// A function of the server, free or metered.
    enum Kind: String, CaseIterable {
        /// Free: nothing is held and nothing charged.
        case passed
        /// One token, which is held before the call is sent and charged when it has ended.
        case metered

        /// The function with the same price whose answers are cached forever.
        var kept: String { "\(rawValue)-kept" }

        fileprivate var price: Int64 { self == .passed ? 0 : 1 }
    }

    /// Starts a model that answers at once.
    static func upstream() throws -> LiveServers.Child { try .init(upstreamArgument) }

    /// Starts a bare Hummingbird server.
    ///
    /// `GET /` responds at once, `GET /stream` sends one event and waits, and chat completions are
    /// forwarded to the model.
    static func bare(before upstream: Int) throws -> LiveServers.Child {
        try .init("\(bareArgument)=\(upstream)")
    }

    /// Starts a server in front of the model.
    ///
    /// - Parameters:
    ///   - upstream: The model's port.
    ///   - store: The durable storage.
    ///   - door: The function that meters OpenAI clients.
    /// - Returns: The listening server.
    /// - Throws: ``BenchmarkError`` if the server does not start.
    static func server(
        before upstream: Int,
        _ store: Store,
        door: Kind
    ) throws -> LiveServers.Child {
        try .init("\(serverArgument)=\(upstream),\(store.rawValue),\(door.rawValue)")
    }

    /// Stops a server and removes its data.
    static func end(_ server: LiveServers.Child) {
        server.end()
        try? FileManager.default.removeItem(at: folder(of: server.process.processIdentifier))
    }

    /// Serves in this process until it is terminated, if its argument says so.
    ///
    /// Returns whether it did.
    static func serveIfAsked() async throws -> Bool {
        let argument = CommandLine.arguments.dropFirst().first ?? ""
        switch argument.split(separator: "=").first.map({ String($0) }) {
        case upstreamArgument:
            LiveServers.raiseDescriptorLimit()
            let channel = try await CannedUpstream.start()
            say(channel.localAddress?.port ?? 0)
            try await channel.closeFuture.get()
        case bareArgument:
            LiveServers.raiseDescriptorLimit()
            try await serveBare(before: Int(argument.dropFirst(bareArgument.count + 1)) ?? 0)
        case serverArgument:
            LiveServers.raiseDescriptorLimit()
            let words = argument.dropFirst(serverArgument.count + 1).split(separator: ",")
            guard words.count == 3, let port = Int(words[0]),
                let store = Store(rawValue: String(words[1])),
                let door = Kind(rawValue: String(words[2]))
            else { throw BenchmarkError.noServer("it was started with '\(argument)'") }
            try await serve(before: port, store, door: door)
        default:
            return false
        }
        return true
    }

    private static func say(_ port: Int) {
        try? FileHandle.standardOutput.write(contentsOf: Data("\(port)\n".utf8))
    }

    private static func folder(of process: Int32) -> URL {
        FileManager.default.temporaryDirectory.appending(path: "sanguine-functions-\(process)")
    }

    private static func serveBare(before upstream: Int) async throws {
        let router = Router()
        let client = HTTPClient(eventLoopGroupProvider: .singleton)
        router.post("/v1/chat/completions") { request, _ in
            var forwarded = HTTPClientRequest(
                url: "http://127.0.0.1:\(upstream)/v1/chat/completions"
            )
            forwarded.method = .POST
            forwarded.headers.add(name: "Content-Type", value: "application/json")
            forwarded.body = .bytes(try await request.body.collect(upTo: 1 << 20))
            let answer = try await client.execute(forwarded, timeout: .seconds(600))
            let type = answer.headers.first(name: "Content-Type") ?? ""
            let body =
                type == "text/event-stream"
                ? ResponseBody(asyncSequence: answer.body)
                : ResponseBody(byteBuffer: try await answer.body.collect(upTo: 1 << 20))
            return Response(status: .ok, headers: [.contentType: type], body: body)
        }
        router.get("/") { _, _ in "Hello, world" }
        router.get("/stream") { _, _ in
            Response(
                status: .ok,
                headers: [.contentType: "text/event-stream"],
                body: ResponseBody { writer in
                    try await writer.write(ByteBuffer(string: "data: Let\n\n"))
                    try await Task.sleep(for: .seconds(3_600))
                    try await writer.finish(nil)
                }
            )
        }
        let application = Application(
            router: router,
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { say($0.localAddress?.port ?? 0) },
            logger: BenchmarkedServer.quiet
        )
        try await application.run()
        try await client.shutdown()
    }

    private static func serve(before upstream: Int, _ store: Store, door: Kind) async throws {
        let folder = folder(of: ProcessInfo.processInfo.processIdentifier)
        let (storage, keys): (any Storage, SigningKeys) =
            switch store {
            case .disk: (try SQLiteStorage(folder: folder), try KeyFile.loadOrCreate(in: folder))
            case .memory: (MemoryStorage(), SigningKeys())
            }
        let server = try await SanguineServer(
            storage: storage,
            keys: keys,
            settings: settings(upstream, door),
            log: LogQueue(sink: NullSink()),
            logger: BenchmarkedServer.quiet
        ) { say($0.http) }
        try await server.run()
    }

    private static func settings(_ upstream: Int, _ door: Kind) -> ServerSettings {
        var settings = ServerSettings()
        settings.http.port = 0
        settings.http.adminPort = 0
        settings.accounts.grant = 1_000_000_000
        // The limits apply but are never reached, because the benchmark measures accepted requests.
        settings.limits.requestsPerMinute = 60_000_000
        settings.limits.addressRequestsPerMinute = 60_000_000
        settings.limits.guestsPerHour = 0
        settings.limits.functionCalls = 8_000
        settings.limits.shutdownGrace = .seconds(1)
        settings.upstream.url = "http://127.0.0.1:\(upstream)"
        settings.upstream.timeout = .seconds(600)
        settings.openAI.function = door.rawValue
        settings.functions = Kind.allCases.flatMap { kind in
            var rules = FunctionRules(price: .fixed(kind.price), streams: true)
            rules.onDisconnect = .stop
            var kept = rules
            kept.cache = .forever
            kept.price = .fixed(kind.price).cached(kind.price)
            return [
                FunctionSetting(name: kind.rawValue, kind: .upstream, rules: rules),
                FunctionSetting(name: kind.kept, kind: .upstream, rules: kept),
            ]
        }
        return settings
    }
}
