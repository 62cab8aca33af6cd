import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Records and feed over HTTP", .bounded)
struct SyncRouteTests {
    private static let device = "a-device-of-the-tests"

    private func operation(_ number: Int, _ mutator: String, _ arguments: String) -> String {
        #"""
        {"id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6\#(number)","sequence":\#(number),"lane":"main",\#
        "mutator":"\#(mutator)","arguments":\#(arguments)}
        """#
    }

    private func push(_ guest: Guest, _ operations: String...) async throws -> Reply {
        let list = operations.joined(separator: ",")
        let body = #"{"device":"\#(Self.device)","operations":[\#(list)]}"#
        return try await guest.post("/v1/sync/push", body, key: nil)
    }

    private func create(_ number: Int, _ collection: String, _ fields: String) -> String {
        let arguments = #"{"collection":"\#(collection)","id":"r\#(number)","fields":\#(fields)}"#
        return operation(number, "record.create", arguments)
    }

    @Test func `a push returns the outcome and head of each operation`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let note = create(10, "notes", #"{"title":"Tea"}"#)
            let reply = try await push(guest, note, create(11, "nothing", "{}"))
            #expect(reply.status == 200)
            let answer = try reply.decode(PushAnswer.self)
            #expect(answer.results.map(\.status) == [.applied, .refused])
            #expect(answer.results.map(\.head) == [3, nil])
            #expect(answer.results[1].problem?.code == .collectionUnknown)
            #expect(reply.head == 3 && answer.head == 3)

            let again = try await push(guest, note).decode(PushAnswer.self)
            #expect(again.results.map(\.status) == [.replayed])
            #expect(again.results.map(\.head) == [3])
        }
    }

    @Test
    func `a push beyond the account's storage refuses one operation, and deleting still works`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.accountBytes = 300
        } _: { server in
            let guest = try await server.guest()
            let delete = operation(13, "record.delete", #"{"collection":"notes","id":"r10"}"#)
            let reply = try await push(
                guest,
                create(10, "notes", #"{"title":"Tea"}"#),
                create(11, "notes", #"{"title":"Milk"}"#),
                create(12, "notes", #"{"title":"\#(String(repeating: "x", count: 100))"}"#),
                delete
            )
            #expect(reply.status == 200)
            let results = try reply.decode(PushAnswer.self).results
            #expect(results.map(\.status) == [.applied, .applied, .refused, .applied])
            #expect(results[2].problem?.code == .storageFull)
            #expect(results[2].problem?.status == 422)
        }
    }

    @Test func `a pull returns pushed records, privately and with a tag`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await push(guest, create(10, "notes", #"{"title":"Tea"}"#))
            let path = "/v1/sync/pull?since=2"
            let reply = try await guest.get(path)
            let epoch = try #require(try Epoch(reply.json["epoch"]?.string ?? ""))
            #expect(
                try reply.json == [
                    "changes": .array([
                        [
                            "collection": "notes", "id": "r10", "seq": 3, "deleted": false,
                            "value": ["title": "Tea"],
                        ]
                    ]),
                    "next": 3, "head": 3, "hasMore": false, "reset": false,
                    "epoch": .string(epoch.text),
                ]
            )
            #expect(reply["Cache-Control"]?.contains("private") == true)
            let tag = try #require(reply["ETag"])
            #expect(try await guest.get(path, headers: ["If-None-Match": tag]).status == 304)
        }
    }

    @Test func `a pull reports the state of operations`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await push(guest, create(10, "notes", "{}"))
            let id = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6"
            let answer = try await guest.get("/v1/sync/pull?operations=\(id)10,\(id)11")
                .decode(PullAnswer.self)
            #expect(answer.operations?.map(\.status) == [.applied, .unknown])
        }
    }

    @Test func `pages of a pull follow each other`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for number in 10..<15 { _ = try await push(guest, create(number, "notes", "{}")) }
            var numbers: [Int64] = []
            var since: Int64 = 0
            while true {
                let answer = try await guest.get("/v1/sync/pull?since=\(since)&limit=2")
                    .decode(PullAnswer.self)
                numbers += answer.changes.map(\.seq)
                since = answer.next
                if !answer.hasMore { break }
            }
            // The quota and the account have the first number.
            #expect(numbers == [1] + Array(1...7))
        }
    }

    @Test(arguments: [
        "where.createdAt=1&where.createdAt=2", "order=createdAt&order=-createdAt",
        "fields=text&fields=createdAt",
    ])
    func `a parameter of a list that occurs twice is refused`(query: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = "/v1/collections/posts/records?\(query)"
            #expect(try await guest.get(path).code == "malformed_request")
        }
    }

    @Test func `records are listed by index and read one by one`() async throws {
        try await LiveServer.with { server in
            let (guest, other) = (try await server.guest(), try await server.guest())
            _ = try await push(
                guest,
                create(10, "posts", #"{"createdAt":"9999-12-31T23:59:59Z","text":"one"}"#),
                create(11, "posts", #"{"text":"two"}"#)
            )
            let posts = "/v1/collections/posts/records"
            func ids(_ query: String) async throws -> [String] {
                let page = try await other.get(posts + query).decode(ListPage<RecordChange>.self)
                return page.items.map(\.id.text)
            }
            #expect(try await ids("") == ["r10", "r11"])
            #expect(try await ids("?order=-createdAt") == ["r11", "r10"])
            #expect(try await ids("?ids=r11,nobody,%20") == ["r11"])
            let one = try await other.get(posts + "/r10").json
            guard case .object(let value)? = one["value"],
                case .string(let createdAt)? = value["createdAt"]
            else {
                Issue.record("The post is \(one).")
                return
            }
            #expect(value["text"] == "one")
            #expect(Timestamp(createdAt) != nil && !createdAt.hasPrefix("9999"))
            #expect(try await ids("?where.createdAt=\(createdAt)").contains("r10"))
            #expect(try await ids("?where.createdAt=9999-12-31T23:59:59Z") == [])
            #expect(one["deleted"] == false)
            #expect(try await other.get(posts + "/nobody").code == "not_found")
            #expect(try await other.get(posts + "/%20").code == "not_found")
            let some = try await other.get(posts + "?fields=text&limit=1").json
            #expect(
                some["items"]
                    == .array([
                        [
                            "collection": "posts", "id": "r10", "seq": 0, "deleted": false,
                            "value": ["text": "one"],
                        ]
                    ])
            )
            let cut = try await other.get(posts + "?fields=id,seq&limit=1").json
            #expect(cut["items"] == .array([["id": "r10", "seq": 0]]))
            let count = try await other.get(posts + "?count=true&limit=1").json["count"]
            #expect(count == .object(["number": 2, "isExact": true]))
            #expect(try await other.get(posts + "?count=yes").code == "malformed_request")
            #expect(try await other.get(posts + "?prefix.text=o").code == "malformed_request")
            let part = try await other.get(posts + "/r10?fields=id,value.text").json
            #expect(part == .object(["id": "r10", "value": ["text": "one"]]))
        }
    }

    @Test func `an invalid query is malformed before the token is checked`()
        async throws
    {
        try await LiveServer.with { server in
            let ids = String(repeating: "a,", count: 101)
            for path in [
                "/v1/sync/pull?since=-1", "/v1/sync/pull?since=x", "/v1/sync/pull?limit=0",
                "/v1/sync/pull?horizon=", "/v1/sync/pull?operations=x",
                "/v1/collections/notes/records?limit=0", "/v1/collections/notes/records?cursor=x",
                "/v1/collections/notes/records?ids=" + ids,
            ] {
                #expect(try await server.send("GET", path).code == "malformed_request", "\(path)")
            }
            let body = try await server.send("POST", "/v1/sync/push", "[]")
            #expect(body.code == "unauthenticated")
            let guest = try await server.guest()
            #expect(try await guest.post("/v1/sync/push", "[]").code == "malformed_body")
        }
    }

    @Test func `pushing, pulling and listing require a token`() async throws {
        try await LiveServer.with { server in
            for (method, path) in [
                ("POST", "/v1/sync/push"), ("GET", "/v1/sync/pull"),
                ("GET", "/v1/collections/nothing/records"),
                ("GET", "/v1/collections/nothing/records/a"),
            ] {
                let reply = try await server.send(method, path, method == "POST" ? "{}" : nil)
                #expect(reply.code == "unauthenticated", "\(path)")
            }
        }
    }

    @Test func `an invalid push is refused as a whole`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let note = create(10, "notes", "{}")
            let replies = [
                try await push(guest, note, note),
                try await guest.post("/v1/sync/push", #"{"operations":[]}"#, key: nil),
                try await guest.post(
                    "/v1/sync/push",
                    #"{"device":"short","operations":[]}"#,
                    key: nil
                ),
            ]
            #expect(
                replies.map(\.code) == ["invalid_content", "invalid_content", "invalid_content"]
            )
            #expect(try await guest.get("/v1/collections/what/records").code == "not_found")
            let order = try await guest.get("/v1/collections/notes/records?order=title")
            #expect(order.code == "malformed_request")
        }
    }

    @Test func `a push holds a hundred operations of usual size`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let fields = (0..<20).map { #""member\#($0)":\#($0)"# }.joined(separator: ",")
            let operations = (0..<100).map { number in
                let id = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f\(number + 100)"
                return #"""
                    {"id":"\#(id)","sequence":\#(number + 1),"lane":"main",\#
                    "mutator":"record.create","arguments":{"collection":"notes",\#
                    "id":"r\#(number)","fields":{\#(fields)}}}
                    """#
            }
            let body =
                #"{"device":"\#(Self.device)","operations":["#
                + operations.joined(separator: ",") + "]}"
            let reply = try await guest.post("/v1/sync/push", body, key: nil)
            let answer = try reply.decode(PushAnswer.self)
            #expect(answer.results.allSatisfy { $0.status == .applied })
            #expect(answer.head == 102)
        }
    }
}
