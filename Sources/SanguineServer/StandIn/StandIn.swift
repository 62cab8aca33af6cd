import Foundation
import HTTPTypes
import Hummingbird
public import Logging
import NIOCore
import SanguineAuthority
public import SanguineModel
public import ServiceLifecycle

/// A local server that responds like a language model, deterministically, for demonstrations and
/// tests.
///
/// It implements OpenAI's chat completions, streamed or not, at `POST /v1/chat/completions`, with
/// images, files and tools, and embeddings at `POST /v1/embeddings`; it lists its only model at
/// `GET /v1/models`. The same conversation always gets the same answer. It needs no API key and
/// only listens on loopback.
///
/// ```swift
/// let standIn = StandInServer(port: 0) { port in print("listening on http://127.0.0.1:\(port)") }
/// try await standIn.run()
/// ```
///
/// ``serve(while:)`` runs it for as long as a body runs.
public struct StandInServer: Service {
    /// The maximum size of a request's body: 64 MiB, so that images and short videos fit.
    public static let bodyBytes = 1 << 26

    private let port: Int
    private let latency: Duration
    private let wordInterval: Duration
    private let clock: any Clock<Duration>
    private let wallClock: any WallClock
    private let logger: Logger
    private var onListening: @Sendable (Int) async -> Void

    /// Creates a server; ``run()`` starts it.
    ///
    /// - Parameters:
    ///   - port: The port on 127.0.0.1; 0 chooses a free one.
    ///   - latency: The time until the response, or until the first word of a streamed one.
    ///     Default: none.
    ///   - wordInterval: The time between two chunks of a streamed answer. Default: none.
    ///   - clock: The clock for both times.
    ///   - wallClock: The time for the member `created` of a response.
    ///   - logger: The log of the server's own messages, which contain nothing of a conversation.
    ///   - onListening: Called with the port once requests are accepted.
    public init(
        port: Int,
        latency: Duration = .zero,
        wordInterval: Duration = .zero,
        clock: any Clock<Duration> = ContinuousClock(),
        wallClock: any WallClock = SystemWallClock(),
        logger: Logger = Logger(label: "sanguine.stand-in"),
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        self.port = port
        self.latency = latency
        self.wordInterval = wordInterval
        self.clock = clock
        self.wallClock = wallClock
        self.logger = logger
        self.onListening = onListening
    }

    /// Serves until the surrounding service group shuts down or the task is cancelled.
    public func run() async throws {
        let application = Application(
            router: router(),
            configuration: .init(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { channel in
                await onListening(channel.localAddress?.port ?? port)
            },
            logger: logger
        )
        try await application.run()
    }

    /// Serves while a body runs, then shuts down.
    ///
    /// ```swift
    /// try await StandInServer(port: 0).serve { address in
    ///     var settings = ServerSettings()
    ///     settings.upstream.url = address
    ///     try await serve(settings)
    /// }
    /// ```
    ///
    /// - Parameter body: Called with the address, for ``ServerSettings/Upstream/url``.
    /// - Returns: The body's result.
    /// - Throws: The body's error, or the error that made the server fail.
    public func serve<Value: Sendable>(
        while body: @escaping @Sendable (String) async throws -> Value
    ) async throws -> Value {
        let scope = ServiceScope<String>()
        var server = self
        server.onListening = { [onListening] port in
            await onListening(port)
            scope.listen(on: "http://127.0.0.1:\(port)")
        }
        return try await scope.run(server, logger: logger, body)
    }

    private func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.post("v1/chat/completions") { request, _ in try await complete(request) }
        router.post("v1/embeddings") { request, _ in try await embed(request) }
        router.get("v1/models") { _, _ in
            let model: JSONValue = [
                "id": "stand-in", "object": "model", "created": 0, "owned_by": "sanguine",
            ]
            return Self.json(["object": "list", "data": .array([model])])
        }
        return router
    }

    private func complete(_ request: Request) async throws -> Response {
        let asked: StandInRequest
        do throws(StandInRefusal) {
            asked = try StandInRequest(body: try await Self.body(of: request))
        } catch {
            return Self.refuse(error)
        }
        if latency > .zero { try await clock.sleep(for: latency) }
        let reply = StandInReply(to: asked, at: wallClock.now())
        guard asked.isStreamed else { return Self.json(reply.completion) }
        let chunks = reply.chunks(includesUsage: asked.includesUsage)
        let events = chunks.map { ByteBuffer(string: "data: \(Self.text($0))\n\n") }
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream", .cacheControl: "no-cache"],
            body: ResponseBody { [wordInterval, clock] writer in
                for (index, event) in events.enumerated() {
                    if index > 1, wordInterval > .zero { try await clock.sleep(for: wordInterval) }
                    try await writer.write(event)
                }
                try await writer.write(ByteBuffer(string: "data: [DONE]\n\n"))
                try await writer.finish(nil)
            }
        )
    }

    private func embed(_ request: Request) async throws -> Response {
        let embeddings: StandInEmbeddings
        do throws(StandInRefusal) {
            embeddings = try StandInEmbeddings(body: try await Self.body(of: request))
        } catch {
            return Self.refuse(error)
        }
        if latency > .zero { try await clock.sleep(for: latency) }
        return Self.json(embeddings.answer)
    }

    private static func body(of request: Request) async throws(StandInRefusal) -> Data {
        var request = request
        guard let buffer = try? await request.collectBody(upTo: bodyBytes) else { throw tooLong }
        return Data(buffer.readableBytesView)
    }

    private static let tooLong = StandInRefusal(
        message: "The body is longer than \(bodyBytes) bytes.",
        parameter: nil
    )

    private static func refuse(_ refusal: StandInRefusal) -> Response {
        let status: HTTPResponse.Status = refusal == tooLong ? .contentTooLarge : .badRequest
        let error: JSONValue = [
            "message": .string(refusal.message), "type": "invalid_request_error",
            "param": refusal.parameter.map { .string($0) } ?? .null, "code": .null,
        ]
        return json(["error": error], status: status)
    }

    private static func json(
        _ value: JSONValue,
        status: HTTPResponse.Status = .ok
    ) -> Response {
        Response(
            status: status,
            headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text(value)))
        )
    }

    private static func text(_ value: JSONValue) -> String {
        String(decoding: value.canonical, as: UTF8.self)
    }
}
