package import NIOCore
package import NIOHTTP1
import NIOPosix
package import SanguineModel
package import SanguineTesting
import Synchronization

/// A language model on loopback that breaks as told, and keeps a bill of its own.
///
/// ```swift
/// try await HostileUpstream.with({ $0.number == 1 ? .reset(bytes: 40) : .none }) { upstream in
///     …  // call upstream.url with a prompt that holds `id=a`
///     #expect(upstream.invoice["a"]?.completionTokens == 3)
/// }
/// ```
///
/// Requests are told apart by the id in their prompt: what follows `id=`, in letters, digits, `-`
/// and `_`. Answers and the count of tokens are those of ``HostileAnswer``.
///
/// What is billed: the prompt's tokens when a request has come whole, unless it is refused by its
/// status; and a token for each word whose chunk was written whole, at the moment of writing. Of an
/// answer in one piece all words are billed once the whole is written, and none before.
///
/// What is under way is known if the prompt says `ahead=8`: then a stream is at most 8 words ahead
/// of those that ``acknowledge(_:of:)`` says were read, and goes on when that says more.
///
/// Mutable state: `state`, by its mutex, which tests can wait for; `server`, `channels` and
/// `acknowledged`, each by its own.
package final class HostileUpstream: Sendable {
    /// A request as it came.
    package struct Request: Sendable {
        /// 1 for the first request of all.
        package let number: Int
        /// 1 for the first request on its connection.
        package let numberOnConnection: Int
        /// What the prompt says after `id=`; empty if it does not.
        package let id: String
        /// The path: `/v1/chat/completions`.
        package let path: String
        /// The head's fields.
        package let headers: HTTPHeaders
        /// The body.
        package let body: JSONValue
        /// Whether a stream was asked for.
        package let isStreamed: Bool
        /// What an honest model answers.
        package let answer: HostileAnswer
        /// How many words the stream may be ahead of its reader, as `ahead=8` in the prompt says;
        /// `nil` for any number.
        package let ahead: Int?
    }

    /// What was billed for an id.
    package struct Bill: Hashable, Sendable {
        /// Requests that came whole, refused ones among them.
        package var requests = 0
        /// Tokens of the prompts.
        package var promptTokens = 0
        /// Words that were written.
        package var completionTokens = 0

        package init(requests: Int = 0, promptTokens: Int = 0, completionTokens: Int = 0) {
            self.requests = requests
            self.promptTokens = promptTokens
            self.completionTokens = completionTokens
        }
    }

    /// What has come and gone.
    package struct State: Sendable {
        /// What is billed, by id.
        package var invoice: [String: Bill] = [:]
        /// Connections that were opened.
        package var connections = 0
        /// Connections that were closed, by either side.
        package var closed = 0
        /// Requests that came whole.
        package var requests = 0
        /// How often a connection had more to write than its client takes.
        package var stalls = 0
    }

    /// What has come and gone, to wait for.
    package let state = WatchedState(State())

    private let faults: @Sendable (Request) -> Fault
    private let server = Mutex<(any Channel)?>(nil)
    /// The connections since the last ``hangUp()``.
    private let channels = Mutex<[any Channel]>([])
    private let acknowledged = Mutex(Acknowledged())

    private init(_ faults: @escaping @Sendable (Request) -> Fault) { self.faults = faults }

    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// - Parameters:
    ///   - group: What runs it.
    ///   - faults: What it does to each request, called on the connection's event loop.
    /// - Returns: The server, which takes connections.
    /// - Throws: What keeps the port from being bound.
    package static func start(
        on group: any EventLoopGroup = .singletonMultiThreadedEventLoopGroup,
        _ faults: @escaping @Sendable (Request) -> Fault = { _ in .none }
    ) async throws -> HostileUpstream {
        let upstream = HostileUpstream(faults)
        let channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1_024)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                upstream.channels.withLock { $0.append(channel) }
                return channel.eventLoop.makeCompletedFuture {
                    let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)
                    try channel.pipeline.syncOperations.addHandler(ByteToMessageHandler(decoder))
                    try channel.pipeline.syncOperations.addHandler(HostileConnection(upstream))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        upstream.server.withLock { $0 = channel }
        return upstream
    }

    /// Runs a server for as long as the body takes.
    package static func with<Result: Sendable>(
        _ faults: @escaping @Sendable (Request) -> Fault = { _ in .none },
        _ body: (HostileUpstream) async throws -> Result
    ) async throws -> Result {
        let upstream = try await start(faults)
        do {
            let result = try await body(upstream)
            try await upstream.close()
            return result
        } catch {
            try? await upstream.close()
            throw error
        }
    }

    /// Takes no more connections; those that are open stay until their clients close them.
    package func close() async throws {
        let channel = server.withLock { $0.take() }
        try await channel?.close().get()
    }

    /// Closes all connections, as servers close those that are idle; new ones are taken.
    package func hangUp() async {
        let open = channels.withLock { channels in
            defer { channels = [] }
            return channels
        }
        // One that its client has closed fails to close again.
        for channel in open { try? await channel.close().get() }
    }

    /// The port, or 0 once it is closed.
    package var port: Int { server.withLock { $0?.localAddress?.port ?? 0 } }

    /// The URL to configure: `http://127.0.0.1:<port>`.
    package var url: String { "http://127.0.0.1:\(port)" }

    /// What is billed, by id.
    package var invoice: [String: Bill] { state.value.invoice }

    /// What is billed in all.
    package var total: Bill {
        invoice.values.reduce(into: Bill()) { sum, bill in
            sum.requests += bill.requests
            sum.promptTokens += bill.promptTokens
            sum.completionTokens += bill.completionTokens
        }
    }

    // MARK: - What its readers have

    /// So many words of an answer were read, and it may go on.
    package func acknowledge(_ words: Int, of id: String) {
        let waiting = acknowledged.withLock { $0.raise(id, to: words) }
        for promise in waiting { promise.succeed() }
    }

    /// Lets a stream go on to its end, whoever reads it.
    package func acknowledgeAll(of id: String) { acknowledge(Int.max / 2, of: id) }

    /// Waits until that word may be written, and says so on the event loop.
    ///
    /// - Returns: `nil` if it may be written now; otherwise what to wait for.
    func turn(of word: Int, in request: Request, on loop: any EventLoop) -> EventLoopFuture<Void>? {
        guard let ahead = request.ahead else { return nil }
        return acknowledged.withLock { acknowledged in
            guard word >= acknowledged.words[request.id, default: 0] + ahead else { return nil }
            let promise = loop.makePromise(of: Void.self)
            acknowledged.waiting[request.id, default: []].append(promise)
            return promise.futureResult
        }
    }

    /// A connection has gone: nothing of its answer waits any more.
    func forget(_ id: String) {
        let waiting = acknowledged.withLock { $0.waiting.removeValue(forKey: id) } ?? []
        for promise in waiting { promise.succeed() }
    }

    private struct Acknowledged {
        var words: [String: Int] = [:]
        var waiting: [String: [EventLoopPromise<Void>]] = [:]

        mutating func raise(_ id: String, to count: Int) -> [EventLoopPromise<Void>] {
            words[id] = max(words[id, default: 0], count)
            return waiting.removeValue(forKey: id) ?? []
        }
    }

    // MARK: - Of the connections

    func opened() { state.withLock { $0.connections += 1 } }
    func stalled() { state.withLock { $0.stalls += 1 } }
    func closed() { state.withLock { $0.closed += 1 } }

    /// Hears of a request that has come whole, bills its prompt, and says what is done to it.
    func take(
        _ head: HTTPRequestHead,
        _ body: [UInt8],
        numberOnConnection: Int
    ) -> (Request, Fault) {
        let json = (try? JSONParser.parse(body, limits: .init(values: .max)).value) ?? .null
        let prompt = PromptText(json)
        let number = state.withLock { state in
            state.requests += 1
            return state.requests
        }
        let request = Request(
            number: number,
            numberOnConnection: numberOnConnection,
            id: HostileAnswer.value("id=", in: prompt.text) ?? "",
            path: head.uri,
            headers: head.headers,
            body: json,
            isStreamed: json["stream"] == true,
            answer: HostileAnswer(
                to: prompt.text,
                otherParts: prompt.otherParts,
                maxTokens: json["max_tokens"]?.integer.map { Int($0) }
            ),
            ahead: HostileAnswer.value("ahead=", in: prompt.text).flatMap { Int($0) }
        )
        let fault = faults(request)
        state.withLock { state in
            state.invoice[request.id, default: Bill()].requests += 1
            if case .refuses = fault { return }
            state.invoice[request.id]?.promptTokens += request.answer.promptTokens
        }
        return (request, fault)
    }

    /// Bills words, or takes them back if they could not be written after all.
    func bill(_ words: Int, to id: String) {
        guard words != 0 else { return }
        state.withLock { $0.invoice[id]?.completionTokens += words }
    }
}

/// The words of a prompt, and how many other parts it has.
private struct PromptText {
    var text = ""
    var otherParts = 0

    init(_ body: JSONValue) {
        guard case .array(let messages) = body["messages"] else { return }
        var texts: [String] = []
        for message in messages {
            switch message["content"] {
            case .string(let text): texts.append(text)
            case .array(let parts):
                for part in parts {
                    if let text = part["text"]?.string {
                        texts.append(text)
                    } else {
                        otherParts += 1
                    }
                }
            default: continue
            }
        }
        text = texts.joined(separator: "\n")
    }
}
