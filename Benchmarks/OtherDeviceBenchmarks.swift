import Foundation
import Sanguine
import SanguineModel
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The time until a device shows what another device of its account has spent or been granted.
///
/// The change arrives over the real feed, and the baseline is the response to the other device.
enum OtherDeviceBenchmarks {
    /// The number of spends and grants, which alternate.
    private static let rounds = 200

    static func run() async throws -> [Figure] {
        try await BenchmarkedServer.with { server in
            let folder = FileManager.default.temporaryDirectory
                .appending(path: "sanguine-other-\(ProcessInfo.processInfo.processIdentifier)")
            defer { try? FileManager.default.removeItem(at: folder) }
            // The identity of the server's first device, so that both devices have one account.
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let identity = [
                "deviceId": "bench-device-1000",
                "deviceSecret": String(repeating: "A", count: 43),
            ]
            try JSONEncoder().encode(identity)
                .write(to: folder.appending(path: "device-identity.json"))
            let transport = CountedTransport()
            var configuration = SanguineClient.Configuration(
                server: URL(string: "http://127.0.0.1:\(server.port)")
            )
            (configuration.folder, configuration.transport) = (folder, transport)
            configuration.logger = BenchmarkedServer.quiet
            let client = try SanguineClient(configuration)
            defer {
                client.close()
                transport.close()
            }
            return try await figures(of: client, transport, server)
        }
    }

    private static func figures(
        of client: SanguineClient,
        _ transport: CountedTransport,
        _ server: BenchmarkedServer
    ) async throws -> [Figure] {
        let (balances, continuation) = AsyncStream.makeStream(of: (Int64, Date).self)
        let following = client.observe(.balance) { state in
            if let balance = state.value { continuation.yield((balance.available, Date())) }
        }
        defer { withExtendedLifetime(following) {} }
        var shown = balances.makeAsyncIterator()
        let account = try await client.value(of: .account)
        guard var last = await shown.next()?.0 else { throw BenchmarkError.noServer("no balance") }
        var (answered, seen): ([Double], [Double]) = ([], [])
        var asked = 0
        for round in -20..<rounds {
            if round == 0 { asked = transport.requests }
            let isGrant = round.isMultiple(of: 2)
            let path =
                isGrant
                ? "http://127.0.0.1:\(server.adminPort)/admin/v1/accounts/\(account.id)/grants"
                : "http://127.0.0.1:\(server.port)/v1/spend"
            let start = Date()
            async let answer = post(path, isGrant ? server.adminToken : server.tokens[0])
            var moment = start
            last += isGrant ? 1 : -1
            while let (available, shownAt) = await shown.next() {
                moment = shownAt
                if available == last { break }
            }
            let own = try await answer
            guard round >= 0 else { continue }
            answered.append(own)
            seen.append(moment.timeIntervalSince(start) * 1_000)
        }
        let requests = transport.requests - asked
        guard requests == 0 else { throw BenchmarkError.noServer("\(requests) requests were made") }
        let (own, other) = (answered.sorted(), seen.sorted())
        return [("p50", rounds / 2), ("p99", rounds * 99 / 100)].map { name, place in
            Figure(
                cost: "a spend or grant shown on another device, \(name)",
                other[place],
                unit: "ms",
                of: "its response",
                own[place],
                atMost: 2
            )
        }
    }

    /// Returns the time until the response, in milliseconds.
    private static func post(_ path: String, _ token: String) async throws -> Double {
        guard let url = URL(string: path) else { throw BenchmarkError.noServer(path) }
        var request = URLRequest(url: url)
        request.httpMethod = "POST"
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.setValue(UUID().uuidString, forHTTPHeaderField: "Idempotency-Key")
        request.httpBody = Data(#"{"amount":1,"reason":"bench"}"#.utf8)
        let start = Date()
        let (data, response) = try await URLSession.shared.data(for: request)
        guard let status = (response as? HTTPURLResponse)?.statusCode, status < 300 else {
            throw BenchmarkError.noServer(String(decoding: data, as: UTF8.self))
        }
        return -start.timeIntervalSinceNow * 1_000
    }
}

/// The system's transport, which counts requests other than streams.
private final class CountedTransport: StreamingTransport {
    private let system = URLSessionTransport()
    private let count = Mutex(0)

    var requests: Int { count.withLock { $0 } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        count.withLock { $0 += 1 }
        return try await system.send(request)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await system.stream(request)
    }

    func close() { system.close() }
}
