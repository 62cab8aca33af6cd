import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Bodies in files, over real sockets and over transports without support for files.
@Suite("Transports and files", .bounded)
struct UploadTransportTests {
    /// A transport as an app might write it.
    private struct PlainTransport: HTTPTransport {
        let network: ScriptedTransport

        func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
            try await network.send(request)
        }
    }

    private let files = TemporaryFolder()
    private let file: URL

    init() throws {
        file = files.url.appending(path: "a.txt")
        try FileManager.default.createDirectory(at: files.url, withIntermediateDirectories: true)
        try Data("hello".utf8).write(to: file)
    }

    private func request(_ url: URL) -> TransportRequest {
        var request = TransportRequest(method: "PUT", url: url, headers: ["Content-Type": "a/b"])
        request.bodyFile = file
        return request
    }

    private static func body(of text: String) -> Substring? {
        text.range(of: "\r\n\r\n").map { text[$0.upperBound...] }
    }

    @Test func `a file larger than the memory limit arrives complete`() async throws {
        let size = ClientLimits.requestBodyBytes + 1
        try Data(repeating: UInt8(ascii: "x"), count: size).write(to: file)
        let server = try LoopbackServer { _, _ in LoopbackServer.Reply(body: "{}") }
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        let progressReports = WatchedState<[UploadProgress]>([])
        let response = try await transport.upload(request(server.url("/a"))) { progress in
            progressReports.withLock { $0.append(progress) }
        }

        let text = try #require(server.received.first)
        #expect(response.status == 200)
        #expect(text.lowercased().contains("content-length: \(size)\r\n"))
        #expect(Self.body(of: text)?.utf8.count == size)
        #expect(
            progressReports.value.last
                == UploadProgress(sentBytes: Int64(size), totalBytes: Int64(size))
        )
        let sent = progressReports.value.map(\.sentBytes)
        #expect(sent == sent.sorted() && sent.count > 2)
    }

    @Test(arguments: [307, 308])
    func `a redirect within the origin resends the body`(status: Int) async throws {
        let server = try LoopbackServer { target, _ in
            guard target == "/old" else { return LoopbackServer.Reply(body: "{}") }
            return LoopbackServer.Reply(status: status, headers: ["Location: /new"])
        }
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        let response = try await transport.upload(request(server.url("/old"))) { _ in }
        let json = TransportRequest(method: "POST", url: server.url("/old"), body: Data("{}".utf8))
        _ = try await transport.send(json)

        #expect(response.status == 200)
        #expect(server.received.map { Self.body(of: $0) } == ["hello", "hello", "{}", "{}"])
    }

    @Test func `redirects are limited`() async throws {
        let server = try LoopbackServer { _, _ in
            LoopbackServer.Reply(status: 307, headers: ["Location: /again"])
        }
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        let response = try await transport.upload(request(server.url("/old"))) { _ in }

        #expect(response.status == 307)
        #expect(server.received.count == ClientLimits.redirects + 1)
    }

    @Test func `a missing file is reported`() async throws {
        let server = try LoopbackServer()
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        try FileManager.default.removeItem(at: file)
        let error = await #expect(throws: TransportError.self) {
            try await transport.upload(request(server.url("/echo"))) { _ in }
        }
        guard case .invalid = error else {
            Issue.record("\(String(describing: error))")
            return
        }

        #expect(error?.description.contains("Keep it where it is") == true)
        #expect(error?.description.contains("address") == false)
        #expect(server.received.isEmpty)
    }

    @Test func `a backend that stays silent after the body ends the upload in time`() async throws {
        let server = try LoopbackServer()
        defer { server.stop() }
        let clock = ManualClock()
        let transport = URLSessionTransport(clock: clock)
        defer { transport.close() }
        let request = request(server.url("/silent"))
        let ended = WatchedState<TransportError?>(nil)
        Task {
            do throws(TransportError) {
                _ = try await transport.upload(request) { _ in }
            } catch {
                ended.withLock { $0 = error }
            }
        }
        try await server.waitForRequests(1)
        // Bytes were sent in the first timeout, and none in a later one.
        try await eventually("the request has ended") {
            clock.advance(by: request.timeout)
            return ended.value != nil
        }

        #expect(ended.value == .timedOut)
    }

    private func outcome(
        of body: RequestBody,
        _ network: ScriptedTransport
    ) async throws -> Result<Int, SanguineError> {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "http://songs.test")
        configuration.transport = PlainTransport(network: network)
        configuration.logger = .silent
        let client = try SanguineClient(configuration)
        defer { client.close() }
        let query = ValueQuery<Int>("search", policy: .alwaysStale.retry(.never)) { request in
            try await request.response("search", body: body).status
        }
        do throws(SanguineError) {
            return .success(try await client.value(of: query))
        } catch {
            return .failure(error)
        }
    }

    @Test func `a transport without support for files receives small ones in memory`() async throws
    {
        let network = ScriptedTransport { _ in .status(200) }
        #expect(try await outcome(of: .file(file), network) == .success(200))
        #expect(network.requests.map(\.body) == [Data("hello".utf8)])
        #expect(network.requests.first?.bodyFile == nil)
    }

    @Test func `a transport without support for files refuses large ones with the reason`()
        async throws
    {
        try Data(count: ClientLimits.requestBodyBytes + 1).write(to: file)
        let network = ScriptedTransport { _ in .status(200) }
        guard case .failure(let error) = try await outcome(of: .file(file), network) else {
            Issue.record("It was sent.")
            return
        }

        #expect(error.code == "not_configured")
        #expect(error.description.contains("'UploadingTransport'"))
        #expect(network.requests.isEmpty)
    }

    @Test func `a transport without support for files says whether it or the file is the cause`()
        async throws
    {
        let network = ScriptedTransport { _ in .status(200) }
        let transport = PlainTransport(network: network)
        let request = request(try #require(URL(string: "http://songs.test/a")))
        try Data(count: ClientLimits.requestBodyBytes + 1).write(to: file)
        let tooLarge = await #expect(throws: TransportError.self) {
            try await transport.carry(request, progress: nil)
        }
        try FileManager.default.removeItem(at: file)
        let missing = await #expect(throws: TransportError.self) {
            try await transport.carry(request, progress: nil)
        }

        #expect(tooLarge?.description.contains("Use an UploadingTransport") == true)
        #expect(missing == .unreadableBodyFile)
        #expect(network.requests.isEmpty)
        for error in [tooLarge, missing] {
            #expect(error?.description.contains("address") == false)
        }
    }

    @Test func `a faulty network carries files and their progress`() async throws {
        let network = ScriptedTransport { _ in .status(200) }
        let faulty = FaultyNetwork(network, seed: 1, clock: ManualClock())
        let progressReports = WatchedState<[Double]>([])
        let url = try #require(URL(string: "http://songs.test/a"))
        let response = try await faulty.upload(request(url)) { progress in
            progressReports.withLock { $0.append(progress.fraction) }
        }

        #expect(response.status == 200)
        #expect(network.requests.map(\.body) == [Data("hello".utf8)])
        #expect(progressReports.value == [0, 1])
    }
}
