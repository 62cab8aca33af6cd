import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import SanguineModel
import Synchronization

/// The connections to an S3 storage, opened by the first request.
///
/// Mutable state: `state`, guarded by its mutex.
final class S3Connections: Sendable {
    /// The time limit for connecting: 5 s.
    static let connectTimeout = Duration.seconds(5)
    /// The longest time for which a connection may be silent while a request runs: 20 s.
    static let silence = TimeAmount.seconds(20)

    private enum State {
        case idle
        case open(HTTPClient)
        case closed
    }

    private let state = Mutex(State.idle)
    private let limit: Int

    /// Creates connections without opening any.
    ///
    /// - Parameter limit: The maximum number of connections; further requests wait for one.
    init(limit: Int) { self.limit = limit }

    /// Sends a request, and reads as much of the response as it allows.
    func send(_ exchange: S3Exchange) async throws -> S3Reply {
        var request = HTTPClientRequest(url: exchange.url)
        request.method = HTTPMethod(rawValue: exchange.method)
        for (name, value) in exchange.headers { request.headers.add(name: name, value: value) }
        if exchange.method == "PUT" { request.body = .bytes(exchange.body) }
        // The caller has the time limit, and cancels.
        let response = try await client().execute(request, deadline: .distantFuture)
        var reply = S3Reply(status: Int(response.status.code))
        for (name, value) in response.headers { reply.headers[name.lowercased()] = value }
        let limit =
            reply.isSuccess
            ? exchange.responseBytes : max(exchange.responseBytes, S3Message.documentBytes)
        for try await part in response.body {
            reply.body += part.readableBytesView.prefix(limit - reply.body.count)
            // The rest is not read, which closes the connection.
            if reply.body.count >= limit, !Self.isComplete(reply) { break }
        }
        return reply
    }

    /// Closes the connections; current requests fail.
    func close() async {
        let old = state.withLock { state in
            defer { state = .closed }
            return state
        }
        // It fails only if it is called twice.
        if case .open(let client) = old { try? await client.shutdown() }
    }

    /// Whether the body has the length that the head announced.
    private static func isComplete(_ reply: S3Reply) -> Bool {
        reply.headers["content-length"].flatMap { Int($0) } == reply.body.count
    }

    private func client() throws(S3Failure) -> HTTPClient {
        let client = state.withLock { state -> HTTPClient? in
            switch state {
            case .open(let client): return client
            case .closed: return nil
            case .idle:
                let client = HTTPClient(
                    eventLoopGroupProvider: .singleton,
                    configuration: Self.configuration(limit)
                )
                state = .open(client)
                return client
            }
        }
        guard let client else { throw .closed }
        return client
    }

    private static func configuration(_ limit: Int) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration.outgoing(
            connectTimeout: connectTimeout,
            connections: limit
        )
        configuration.timeout.read = silence
        configuration.timeout.write = silence
        // Amazon has no HTTP/2 here, and others gain nothing by it for whole objects.
        configuration.httpVersion = .http1Only
        return configuration
    }
}
