import Foundation
import NIOCore
import NIOPosix
import SanguineModel
import Synchronization

/// A server under attack, and the attackers' own address.
struct AttackedServer: Sendable {
    let port: Int
    let group: any EventLoopGroup
    /// The attackers' address.
    ///
    /// On Linux, all of 127.0.0.0/8 is this machine.
    static let address: String = {
        #if os(Linux)
        "127.0.0.2"
        #else
        "127.0.0.1"
        #endif
    }()

    private let channels: Channels
    /// The access tokens of the attackers' guests.
    let tokens: [String]

    init(port: Int, group: any EventLoopGroup) async throws {
        self.port = port
        self.group = group
        channels = Channels()
        var tokens: [String] = []
        for number in 0..<10 {
            tokens.append(try await LiveBenchmarks.signIn(number: 1_000 + number, port: port))
        }
        self.tokens = tokens
    }

    /// Opens connections that send the given text, and read only if `reads` is true.
    ///
    /// Connections that the server refuses are left out.
    func open(
        _ count: Int,
        reads: Bool,
        _ text: @escaping @Sendable (Int) -> String
    ) async throws {
        for start in stride(from: 0, to: count, by: 100) {
            let opening = try (start..<min(count, start + 100)).map { number in
                let channel = ClientBootstrap(group: group)
                    .connectTimeout(.seconds(2))
                    .channelOption(.autoRead, value: reads)
                    .bind(to: try SocketAddress(ipAddress: Self.address, port: 0))
                    .connect(host: "127.0.0.1", port: port)
                return (number, channel)
            }
            for (number, channel) in opening {
                guard let channel = try? await channel.get() else { continue }
                await channels.add(channel)
                let bytes = text(number)
                // The write may never finish if the peer's buffers are full, so it is not awaited.
                if !bytes.isEmpty {
                    channel.writeAndFlush(ByteBuffer(string: bytes), promise: nil)
                }
            }
        }
    }

    /// Sends requests on several connections, each after a pause since the last response, and
    /// reopens connections that the server has closed.
    func storm(
        _ connections: Int,
        every pace: Duration,
        _ request: @escaping LoadGenerator.Request
    ) async throws {
        try await storm(connections, every: pace, bytes: { ByteBuffer(string: request($0, $1)) })
    }

    /// Sends binary requests in the same way.
    func storm(
        _ connections: Int,
        every pace: Duration,
        bytes: @escaping @Sendable (_ connection: Int, _ number: Int) -> ByteBuffer
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for connection in 0..<connections {
                tasks.addTask {
                    var peer: Peer?
                    var number = 0
                    while !Task.isCancelled {
                        if peer?.channel.isActive != true { peer = try? await connect() }
                        await peer?.exchange(bytes(connection, number))
                        number += 1
                        try await ContinuousClock().sleep(for: pace)
                    }
                }
            }
            try await tasks.waitForAll()
        }
    }

    private func connect() async throws -> Peer {
        let arrivals = Arrivals(eventLoop: group.next())
        let channel = try await ClientBootstrap(group: arrivals.eventLoop)
            .bind(to: try SocketAddress(ipAddress: Self.address, port: 0))
            .channelInitializer { $0.pipeline.addHandler(arrivals) }
            .connect(host: "127.0.0.1", port: port).get()
        await channels.add(channel)
        return Peer(channel: channel, arrivals: arrivals)
    }

    private struct Peer: Sendable {
        let channel: any Channel
        let arrivals: Arrivals

        /// Sends bytes, and waits for the beginning of the response or the end of the connection.
        func exchange(_ bytes: ByteBuffer) async {
            let arrival = arrivals.arm()
            channel.writeAndFlush(bytes, promise: nil)
            if !channel.isActive { arrivals.arrived() }
            try? await arrival.get()
        }
    }

    /// Notifies of the next bytes or of the end.
    private final class Arrivals: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer

        let eventLoop: any EventLoop
        private let waiting = Mutex<EventLoopPromise<Void>?>(nil)

        init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

        func arm() -> EventLoopFuture<Void> {
            let promise = eventLoop.makePromise(of: Void.self)
            waiting.withLock { $0 = promise }
            return promise.futureResult
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { arrived() }

        func channelInactive(context: ChannelHandlerContext) { arrived() }

        func arrived() {
            waiting.withLock { waiting in
                defer { waiting = nil }
                return waiting
            }?.succeed()
        }
    }

    /// Closes all opened connections.
    func leave() async throws { await channels.close() }

    private actor Channels {
        private var all: [any Channel] = []

        func add(_ channel: any Channel) { all.append(channel) }

        func close() async {
            for channel in all { try? await channel.close() }
            all = []
        }
    }
}

