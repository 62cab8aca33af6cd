import SystemZlib
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Compressed responses", .bounded)
struct CompressionTests {
    @Test(arguments: [
        (["gzip"], true), (["deflate, GZIP;q=0.5"], true), (["br", "gzip"], true), (["*"], true),
        (["x-gzip"], true), (["gzip ; q=0"], false), (["gzip;q=0.000, *"], false), ([], false),
        ([""], false), (["identity"], false), (["*;q=0"], false), (["br;q=1, *;q=0.1"], true),
        (["gzipped"], false), (["gzip;q=0.001"], true), ([";,;;q"], false),
    ])
    func `gzip is used if the client accepts it by name or wildcard`(lines: [String], takes: Bool) {
        #expect(AcceptedEncoding.takesGzip(lines) == takes)
    }

    @Test(arguments: [0, 1, 1_000, 100_000, 1_000_000])
    func `decompressed bytes equal the original`(count: Int) throws {
        var bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) }
        let gzip = try #require(Gzip())
        for start in stride(from: 0, to: count, by: 7_000) {
            gzip.write(bytes[start..<min(start + 7_000, count)])
        }
        let compressed = try #require(gzip.finish())
        #expect(Self.decompressed(compressed) == bytes)
        bytes = Array(repeating: 0x61, count: count)
        let plain = try #require(Gzip())
        plain.write(bytes)
        let small = try #require(plain.finish())
        #expect(small.count <= 32 + count / 100)
        #expect(Self.decompressed(small) == bytes)
    }

    @Test func `a long response is compressed only for clients that accept it`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            try await guest.fill(records: 20, bytes: 2_000)
            let path = "/v1/sync/pull?since=0&limit=1000"
            let plain = try await guest.get(path)
            #expect(plain["Content-Encoding"] == nil)
            #expect(plain["Vary"] == "Accept-Encoding")
            let gzip = ["Accept-Encoding": "gzip"]
            let small = try await guest.get(path, headers: gzip)
            #expect(small["Content-Encoding"] == "gzip")
            #expect(small["Vary"] == "Accept-Encoding")
            #expect(small["Content-Length"] == "\(small.bytes.count)")
            #expect(small.bytes.count < plain.bytes.count / 4)
            #expect(Self.decompressed(small.bytes) == plain.bytes)
            let tag = try #require(plain["ETag"])
            #expect(small["ETag"] == "W/\(tag)")
            for known in [tag, "W/\(tag)"] {
                let headers = gzip.merging(["If-None-Match": known]) { _, own in own }
                #expect(try await guest.get(path, headers: headers).status == 304)
            }
            let head = try await guest.send("HEAD", path, headers: gzip)
            #expect(head.status == 200)
            #expect(head.bytes.isEmpty)
            #expect(head["Content-Encoding"] == nil)
        }
    }

    @Test func `short responses, tokens and repeated text are not compressed`()
        async throws
    {
        try await LiveServer.with { server in
            let gzip = ["Accept-Encoding": "gzip"]
            let guest = try await server.guest()
            let balance = try await guest.get("/v1/balance", headers: gzip)
            #expect(balance["Content-Encoding"] == nil)
            #expect(balance["Vary"] == nil)
            let device = #"{"deviceId":"\#(guest.device)","deviceSecret":"\#(guest.secret)"}"#
            let refresh = #"{"refreshToken":"\#(guest.session.refreshToken)"}"#
            for (path, body) in [("accounts/guest", device), ("sessions/refresh", refresh)] {
                let reply = try await server.send("POST", "/v1/\(path)", body, headers: gzip)
                #expect(reply.status == 200)
                #expect(reply["Content-Encoding"] == nil)
            }
            let text = String(repeating: "x", count: 5_000)
            let call = #"{"input":{"text":"\#(text)"}}"#
            let echo = try await guest.post("/v1/functions/echo", call, headers: gzip)
            #expect(echo.status == 200)
            #expect(echo.bytes.count > 5_000)
            #expect(echo["Content-Encoding"] == nil)
        }
    }

    @Test func `the API description and the metrics are compressed`() async throws {
        try await LiveServer.with { server in
            let gzip = ["Accept-Encoding": "gzip"]
            let document = try await server.send("GET", "/openapi.json", headers: gzip)
            #expect(document["Content-Encoding"] == "gzip")
            #expect(Self.decompressed(document.bytes) == PackageResources.openapi_json)
            let metrics = try await server.send("GET", "/metrics", headers: gzip, toAdmin: true)
            #expect(metrics["Content-Encoding"] == "gzip")
            #expect(Self.decompressed(metrics.bytes)?.isEmpty == false)
        }
    }

    /// Decompresses one gzip member, or returns `nil` if the bytes are invalid.
    private static func decompressed(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        let size = CInt(MemoryLayout<z_stream>.size)
        guard inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, size) == Z_OK else { return nil }
        defer { inflateEnd(&stream) }
        var input = bytes
        var output = [UInt8](repeating: 0, count: 4 << 20)
        return input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                guard inflate(&stream, Z_FINISH) == Z_STREAM_END else { return nil }
                return Array(output[..<Int(stream.total_out)])
            }
        }
    }
}
