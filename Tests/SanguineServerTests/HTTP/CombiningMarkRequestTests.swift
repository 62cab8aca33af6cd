import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

/// Sends text that takes minutes to hash or compare, in every part of a request.
///
/// A slow response exceeds the suite's time limit.
@Suite("Combining marks over HTTP", .bounded)
struct CombiningMarkRequestTests {
    private static func marks(_ count: Int) -> String {
        "a" + String(repeating: "\u{301}\u{316}", count: count / 2)
    }

    private static func create(_ arguments: String) -> String {
        #""lane":"a","mutator":"record.create","arguments":{\#(arguments)}"#
    }

    /// The longest texts that a body and a head may have.
    private static let (long, short) = (marks(400_000), marks(20_000))

    @Test(arguments: [
        #"{"LONG":1}"#, #"{"deviceId":"LONG","deviceSecret":"SECRET"}"#,
        #"{"deviceId":"a-device-of-the-tests","deviceSecret":"LONG"}"#,
        #"{"deviceId":"a-device-of-the-tests","deviceSecret":"SECRET","timeZone":"LONG"}"#,
        #"{"deviceId":"a-device-of-the-tests","deviceSecret":"SECRET","language":"LONG"}"#,
    ])
    func `a guest request with many marks is refused quickly`(body: String) async throws {
        try await LiveServer.with { server in
            let body = body.replacing("LONG", with: Self.long)
                .replacing("SECRET", with: Guest.secret(7))
            let reply = try await server.send("POST", "/v1/accounts/guest", body)
            #expect((400..<500).contains(reply.status), "\(reply.status)")
            #expect(try await server.send("GET", "/health/live").status == 200)
        }
    }

    /// Each body is sent with 200 marks, the most allowed in a row, and with as many as fit.
    @Test(arguments: [
        ("/v1/spend", #"{"amount":1,"reason":"LONG"}"#),
        ("/v1/sync/push", #"{"device":"LONG","operations":[]}"#),
        ("/v1/functions/echo", #"{"input":{"LONG":"a"}}"#),
        ("/v1/functions/echo", #"{"input":{"text":"a"},"attachments":["LONG"]}"#),
        ("/v1/functions/echo", #"{"input":{"text":"a"},"thread":"LONG"}"#),
        ("/v1/chat/completions", #"{"model":"LONG","messages":[{"role":"user","content":"a"}]}"#),
        ("/v1/sessions/refresh", #"{"refreshToken":"LONG"}"#),
    ])
    func `a body with many marks is refused quickly`(path: String, body: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for text in [Self.long, Self.marks(200)] {
                let reply = try await guest.post(path, body.replacing("LONG", with: text))
                #expect((400..<500).contains(reply.status), "\(path): \(reply.status)")
            }
        }
    }

    @Test(arguments: [
        #""lane":"LONG","mutator":"record.create","arguments":{}"#,
        #""lane":"a","mutator":"LONG","arguments":{}"#,
        #""lane":"a","mutator":"record.create","arguments":{"LONG":1}"#,
        create(#""collection":"LONG","id":"a","fields":{}"#),
        create(#""collection":"notes","id":"LONG","fields":{}"#),
        create(#""collection":"notes","id":"a","fields":{"LONG":1}"#),
        #""lane":"a","mutator":"record.increment","arguments":"#
            + #"{"collection":"notes","id":"a","field":"LONG","by":1}"#,
    ])
    func `an operation with many marks is refused quickly`(operation: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for text in [Self.long, Self.marks(200)] {
                let operation = operation.replacing("LONG", with: text)
                let body = #"""
                    {"device":"a-device-of-the-tests","operations":[
                    {"id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f610","sequence":1,\#(operation)}]}
                    """#
                let reply = try await guest.post("/v1/sync/push", body, key: nil)
                let answer = try? reply.decode(PushAnswer.self)
                #expect(reply.status == 422 || answer?.results.map(\.status) == [.refused])
            }
        }
    }

    @Test(arguments: [
        "/v1/functions/LONG/quote", "/v1/quotas/LONG/consume", "/v1/calls/LONG",
        "/v1/collections/LONG/records", "/v1/collections/notes/records/LONG", "/v1/blobs/LONG",
        "/v1/holds/LONG/capture", "/v1/collections/posts/records?LONG=1&limit=x",
        "/v1/collections/posts/records?where.LONG=1", "/v1/collections/posts/records?order=LONG",
        "/v1/collections/posts/records?where.LONG=LONG", "/v1/ledger?cursor=LONG",
        "/v1/balance?operations=LONG", "/v1/sync/pull?operations=LONG", "/v1/sync/pull?since=LONG",
        "/v1/ledger?limit=LONG", "/v1/LONG",
    ])
    func `a path or query with many marks is refused quickly`(path: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let isPost = ["quote", "consume", "capture"].contains { path.hasSuffix($0) }
            let text = "a" + String(repeating: "%CC%81%CC%96", count: 2_500)
            let path = path.replacing("LONG", with: text)
            let reply = try await isPost ? guest.post(path) : guest.get(path)
            #expect((400..<500).contains(reply.status), "\(path.prefix(40)): \(reply.status)")
        }
    }

    @Test(arguments: [
        "Authorization", "Idempotency-Key", "X-User-Id", "Content-Type", "Accept", "If-None-Match",
        "Last-Event-ID", "Origin", "Accept-Encoding", "Cookie", "X-Forwarded-For", "Forwarded",
    ])
    func `a header with more than 30 marks in a row is malformed`(name: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let headers = [name: Self.short]
            let reply = try await guest.post("/v1/spend", "{}", key: nil, headers: headers)
            #expect(reply.status == 400)
            #expect(reply.code == "malformed_request")
        }
    }

    @Test func `targets and fields of a stream have the same limit of marks`() {
        #expect(Problem.form(of: "/v1/balance", ["a", "Jürgen"]) == nil)
        #expect(Problem.form(of: "/v1/balance", ["a", Self.short])?.code == .malformedRequest)
        #expect(Problem.form(of: "/v1/é", [])?.code == .malformedRequest)
    }

    @Test func `a target that is not percent-encoded is malformed`() async throws {
        try await LiveServer.with { server in
            let request = "GET /v1/\(Self.short) HTTP/1.1\r\nHost: a\r\n\r\n"
            let answer = try await exchange(server.ports.http, request)
            #expect(answer.hasPrefix("HTTP/1.1 400"))
        }
    }
}