/// An attempt of a stranger or of ten guests to stop a server.
struct Attack: Sendable {
    /// The requests of a victim.
    struct Victim: Sendable {
        /// Returns the requests with the given token, in one of several runs.
        let requests: @Sendable (_ token: String, _ run: String) -> LoadGenerator.Request
    }

    let name: String
    /// The victim's calls of a language model.
    ///
    /// If `nil`, there is no model, and the victim reads its balance and spends.
    var victim: Victim?
    /// Prepares the attack before the measurement.
    var prepare: @Sendable (AttackedServer) async throws -> Void = { _ in }
    /// Attacks until the task is cancelled.
    let run: @Sendable (AttackedServer) async throws -> Void

    static let all =
        [
            forgedTokens, deepBodies, unfinishedBodies, unreadAnswers, idleConnections, slots,
            liveConnections, tombstones, combiningMarks, escapes, largePushes,
        ] + UpstreamAttacks.all

    /// Different invalid tokens, each with a body.
    private static let forgedTokens = Attack(name: "forged tokens") { server in
        try await server.storm(16, every: .milliseconds(25)) { connection, number in
            let token = "eyJhbGciOiJFZERTQSJ9.\(connection)x\(number).AAAA"
            return text("POST", "/v1/spend", token, body: largeBody)
        }
    }

    /// Bodies that are expensive to parse, with a valid token.
    private static let deepBodies = Attack(name: "deep bodies") { server in
        try await server.storm(16, every: .milliseconds(25)) { connection, _ in
            text("POST", "/v1/sync/push", server.tokens[connection % 10], body: largeBody)
        }
    }

    /// Bodies of a megabyte that never end.
    private static let unfinishedBodies = Attack(name: "unfinished bodies") { server in
        let half = String(repeating: " ", count: 900_000)
        try await server.open(300, reads: true) { number in
            head("POST", "/v1/sync/push", server.tokens[number % 10], length: 1_000_000) + half
        }
        try await forever()
    }

    /// Pipelined requests whose long responses are never read.
    private static let unreadAnswers = Attack(name: "unread answers") { server in
        for (number, token) in server.tokens.enumerated() { try await fill(server, token, number) }
    } run: { server in
        try await server.open(400, reads: false) { number in
            let pull = text("GET", "/v1/sync/pull?limit=1000", server.tokens[number % 10])
            return String(repeating: pull, count: 50)
        }
        try await forever()
    }

    /// More idle connections than the server may open files.
    private static let idleConnections = Attack(name: "idle connections") { server in
        try await server.open(3_000, reads: true) { _ in "" }
        try await forever()
    }

    /// Calls of ten guests that wait a minute each.
    private static let slots = Attack(name: "slots of functions") { server in
        try await server.open(1_000, reads: true) { number in
            text(
                "POST",
                "/v1/functions/echo",
                server.tokens[number % 10],
                key: "slot-\(number)",
                body: #"{"input":{"text":"a","delayMs":60000}}"#
            )
        }
        try await forever()
    }

    /// Live connections of ten guests, as many as the server allows.
    private static let liveConnections = Attack(name: "live connections") { server in
        try await server.open(1_000, reads: false) { number in
            text("GET", "/v1/live", server.tokens[number % 10])
        }
        try await forever()
    }

