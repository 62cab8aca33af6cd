package import NIOCore
package import NIOHTTP1
import NIOPosix
package import SanguineModel
package import SanguineTesting
import Synchronization

/// A language model on loopback with scripted faults and its own bill.
///
/// ```swift
/// try await HostileUpstream.with({ $0.number == 1 ? .reset(bytes: 40) : .none }) { upstream in
///     …  // call upstream.url with a prompt that holds `id=a`
///     #expect(upstream.invoice["a"]?.completionTokens == 3)
/// }
/// ```
///
/// Requests are identified by the id in their prompt, which is the letters, digits, `-` and `_`
/// after `id=`. Answers and token counts are those of ``HostileAnswer``.
///
/// The prompt's tokens are billed when a request is complete, unless it is refused by its status.
/// A word is billed as a token when its whole chunk is written. The words of a whole answer are
/// billed together once all of it is written.
///
/// The prompt can limit the words in transit: with `ahead=8`, a stream is at most 8 words ahead of
/// those that ``acknowledge(_:of:)`` reports as read, and continues when that reports more.
///
/// Mutable state: `state`, behind its mutex, for tests to await; `server`, `channels` and
/// `acknowledged`, each behind its own mutex.
package final class HostileUpstream: Sendable {
    /// A received request.
    package struct Request: Sendable {
        /// The number of the request, from 1.
        package let number: Int
        /// The number of the request on its connection, from 1.
        package let numberOnConnection: Int
        /// The id in the prompt after `id=`, or an empty string.
        package let id: String
        /// The path: `/v1/chat/completions`.
        package let path: String
        /// The header fields.
        package let headers: HTTPHeaders
        /// The body.
        package let body: JSONValue
        /// Whether the request is for a stream.
        package let isStreamed: Bool
        /// The answer of an honest model.
        package let answer: HostileAnswer
        /// The number of words that the stream may be ahead of its reader, as `ahead=8` in the
        /// prompt sets, or `nil` without a limit.
        package let ahead: Int?
    }

    /// The bill of an id.
    package struct Bill: Hashable, Sendable {
        /// The number of complete requests, including refused ones.
        package var requests = 0
        /// The number of prompt tokens.
        package var promptTokens = 0
        /// The number of written words.
        package var completionTokens = 0

        package init(requests: Int = 0, promptTokens: Int = 0, completionTokens: Int = 0) {
            self.requests = requests
            self.promptTokens = promptTokens
            self.completionTokens = completionTokens
        }
    }

    /// The counts of requests and connections.
    package struct State: Sendable {
        /// The bills by id.
        package var invoice: [String: Bill] = [:]
        /// The number of opened connections.
        package var connections = 0
        /// The number of connections that either side closed.
        package var closed = 0
        /// The number of complete requests.
        package var requests = 0
        /// The number of times that a connection had more to write than its client accepted.
        package var stalls = 0
    }

    /// The counts of requests and connections, for tests to await.
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
    ///   - group: The event loops that run the server.
    ///   - faults: Returns the fault for each request, on the connection's event loop.
    /// - Returns: The server, which accepts connections.
    /// - Throws: An error if the port cannot be bound.
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

    /// Runs a server while the body runs.
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

    /// Stops accepting connections.
    ///
    /// Open connections stay until their clients close them.
    package func close() async throws {
        let channel = server.withLock { $0.take() }
        try await channel?.close().get()
    }

    /// Closes all connections, as servers close idle ones, and still accepts new ones.
    package func hangUp() async {
        let open = channels.withLock { channels in
            defer { channels = [] }
            return channels
        }
        // Closing fails if the client has closed the connection.
        for channel in open { try? await channel.close().get() }
    }

    /// The port, or 0 after closing.
    package var port: Int { server.withLock { $0?.localAddress?.port ?? 0 } }

    /// The URL to configure: `http://127.0.0.1:<port>`.
    package var url: String { "http://127.0.0.1:\(port)" }

    /// The bills by id.
    package var invoice: [String: Bill] { state.value.invoice }

    /// The sum of all bills.
    package var total: Bill {
        invoice.values.reduce(into: Bill()) { sum, bill in
            sum.requests += bill.requests
            sum.promptTokens += bill.promptTokens
            sum.completionTokens += bill.completionTokens
        }
    }

    // MARK: - Acknowledgements

    /// Records that a reader has the given number of words, so that the stream may continue.
    package func acknowledge(_ words: Int, of id: String) {
        let waiting = acknowledged.withLock { $0.raise(id, to: words) }
        for promise in waiting { promise.succeed() }
    }

    /// Lets a stream run to its end without further acknowledgements.
    package func acknowledgeAll(of id: String) { acknowledge(Int.max / 2, of: id) }

    /// Waits on the event loop until the word may be written.
    ///
    /// - Returns: A future to wait for, or `nil` if the word may be written now.
    func turn(of word: Int, in request: Request, on loop: any EventLoop) -> EventLoopFuture<Void>? {
        guard let ahead = request.ahead else { return nil }
        return acknowledged.withLock { acknowledged in
            guard word >= acknowledged.words[request.id, default: 0] + ahead else { return nil }
            let promise = loop.makePromise(of: Void.self)
            acknowledged.waiting[request.id, default: []].append(promise)
            return promise.futureResult
        }
    }

    /// Ends the waits for the answer of a closed connection.
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

    // MARK: - Events of connections

    func opened() { state.withLock { $0.connections += 1 } }
    func stalled() { state.withLock { $0.stalls += 1 } }
    func closed() { state.withLock { $0.closed += 1 } }

    /// Bills the prompt of a complete request, and returns the request with its fault.
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

    /// Bills words, or removes them from the bill if writing failed.
    func bill(_ words: Int, to id: String) {
        guard words != 0 else { return }
        state.withLock { $0.invoice[id]?.completionTokens += words }
    }
}

/// The text of a prompt, and the number of its other parts.
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
