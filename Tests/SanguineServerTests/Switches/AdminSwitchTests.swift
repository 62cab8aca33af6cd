import Foundation
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("PUT /admin/v1/config", .bounded)
struct AdminSwitchTests {
    private static let path = "/admin/v1/config"
    private static let body =
        #"{"switches":{"queries":{"profile":{"freshness":0}}},"reason":"stale in 1.4"}"#

    private func reader(
        _ guest: Guest,
        since: Int64,
        config: Int = 0
    ) async throws -> LiveReader {
        try await LiveReader(
            guest.server,
            "?since=\(since)&config=\(config)",
            headers: ["Authorization": "Bearer \(guest.session.accessToken)"]
        )
    }

    @Test func `switches are replaced, listed and recorded in the audit log`() async throws {
        try await LiveServer.with { server in
            let first = try await server.send("GET", Self.path, toAdmin: true)
            #expect(try first.json["revision"] == 0)
            let answer = try await server.send("PUT", Self.path, Self.body, toAdmin: true)
            #expect(answer.status == 200)
            #expect(try answer.json["revision"] == 1)
            let again = try await server.send("GET", Self.path, toAdmin: true)
            #expect(try again.json["switches"]?["queries"]?["profile"]?["freshness"] == 0)
            let entry = try await server.authority.audit().items.first
            #expect(entry?.action == "config.replace" && entry?.reason == "stale in 1.4")
            #expect(entry?.account == nil && entry?.outcome == "done")
        }
    }

    @Test func `switches that changed since they were read are not replaced`() async throws {
        try await LiveServer.with { server in
            let authority = server.authority
            let read = try await authority.switchesOverview()
            let tag = WireResponse.tag(of: ResponseEncoder.encode(read))
            var mine = Switches()
            mine.mutations["like"] = .init(optimism: false)
            _ = try await authority.setSwitches(mine, replacing: "\"other\", \(tag)")
            for (tags, status) in [(tag, 412), ("\"other\"", 412), ("*", 200)] {
                let answer = try await server.send(
                    "PUT",
                    Self.path,
                    Self.body,
                    headers: ["If-Match": tags],
                    toAdmin: true
                )
                #expect(answer.status == status, "\(tags)")
                if status == 412 { #expect(answer.code == "precondition_failed") }
            }
            #expect(authority.switches.revision == 2)
        }
    }

    @Test(arguments: [
        #"{"switches":{"queries":{"a":{"timeout":90}}},"reason":"a"}"#,
        #"{"switches":{"functions":{"echoo":{"timeout":90}}},"reason":"a"}"#,
        #"{"switches":{},"reason":""}"#,
        #"{"switches":[],"reason":"a"}"#,
        #"{"reason":"a"}"#,
    ])
    func `invalid switches change nothing`(body: String) async throws {
        try await LiveServer.with { server in
            let answer = try await server.send("PUT", Self.path, body, toAdmin: true)
            #expect(answer.code == "invalid_content")
            #expect(server.authority.switches.revision == 0)
        }
    }

    @Test func `only an owner may replace switches`() async throws {
        let anna = AdminToken(owner: "anna", role: .support)
        var setup = LiveServer.Setup()
        setup.adminTokens = [anna]
        try await LiveServer.with(setup) { server in
            let headers = ["Authorization": "Bearer \(anna.reveal())"]
            let answer = try await server.send(
                "PUT",
                Self.path,
                Self.body,
                headers: headers,
                toAdmin: true
            )
            #expect(answer.code == "role_missing")
            #expect(server.authority.switches.revision == 0)
        }
    }

    @Test func `a live connection receives switches without moving`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.createNotes(1...2)
            var reader = try await reader(guest, since: head)
            #expect(try await reader.next() == ["retry: 2000"])
            _ = try await server.send("PUT", Self.path, Self.body, toAdmin: true)
            let block = try #require(try await reader.next())
            #expect(block.first == "event: change")
            let data = try #require(block.last?.dropFirst(6))
            let change = try JSONDecoder().decode(LiveChange.self, from: Data(data.utf8))
            #expect(change.change.collection == "$config" && change.change.seq == head)
            let next = try await guest.createNotes(3...3)
            #expect(try await reader.nextChange()?.change.seq == next)
        }
    }

    @Test func `all connections of all accounts receive each change of the switches`()
        async throws
    {
        try await LiveServer.with { server in
            var readers: [LiveReader] = []
            for _ in 0..<3 {
                let guest = try await server.guest()
                let head = try await guest.balance().head
                for _ in 0..<2 { readers.append(try await reader(guest, since: head)) }
            }
            for revision in 1...5 {
                _ = try await server.authority.setSwitches(Switches())
                for index in readers.indices {
                    // A change during a read may be sent once more.
                    var received = JSONValue.integer(Int64(revision - 1))
                    while received == .integer(Int64(revision - 1)) {
                        let change = try #require(try await readers[index].nextChange()).change
                        received = try #require(change.value?["revision"])
                    }
                    #expect(received == .integer(Int64(revision)))
                }
            }
        }
    }

    @Test func `a connection that has the switches does not receive them again`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await server.authority.setSwitches(Switches())
            let head = try await guest.balance().head
            var reader = try await reader(guest, since: head, config: 1)
            _ = try await guest.spend(1)
            #expect(try await reader.nextChange()?.change.collection == "$balance")
        }
    }
}