    /// Reads of an account with many deleted records.
    private static let tombstones = Attack(name: "tombstones") { server in
        for round in 0..<100 {
            try await push(server, server.tokens[0], round) { number in
                let id = round * 50 + number / 2
                return number.isMultiple(of: 2)
                    ? ("create", #""id":"r\#(id)","fields":{}"#) : ("delete", #""id":"r\#(id)""#)
            }
        }
    } run: { server in
        try await server.storm(8, every: .milliseconds(2)) { _, number in
            let path =
                number.isMultiple(of: 2)
                ? "/v1/sync/pull?since=0&limit=1" : "/v1/collections/notes/records?limit=1"
            return text("GET", path, server.tokens[0])
        }
    }

    /// Member names whose normalization takes quadratic time.
    ///
    /// One is as long as a body allows and needs no token. A thousand others are shorter.
    private static let combiningMarks = Attack(name: "combining marks") { server in
        let long = #"{"deviceSecret":"a-device-of-an-attacker","\#(marks(225_000))":1}"#
        let names = (0..<1_000).map { #""\#($0)\#(marks(200))":1"# }.joined(separator: ",")
        let many = #"{"device":"an-attacking-device","operations":[{\#(names)}]}"#
        try await server.storm(4, every: .milliseconds(100)) { connection, _ in
            connection.isMultiple(of: 2)
                ? text("POST", "/v1/accounts/guest", "none", body: long)
                : text("POST", "/v1/sync/push", server.tokens[connection], body: many)
        }
    }

    /// Pushes of 900 KB whose text is escaped.
    private static let escapes = Attack(name: "escaped text") { server in
        try await storm(server, String(repeating: #"\u0061"#, count: 1_500))
    }

    /// Pushes of 900 KB of plain text.
    private static let largePushes = Attack(name: "large pushes") { server in
        try await storm(server, String(repeating: "a", count: 9_000))
    }

    // MARK: - Requests

    /// Combining marks of two alternating classes, which must be sorted to be normalized.
    private static func marks(_ pairs: Int) -> String {
        "a" + String(repeating: "\u{301}\u{316}", count: pairs)
    }

    /// Repeatedly pushes a hundred records with the text.
    private static func storm(_ server: AttackedServer, _ value: String) async throws {
        try await server.storm(4, every: .milliseconds(100)) { connection, number in
            let body = pushBody(number + 1) { place in
                ("create", #""id":"c\#(connection)n\#(place)","fields":{"text":"\#(value)"}"#)
            }
            return text("POST", "/v1/sync/push", server.tokens[connection], body: body)
        }
    }

    private static let largeBody: String = {
        let deep = String(repeating: #"{"a":["#, count: 15) + String(repeating: "]}", count: 15)
        return #"{"device":"an-attacking-device","operations":["#
            + Array(repeating: deep, count: 380).joined(separator: ",") + "]}"
    }()

    private static func forever() async throws {
        try await ContinuousClock().sleep(for: .seconds(3_600))
    }

    private static func fill(
        _ server: AttackedServer,
        _ token: String,
        _ guest: Int
    ) async throws {
        let long = String(repeating: "x", count: 8_000)
        try await push(server, token, 0) { number in
            ("create", #""id":"g\#(guest)n\#(number)","fields":{"text":"\#(long)"}"#)
        }
    }

    /// Pushes a hundred operations.
    private static func push(
        _ server: AttackedServer,
        _ token: String,
        _ round: Int,
        _ operation: (Int) -> (mutation: String, arguments: String)
    ) async throws {
        let body = pushBody(round, operation)
        let (_, status) = try await LiveBenchmarks.post(
            "/v1/sync/push",
            token,
            Data(body.utf8),
            port: server.port
        )
        guard status == 200 else { throw BenchmarkError.refused(1) }
    }

    /// Returns the body of a push of a hundred operations.
    private static func pushBody(
        _ round: Int,
        _ operation: (Int) -> (mutation: String, arguments: String)
    ) -> String {
        let operations = (0..<100).map { number in
            let (mutation, arguments) = operation(number)
            let id = UUID().uuidString.lowercased()
            return #"""
                {"id":"\#(id)","sequence":\#(round * 100 + number + 1),"lane":"l",\#
                "mutator":"record.\#(mutation)","arguments":{"collection":"notes",\#(arguments)}}
                """#
        }
        let list = operations.joined(separator: ",")
        return #"{"device":"an-attacking-device","operations":[\#(list)]}"#
    }

    static func text(
        _ method: String,
        _ path: String,
        _ token: String,
        key: String? = nil,
        body: String? = nil
    ) -> String {
        head(method, path, token, key: key, length: body?.utf8.count) + (body ?? "")
    }

    static func head(
        _ method: String,
        _ path: String,
        _ token: String,
        key: String? = nil,
        length: Int?,
        type: String = "application/json"
    ) -> String {
        var lines = [
            "\(method) \(path) HTTP/1.1", "Host: localhost", "Authorization: Bearer \(token)",
        ]
        if let key { lines.append("Idempotency-Key: \(key)") }
        if let length {
            lines += ["Content-Type: \(type)", "Content-Length: \(length)"]
        }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }
}
