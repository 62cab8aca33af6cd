import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Malformed requests", .bounded)
struct MalformedRequestTests {
    private static let spend = #"{"amount":1,"reason":"a"}"#

    @Test(arguments: [
        "{", "", "[]", "null", "7", #""text""#, #"{"amount":1,"reason":"a"} x"#,
        #"{"amount":01,"reason":"a"}"#, "{'amount':1}",
    ])
    func `a body that is not a JSON object is malformed`(body: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let body = body.isEmpty ? " " : body
            for (method, path) in [("POST", "/v1/spend"), ("PATCH", "/v1/account")] {
                let reply = try await guest.send(
                    method,
                    path,
                    body,
                    headers: ["Idempotency-Key": "k"]
                )
                #expect(reply.status == 400)
                #expect(reply.code == "malformed_body", "\(method) \(path) \(body)")
            }
        }
    }

    @Test(arguments: [
        #"{"reason":"a"}"#, #"{"amount":1}"#, #"{"amount":"1","reason":"a"}"#,
        #"{"amount":1.5,"reason":"a"}"#, #"{"amount":1e30,"reason":"a"}"#,
        #"{"amount":1.00000000000000000001,"reason":"a"}"#,
        #"{"amount":0.99999999999999999999,"reason":"a"}"#,
        #"{"amount":99999999999999999999,"reason":"a"}"#, #"{"amount":1e400,"reason":"a"}"#,
        #"{"amount":-1e400,"reason":"a"}"#, #"{"amount":1e-400,"reason":"a"}"#,
        #"{"amount":1\#(String(repeating: "0", count: 10_000)),"reason":"a"}"#,
        #"{"amount":1.\#(String(repeating: "0", count: 10_000))1,"reason":"a"}"#,
        #"{"amount":0,"reason":"a"}"#, #"{"amount":-5,"reason":"a"}"#,
        #"{"amount":9223372036854775807,"reason":"a"}"#, #"{"amount":null,"reason":"a"}"#,
        #"{"amount":1,"reason":""}"#, "{}",
    ])
    func `JSON that the call does not accept is invalid content`(body: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.post("/v1/spend", body)
            #expect(reply.status == 422)
            #expect(reply.code == "invalid_content")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a body that is not UTF-8 is malformed`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for encoding in [String.Encoding.utf16, .utf16LittleEndian, .utf32BigEndian] {
                let data = try #require(Self.spend.data(using: encoding))
                let reply = try await server.send(request(Array(data), by: guest))
                #expect(reply.code == "malformed_body", "\(encoding)")
            }
            let latin1 = Array(#"{"amount":1,"reason":""#.utf8) + [0xE9] + Array(#""}"#.utf8)
            #expect(try await server.send(request(latin1, by: guest)).code == "malformed_body")
        }
    }

    @Test(arguments: [(30, true), (31, false), (500, false), (200_000, false)])
    func `a body may nest 32 levels, which limits the cost of decoding`(
        depth: Int,
        isTaken: Bool
    ) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let nested = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            let body = #"{"settings":{"]\"[[[[":\#(nested)},"input":{"text":\#(nested)}}"#
            let patch = try await guest.send("PATCH", "/v1/account", body)
            #expect(patch.code == (isTaken ? nil : "malformed_body"))
            let call = try await guest.post("/v1/functions/echo", body)
            #expect(call.code == (isTaken ? "invalid_content" : "malformed_body"))
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test func `a body may have 2,000 values`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for (count, code) in [(1_900, nil), (2_001, "malformed_body")] {
                let values = String(repeating: "0,", count: count) + "0"
                let body = #"{"amount":1,"reason":"a","later":[\#(values)]}"#
                #expect(try await guest.post("/v1/spend", body).code == code)
            }
        }
    }

    @Test func `a body of another media type is unsupported`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for type in ["text/plain", "application/x-www-form-urlencoded", "", "json"] {
                let reply = try await guest.post(
                    "/v1/spend",
                    Self.spend,
                    headers: ["Content-Type": type]
                )
                #expect(reply.status == 415)
                #expect(reply.code == "unsupported_media_type", "\(type)")
            }
            for type in [
                "application/json; charset=utf-8", "Application/JSON", "application/a+json",
            ] {
                let reply = try await guest.post(
                    "/v1/spend",
                    Self.spend,
                    headers: ["Content-Type": type]
                )
                #expect(reply.status == 200, "\(type)")
            }
            let patch = try await guest.send(
                "PATCH",
                "/v1/account",
                #"{"language":"tr"}"#,
                headers: ["Content-Type": "application/merge-patch+json"]
            )
            #expect(patch.status == 200)
        }
    }

    @Test(arguments: ["gzip", "deflate, gzip", "IDENTITY, br", "br"])
    func `an encoded body is refused with the accepted encoding`(
        coding: String
    ) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let headers = ["Content-Encoding": coding]
            let reply = try await guest.post("/v1/spend", Self.spend, headers: headers)
            #expect(reply.status == 415)
            #expect(reply.code == "unsupported_media_type")
            #expect(reply["Accept-Encoding"] == "identity")
            let plain = ["Content-Encoding": "Identity"]
            let taken = try await guest.post("/v1/spend", Self.spend, headers: plain)
            #expect(taken.status == 200)
            let type = ["Content-Type": "text/plain"]
            let other = try await guest.post("/v1/spend", Self.spend, headers: type)
            #expect(other["Accept-Encoding"] == nil)
        }
    }

    @Test func `a body above the limit is too large, whether its length is declared or not`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let limit = WireLimits.bodyBytes
            let padding = limit - Self.spend.utf8.count
            let fits = Array(Self.spend.utf8) + Array(repeating: 0x20, count: padding)
            #expect(try await server.send(request(fits, by: guest)).status == 200)
            #expect(try await server.send(request(fits, by: guest, inChunks: true)).status == 200)
            for inChunks in [false, true] {
                var request = request(fits + [0x20], by: guest, inChunks: inChunks)
                let reply = try await server.send(request)
                #expect(reply.status == 413)
                #expect(reply.code == "body_too_large", "in chunks: \(inChunks)")
                // Without a token, the body is not read, regardless of its length.
                request.headers.remove(name: "Authorization")
                #expect(try await server.send(request).code == "unauthenticated")
            }
            #expect(try await guest.balance().available == 98)
        }
    }

    @Test(arguments: [
        "", " ", "has space", "é", String(repeating: "k", count: 129), "tab\there",
    ])
    func `a key that is not 1 to 128 visible ASCII characters is invalid`(key: String) async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.post("/v1/spend", Self.spend, key: key)
            #expect(reply.status == 400)
            #expect(reply.code == "idempotency_key_invalid")
        }
    }

    @Test func `a request with two keys is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            var request = request(Array(Self.spend.utf8), by: guest)
            request.headers.add(name: "Idempotency-Key", value: "second")
            #expect(try await server.send(request).code == "idempotency_key_invalid")
        }
    }

    @Test func `unknown members are ignored`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest(extra: #","colour":{"is":["red"]}"#)
            let body = #"{"amount":1,"reason":"a","later":[{"b":null}],"account":"x"}"#
            #expect(try await guest.post("/v1/spend", body).status == 200)
            let patch = #"{"language":"tr","nickname":"Ada"}"#
            let patched = try await guest.send("PATCH", "/v1/account", patch)
            #expect(try patched.decode(Account.self).language == "tr")
        }
    }

    @Test func `an unknown path is not found, with a problem`() async throws {
        try await LiveServer.with { server in
            for (method, path) in [
                ("GET", "/"), ("GET", "/v1"), ("GET", "/v1/nothing"), ("DELETE", "/v1/nothing"),
                ("PURGE", "/v1/nothing"), ("OPTIONS", "/v1/nothing"),
            ] {
                let reply = try await server.send(method, path)
                #expect(reply.status == 404)
                #expect(reply.code == "not_found", "\(method) \(path)")
            }
        }
    }

    @Test(arguments: [
        ("DELETE", "/v1/balance", "GET, HEAD"), ("POST", "/v1/balance", "GET, HEAD"),
        ("PURGE", "/v1/balance", "GET, HEAD"),
        ("PUT", "/v1/balance", "GET, HEAD"), ("OPTIONS", "/v1/balance", "GET, HEAD"),
        ("GET", "/v1/spend", "POST"), ("TRACE", "/v1/spend", "POST"),
        ("POST", "/v1/account", "DELETE, GET, HEAD, PATCH"), ("GET", "/v1/holds/1/capture", "POST"),
        ("POST", "/health/live", "GET, HEAD"),
    ])
    func `an unsupported method is refused with the allowed ones`(
        method: String,
        path: String,
        allow: String
    ) async throws {
        try await LiveServer.with { server in
            let reply = try await server.send(method, path)
            #expect(reply.status == 405)
            #expect(reply.code == "method_not_allowed")
            #expect(reply["Allow"] == allow)
        }
    }

    @Test func `the admin port refuses unsupported methods`() async throws {
        try await LiveServer.with { server in
            let reply = try await server.send("DELETE", "/metrics", toAdmin: true)
            #expect(reply.status == 405)
            #expect(reply["Allow"] == "GET, HEAD")
            let plan = try await server.send("GET", "/admin/v1/accounts/1/plan", toAdmin: true)
            #expect(plan["Allow"] == "PUT")
        }
    }

    private func request(
        _ bytes: [UInt8],
        by guest: Guest,
        inChunks: Bool = false
    ) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(guest.server.ports.http)/v1/spend")
        request.method = .POST
        request.headers.add(name: "Authorization", value: "Bearer \(guest.session.accessToken)")
        request.headers.add(name: "Idempotency-Key", value: UUID().uuidString)
        request.headers.add(name: "Content-Type", value: "application/json")
        let buffer = ByteBuffer(bytes: bytes)
        if inChunks {
            let half = bytes.count / 2
            let chunks = [ByteBuffer(bytes: bytes[..<half]), ByteBuffer(bytes: bytes[half...])]
            let stream = AsyncStream { continuation in
                for chunk in chunks { continuation.yield(chunk) }
                continuation.finish()
            }
            request.body = .stream(stream, length: .unknown)
        } else {
            request.body = .bytes(buffer)
        }
        return request
    }
}
