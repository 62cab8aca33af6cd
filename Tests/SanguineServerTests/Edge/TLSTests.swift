import AsyncHTTPClient
import CoreMetrics
import Foundation
import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOSSL
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("TLS and HTTP/2", .bounded)
struct TLSTests {
    private func withServer(
        _ change: (inout LiveServer.Setup) -> Void = { _ in },
        _ body: (LiveServer, CertificateFiles) async throws -> Void
    ) async throws {
        try await CertificateFiles.with { files in
            try await LiveServer.with {
                $0.settings.http.tlsCertificate = files.certificate
                $0.settings.http.tlsKey = files.key
                change(&$0)
            } _: { server in
                try await body(server, files)
            }
        }
    }

    /// Runs the body with a client that trusts only the given certificate.
    private func withClient(
        trusting certificate: TestCertificate = .first,
        version: HTTPClient.Configuration.HTTPVersion = .automatic,
        _ body: (HTTPClient) async throws -> Void
    ) async throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(
            try NIOSSLCertificate.fromPEMBytes(Array(certificate.pem.utf8))
        )
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
        configuration.httpVersion = version
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            try await body(client)
            try await client.shutdown()
        } catch {
            try await client.shutdown()
            throw error
        }
    }

    private func get(
        _ path: String,
        from server: LiveServer,
        through client: HTTPClient
    ) async throws -> Reply {
        let url = "https://localhost:\(server.ports.http)\(path)"
        return try await server.send(HTTPClientRequest(url: url), through: client)
    }

    /// Signs a guest in over TLS.
    private func guest(of server: LiveServer, _ client: HTTPClient) async throws -> SignedIn {
        var request = HTTPClientRequest(
            url: "https://localhost:\(server.ports.http)/v1/accounts/guest"
        )
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        let body = #"{"deviceId":"device-over-tls-1","deviceSecret":"\#(Guest.secret(7))"}"#
        request.body = .bytes(ByteBuffer(string: body))
        return try await server.send(request, through: client).decode(SignedIn.self)
    }

    private func unread(_ server: LiveServer) async throws -> Int {
        let metrics = try await server.send("GET", "/metrics", toAdmin: true).body
        return metrics.firstMatch(of: /\nconnections_unread_total (\d+)/)
            .flatMap { Int($0.1) } ?? 0
    }

    @Test func `the server speaks HTTP/2 or HTTP/1.1, as the client negotiates`() async throws {
        try await withServer { server, _ in
            for version in [HTTPClient.Configuration.HTTPVersion.automatic, .http1Only] {
                try await withClient(version: version) { client in
                    let isFirst = version == .automatic
                    for _ in 0..<3 {
                        let reply = try await get("/health/live", from: server, through: client)
                        #expect(reply.status == 200)
                        #expect(reply.body == #"{"status":"ok"}"#)
                        #expect(reply.version == (isFirst ? .http2 : .http1_1))
                    }
                    #expect(try await guest(of: server, client).account.kind == .guest)
                    let document = try await get("/openapi.json", from: server, through: client)
                    #expect(document.bytes == PackageResources.openapi_json)
                    let lost = try await get("/v1/nothing", from: server, through: client)
                    #expect(lost.code == "not_found")
                }
            }
        }
    }

    private struct Words: Codable, Sendable { var text: String }

    /// A function that asks a model.
    private struct Question: FunctionCall {
        typealias Output = String
        static let name = "question"
        static let rules = FunctionRules(price: .free)
        var input: Words
    }

    @Test(arguments: [HTTPClient.Configuration.HTTPVersion.automatic, .http1Only])
    func `a body of unknown length is read off the connection's thread`(
        version: HTTPClient.Configuration.HTTPVersion
    ) async throws {
        let places = Mutex<[Bool]>([])
        try await withServer {
            $0.functions = [
                ServerFunction(asking: Question.self) { input in
                    places.withLock { $0.append(LoopExecutor.current != nil) }
                    return Prompt(input.text)
                }
            ]
        } _: { server, _ in
            try await withClient(version: version) { client in
                let token = try await guest(of: server, client).session.accessToken
                for isKnown in [true, false] {
                    var request = HTTPClientRequest(
                        url: "https://localhost:\(server.ports.http)/v1/functions/question"
                    )
                    request.method = .POST
                    request.headers.add(name: "Content-Type", value: "application/json")
                    request.headers.add(name: "Authorization", value: "Bearer \(token)")
                    request.headers.add(name: "Idempotency-Key", value: "key-\(isKnown)")
                    let body = ByteBuffer(string: #"{"input":{"text":"a"}}"#)
                    let pieces = AsyncStream { continuation in
                        continuation.yield(body)
                        continuation.finish()
                    }
                    request.body =
                        isKnown ? .bytes(body) : .stream(pieces, length: .unknown)
                    #expect(try await server.send(request, through: client).status == 503)
                }
            }
        }
        #expect(places.withLock { $0 } == [true, false])
    }

    @Test func `a request without TLS gets no response`() async throws {
        try await withServer { server, _ in
            let received = try await exchange(
                server.ports.http,
                "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
            )
            #expect(!received.contains("HTTP"))
        }
    }

    @Test func `a handshake that takes too long closes the connection`() async throws {
        try await CertificateFiles.with { files in
            let edge = Edge(
                idleTimeout: .seconds(60),
                writeTimeout: .seconds(60),
                permits: SharedPool(limit: 1, addressShare: 1),
                proxies: TrustedProxies([]),
                tls: try TLSIdentity(certificate: files.certificate, key: files.key),
                unread: Counter(label: "unread", factory: OpenMetricsRegistry())
            )
            let loop = NIOAsyncTestingEventLoop()
            let channel = NIOAsyncTestingChannel(loop: loop)
            let connection = EdgeChannel(edge: edge) { _, _, _ in }
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let value = try await loop.executeInContext {
                connection.setup(channel: channel, logger: logger)
            }.get()
            await loop.advanceTime(by: .seconds(Int64(EdgeLimits.handshakeSeconds) - 1))
            #expect(edge.permits.count == 1)
            await loop.advanceTime(by: .seconds(1))
            #expect(edge.permits.count == 0)
            await #expect(throws: ChannelError.outputClosed) { try await value.agreed.get() }
            await loop.shutdownGracefully()
        }
    }

    @Test func `SIGHUP reloads the certificate without closing connections`() async throws {
        try await withServer { server, files in
            try await withClient { client in
                #expect(try await get("/health/live", from: server, through: client).status == 200)
                try files.write(.second)
                kill(getpid(), SIGHUP)
                try await withClient(trusting: .second) { renewed in
                    try await eventually("the new certificate is shown") {
                        let reply = try? await get("/health/live", from: server, through: renewed)
                        return reply?.status == 200
                    }
                }
                // This client trusts only the first certificate, so it still uses its old
                // connection.
                #expect(try await get("/health/live", from: server, through: client).status == 200)
            }
        }
    }

    @Test func `an invalid certificate does not replace the current one`() async throws {
        try await CertificateFiles.with { files in
            let identity = try TLSIdentity(certificate: files.certificate, key: files.key)
            let first = identity.context
            try files.write(certificate: "nonsense", key: TestCertificate.second.keyPEM)
            #expect(throws: TLSFileError.self) { try identity.reload() }
            #expect(identity.context === first)
            let second = TestCertificate.second
            try files.write(certificate: second.pem, key: TestCertificate.first.keyPEM)
            let mixed = TLSFileError.unusable(certificate: files.certificate, key: files.key)
            #expect(throws: mixed) { try identity.reload() }
            try files.write(second, mode: 0o644)
            let open = OwnerFileError.readableByOthers(path: files.key, mode: 0o644)
            #expect(throws: TLSFileError.key(open)) { try identity.reload() }
            try FileManager.default.removeItem(atPath: files.key)
            #expect(throws: TLSFileError.missing(path: files.key)) { try identity.reload() }
            #expect(identity.context === first)
            try files.write(second)
            try identity.reload()
            #expect(identity.context !== first)
        }
    }

    @Test func `a server does not start with a key that other users can read`() async throws {
        try await CertificateFiles.with { files in
            try files.write(.first, mode: 0o640)
            var setup = LiveServer.Setup()
            setup.settings.http.tlsCertificate = files.certificate
            setup.settings.http.tlsKey = files.key
            let open = OwnerFileError.readableByOthers(path: files.key, mode: 0o640)
            await #expect(throws: TLSFileError.key(open)) {
                try await LiveServer.with(setup) { _ in }
            }
        }
    }

    @Test func `the HTTP/2 settings limit streams and headers`() async throws {
        try await withServer { server, _ in
            let peer = try await HTTP2Peer.open(server.ports.http)
            let settings = try #require(peer.frames.first)
            #expect(settings.kind == Frame.settings)
            let numbers = stride(from: 0, to: settings.payload.count, by: 6).map { start in
                let value = settings.payload[(start + 2)..<(start + 6)].reduce(0) {
                    $0 << 8 | Int($1)
                }
                return [Int(settings.payload[start + 1]), value]
            }
            #expect(numbers.contains([3, EdgeLimits.streams]))
            #expect(numbers.contains([6, EdgeLimits.http2HeaderBytes]))
        }
    }

    @Test func `a client that cancels many requests loses its connection`() async throws {
        try await withServer { server, _ in
            let peer = try await HTTP2Peer.open(server.ports.http)
            var frames: [UInt8] = []
            for number in 0..<UInt32(EdgeLimits.resetStreams + 50) {
                let stream = 2 * number + 1
                frames += Frame.request("/health/live", stream: stream).bytes
                frames += Frame(kind: Frame.reset, stream: stream, payload: [0, 0, 0, 8]).bytes
            }
            try await peer.send(frames)
            try await peer.closed()
            #expect(peer.frames.contains { $0.kind == Frame.goAway })
        }
    }

    @Test func `oversized headers end the request or the connection`() async throws {
        try await withServer { server, _ in
            let peer = try await HTTP2Peer.open(server.ports.http)
            let large = String(repeating: "x", count: 4_000)
            let fields = (0..<5).map { ("x-\($0)", large) }
            var head = Frame.request("/health/live", fields: fields, stream: 1)
            let rest = Array(head.payload[10_000...])
            head.payload.removeLast(rest.count)
            head.flags = Frame.endStream
            let flags = Frame.endHeaders
            let continuation = Frame(kind: 9, flags: flags, stream: 1, payload: rest)
            try await peer.send(head, continuation)
            try await eventually("the request is refused") {
                peer.isClosed
                    || peer.frames.contains { $0.kind == Frame.reset || $0.kind == Frame.goAway }
            }
            #expect(!peer.frames.contains { $0.kind == Frame.headers })
        }
    }

    @Test func `an unread request body resets its stream after the response, and no other stream`()
        async throws
    {
        try await withServer { server, _ in
            let peer = try await HTTP2Peer.open(server.ports.http)
            try await peer.send(
                Frame.request("/v1/nowhere", method: "POST", stream: 1, hasBody: true),
                Frame(kind: Frame.data, stream: 1, payload: [1, 2, 3])
            )
            try await eventually("the stream is reset") {
                peer.frames.contains { $0.kind == Frame.reset && $0.stream == 1 }
            }
            let own = peer.frames.filter { $0.stream == 1 }
            #expect(own.first?.kind == Frame.headers)
            #expect(own.contains { $0.kind == Frame.data && $0.flags & Frame.endStream != 0 })
            try await peer.send(Frame.request("/health/live", stream: 3))
            try await eventually("the next response") {
                peer.frames.contains { $0.stream == 3 && $0.flags & Frame.endStream != 0 }
            }
            #expect(!peer.isClosed)
        }
    }

    @Test func `a stream that the client does not read is reset without closing the connection`()
        async throws
    {
        try await withServer {
            $0.settings.limits.writeTimeout = .seconds(1)
        } _: { server, _ in
            // The window is zero, so no byte of a body may be sent.
            let peer = try await HTTP2Peer.open(server.ports.http, settings: [(4, 0)])
            try await peer.send(Frame.request("/openapi.json", stream: 1))
            try await eventually("the stream is reset", within: .seconds(30)) {
                peer.frames.contains { $0.kind == Frame.reset && $0.stream == 1 }
            }
            #expect(!peer.isClosed)
            #expect(try await unread(server) == 1)
            #expect(server.answers.count == 0)
        }
    }

    @Test func `an HTTP/2 connection that the client does not read is closed`() async throws {
        try await withServer {
            $0.settings.limits.writeTimeout = .seconds(1)
        } _: { server, _ in
            // Not the largest window: the updates of `closed()` would exceed it, which is an error.
            let window = UInt32(Int32.max / 2)
            let peer = try await HTTP2Peer.open(server.ports.http, settings: [(4, window)])
            let more = Frame.four(window - 65_535)
            try await peer.send(Frame(kind: Frame.windowUpdate, payload: more))
            try await peer.stopReading()
            // In one write, because the server may close the connection before a second one.
            try await peer.send(
                (0..<UInt32(90)).flatMap {
                    Frame.request("/openapi.json", stream: 2 * $0 + 1).bytes
                }
            )
            try await peer.closed()
            try await eventually("no response waits") { server.answers.count == 0 }
            #expect(try await unread(server) > 0)
        }
    }

    @Test func `an idle client that ignores GOAWAY does not delay the close`() async throws {
        try await withServer {
            $0.settings.limits.idleTimeout = .seconds(1)
            $0.settings.limits.writeTimeout = .seconds(1)
        } _: { server, _ in
            let peer = try await HTTP2Peer.open(server.ports.http)
            try await peer.send(Frame.request("/health/live", stream: 1))
            try await eventually("the GOAWAY frame", within: .seconds(30)) {
                peer.frames.contains { $0.kind == Frame.goAway }
            }
            try await eventually("the connection is closed", within: .seconds(30)) { peer.isClosed }
            #expect(try await unread(server) == 0)
        }
    }
}
