import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

/// `é` as one scalar and as two: different bytes, but equal strings in Swift.
private let composed = "\u{E9}"
private let decomposed = "e\u{301}"

@Suite("Text over HTTP", .bounded)
struct TextRouteTests {
    private func operation(_ number: Int, _ mutator: String, _ arguments: String) -> String {
        #"""
        {"id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6\#(number)","sequence":\#(number),\#
        "lane":"\#(number)","mutator":"record.\#(mutator)",\#
        "arguments":{"collection":"notes",\#(arguments)}}
        """#
    }

    private func push(_ guest: Guest, _ operations: [String]) async throws -> Reply {
        let list = operations.joined(separator: ",")
        let body = #"{"device":"a-device-of-the-tests","operations":[\#(list)]}"#
        return try await guest.post("/v1/sync/push", body, key: nil)
    }

    private func statuses(
        _ guest: Guest,
        _ operations: String...
    ) async throws -> [PushResult.Status] {
        try await push(guest, operations).decode(PushAnswer.self).results.map(\.status)
    }

    @Test func `only the member whose name is equivalent to another's is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let made = operation(10, "create", #""id":"a","fields":{"\#(composed)":1}"#)
            #expect(try await statuses(guest, made) == [.applied])
            let pushed = try await push(
                guest,
                [
                    operation(11, "set", #""id":"a","fields":{"\#(decomposed)":2}"#),
                    operation(12, "increment", #""id":"a","field":"\#(decomposed)","by":1"#),
                    operation(13, "set", #""id":"a","fields":{"\#(composed)":3}"#),
                ]
            ).decode(PushAnswer.self)
            #expect(pushed.results.map(\.status) == [.refused, .refused, .applied])
            for refused in pushed.results.prefix(2) {
                #expect(refused.problem?.code == .invalidContent)
            }
            let record = try await guest.get("/v1/collections/notes/records/a")
            #expect(record.body.contains(#""\#(composed)":3"#))
        }
    }

    @Test func `a body with two equivalent names is refused and changes nothing`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let fields = #"{"\#(composed)":1,"\#(decomposed)":2}"#
            let reply = try await push(
                guest,
                [operation(10, "create", #""id":"a","fields":\#(fields)"#)]
            )
            #expect(reply.status == 422)
            #expect(reply.code == "invalid_content")
            #expect(try await guest.get("/v1/collections/notes/records/a").status == 404)
        }
    }

    @Test func `a string that differs only in its bytes is stored`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for (number, text) in [(10, composed), (11, decomposed)] {
                let mutator = number == 10 ? "create" : "set"
                let note = operation(
                    number,
                    mutator,
                    #""id":"a","fields":{"title":"\#(text)"}"#
                )
                #expect(try await statuses(guest, note) == [.applied])
                let record = try await guest.get("/v1/collections/notes/records/a").body
                #expect(Array(record.utf8).contains(Array(text.utf8)))

                let patch = #"{"displayName":"\#(text)","settings":{"name":"\#(text)"}}"#
                #expect(try await guest.send("PATCH", "/v1/account", patch).status == 200)
                let account = try await guest.get("/v1/account").body
                #expect(Array(account.utf8).contains(Array(#""displayName":"\#(text)""#.utf8)))
                #expect(Array(account.utf8).contains(Array(#""name":"\#(text)""#.utf8)))
            }
        }
    }

    @Test func `a setting whose name is equivalent to another's is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let first = #"{"settings":{"\#(composed)":1}}"#
            let second = #"{"settings":{"\#(decomposed)":2}}"#
            #expect(try await guest.send("PATCH", "/v1/account", first).status == 200)
            let refused = try await guest.send("PATCH", "/v1/account", second)
            #expect(refused.status == 422)
            #expect(refused.code == "invalid_content")
        }
    }

    @Test func `parts of a path are percent-decoded`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let made = operation(10, "create", #""id":"habit:2026-11-22","fields":{}"#)
            #expect(try await statuses(guest, made) == [.applied])
            for id in ["habit:2026-11-22", "habit%3A2026-11-22", "%68abit%3a2026-11-22"] {
                let path = "/v1/collections/%6Eotes/records/\(id)"
                #expect(try await guest.get(path).status == 200, "\(id)")
            }
            for id in ["habit%3", "habit%3A2026%2F11-22", "%FF", "%ZZ"] {
                let reply = try await guest.get("/v1/collections/notes/records/\(id)")
                #expect(reply.code == "not_found", "\(id)")
            }
            let consumed = try await guest.post("/v1/quotas/read%69ngs/consume", "{}", key: "k")
            #expect(consumed.status == 200)
        }
    }

    @Test(arguments: [".", ".."])
    func `an id that a URL path would remove is refused`(id: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let made = operation(10, "create", #""id":"\#(id)","fields":{}"#)
            let fine = operation(11, "create", #""id":"...","fields":{}"#)
            #expect(try await statuses(guest, made, fine) == [.refused, .applied])
        }
    }

    @Test func `an operation with too many values or levels is refused without affecting others`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let many = "[" + Array(repeating: "1", count: 2_000).joined(separator: ",") + "]"
            let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
            let usual = "[" + Array(repeating: "1", count: 1_000).joined(separator: ",") + "]"
            let pushed = try await push(
                guest,
                [usual, many, usual, deep, usual, "1e999"].enumerated().map { index, list in
                    operation(index + 10, "create", #""id":"r\#(index)","fields":{"a":\#(list)}"#)
                }
            ).decode(PushAnswer.self)
            #expect(
                pushed.results.map(\.status)
                    == [.applied, .refused, .applied, .refused, .applied, .refused]
            )
            for refused in [pushed.results[1], pushed.results[3], pushed.results[5]] {
                #expect(refused.problem?.code == .invalidContent)
                #expect(refused.problem?.detail.contains("2000") == true)
            }
        }
    }
}
