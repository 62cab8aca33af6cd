import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import SanguineAuthority
import SanguineModel
import SanguineTesting
import ServiceLifecycle
import TestSupport
import Testing

@testable import SanguineServer

@Suite("GET /v1/live", .bounded)
struct LiveRouteTests {
    @Test func `a stream begins with all records and is not cached`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.createNotes(1...3)
            var reader = try await LiveReader(guest)
            #expect(reader.status == 200)
            #expect(reader.headers.first(name: "Content-Type") == "text/event-stream")
            #expect(reader.headers.first(name: "Cache-Control") == "no-store")
            #expect(reader.headers.first(name: "X-Accel-Buffering") == "no")
            #expect(reader.headers.first(name: "Connection") == "close")
            #expect(try await reader.next() == ["retry: 2000"])
            let changes = try await reader.changes(through: head)
            let collections = Set(changes.map(\.change.collection))
            #expect(collections == ["$account", "$balance", "$quotas", "notes"])
            #expect(changes.last?.head == head)
        }
    }

    @Test func `a stream delivers what a pull returns`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.createNotes(1...20)
            var reader = try await LiveReader(guest, since: 4)
            let live = try await reader.changes(through: head)
            let request = Authority.PullRequest(since: 4, limit: 1_000)
            let pulled = try await server.authority.pull(guest.account.id, request)
            #expect(live == pulled.changes.map { LiveChange($0, head: pulled.head) })
        }
    }

    @Test func `a connection announces changed lists of the collections that it names`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.collections = [RecordCollection("posts", access: .everyone)]
        } _: { server in
            let guest = try await server.guest()
            let writer = try await server.guest()
            let headers = ["Authorization": "Bearer \(guest.session.accessToken)"]
            // Changes are announced once a second.
            let note = try await server.setup.delay.advancing {
                var reader = try await LiveReader(server, "?lists=posts,unknown", headers: headers)
                #expect(try await reader.next() == ["retry: 2000"])
                _ = try await writer.createNotes(1...1, in: "posts")
                var block = try await reader.next()
                while block?.isEmpty == false, block?.first != "event: list" {
                    block = try await reader.next()
                }
                return block
            }
            #expect(note == ["event: list", #"data: {"collection":"posts"}"#])
            let many = (0...WireLimits.followedLists).map { "a\($0)" }.joined(separator: ",")
            for lists in [many, "Posts"] {
                let reply = try await guest.get("/v1/live?lists=\(lists)")
                #expect(reply.status == 400)
            }
        }
    }

    @Test func `a commit is delivered at once`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.balance().head
            var reader = try await LiveReader(guest, since: head)
            #expect(try await reader.next() == ["retry: 2000"])
            _ = try await guest.spend(1)
            let change = try await reader.nextChange()
            #expect(change?.change.collection == "$balance")
            #expect(change?.change.seq == head + 1)
        }
    }

    @Test func `a reader that reconnects during commits gets each change once`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let start = try await guest.balance().head
            async let committed = commitOneByOne(guest, 120)
            var seen: [RecordID] = []
            var last = start
            var connections = 0
            while seen.count < 120 {
                var reader = try await LiveReader(guest, lastEventID: last)
                connections += 1
                for _ in 0..<7 where seen.count < 120 {
                    guard let change = try await reader.nextChange() else { break }
                    #expect(change.change.seq > last)
                    last = change.change.seq
                    if change.change.collection == "notes" { seen.append(change.change.id) }
                }
            }
            #expect(seen.map(\.text) == (1...120).map { "n\($0)" })
            #expect(connections > 10)
            #expect(try await committed >= last)
        }
    }

    private func commitOneByOne(_ guest: Guest, _ count: Int) async throws -> Int64 {
        var head: Int64 = 0
        for number in 1...count { head = try await guest.createNotes(number...number) }
        return head
    }

    @Test func `Last-Event-ID takes precedence over the query`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.createNotes(1...5)
            let headers = [
                "Authorization": "Bearer \(guest.session.accessToken)",
                "Last-Event-ID": "\(head - 1)",
            ]
            var reader = try await LiveReader(server, "?since=0", headers: headers)
            #expect(try await reader.nextChange()?.change.seq == head)
        }
    }

    @Test func `a number beyond the head causes a reset and a full stream`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.createNotes(1...2)
            var reader = try await LiveReader(guest, since: head + 5)
            #expect(try await reader.next() == ["retry: 2000"])
            let epoch = server.authority.storage.epoch
            let reset = ["event: reset", "id: \(epoch).0", "data: {}"]
            #expect(try await reader.next() == reset)
            #expect(try await reader.nextChange()?.change.seq == 1)
        }
    }

    @Test func `a comment is sent after twenty silent seconds`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.balance().head
            let heard = WatchedState<[[String]]>([])
            let reading = Task {
                var reader = try await LiveReader(guest, since: head)
                while let lines = try await reader.next() { heard.withLock { $0.append(lines) } }
            }
            defer { reading.cancel() }
            try await heard.wait(for: "the first lines") { $0.count == 1 }
            for count in 2...3 {
                try await twentySecondsPass(in: server, heard, until: count)
            }
            #expect(heard.value.prefix(3) == [["retry: 2000"], [": ping"], [": ping"]])
        }
    }

    /// Advances the clock by twenty seconds, and again if the server only then recorded the end of
    /// its last write.
    private func twentySecondsPass(
        in server: LiveServer,
        _ heard: WatchedState<[[String]]>,
        until count: Int
    ) async throws {
        for bound in [TestingLimits.wait / 10, TestingLimits.wait] {
            try await server.setup.delay.waitForSleepers(1)
            server.setup.delay.advance(by: .seconds(20))
            do {
                return try await heard.wait(for: "a comment", within: bound) { $0.count >= count }
            } catch let error as WaitTimeout {
                if bound == TestingLimits.wait { throw error }
            }
        }
    }

    @Test(.bounded(.seconds(120)))
    func `a reader that does not read is disconnected`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            // More than the system buffers for a connection.
            for batch in 0..<4 {
                let numbers = (1 + 100 * batch)...(100 + 100 * batch)
                let text = String(repeating: "a", count: 60_000)
                _ = try await guest.createNotes(numbers, text: text)
            }
            let channel = try await connectAndReadNothing(guest)
            try await waitForConnections(1, server)
            let delay = server.setup.delay
            let start = delay.now
            // Advances time until the server has disconnected the reader.
            try await eventually("the connection has ended", within: .seconds(30)) {
                try await delay.waitForSleepers(1)
                delay.advance(by: .seconds(10))
                return try await connections(server) == 0
            }
            #expect(start.duration(to: delay.now) >= ServerSettings().limits.writeTimeout)
            try? await channel.close()
        }
    }

    private func connectAndReadNothing(_ guest: Guest) async throws -> any Channel {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .channelOption(.socketOption(.so_rcvbuf), value: 4_096)
            .connect(host: "127.0.0.1", port: guest.server.ports.http).get()
        let request = """
            GET /v1/live HTTP/1.1\r\nHost: a\r\n\
            Authorization: Bearer \(guest.session.accessToken)\r\n\r\n
            """
        try await channel.writeAndFlush(ByteBuffer(string: request))
        return channel
    }

    private func connections(_ server: LiveServer) async throws -> Int {
        let metrics = try await server.send("GET", "/metrics", toAdmin: true).body
        return metrics.firstMatch(of: /\nlive_connections (\d+)/).flatMap { Int($0.1) } ?? 0
    }

    private func waitForConnections(
        _ count: Int,
        _ server: LiveServer,
        line: Int = #line
    ) async throws {
        try await eventually("\(count) connections", line: line) {
            try await connections(server) == count
        }
    }

    @Test func `a connection that its client closes is no longer counted`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let channel = try await connectAndReadNothing(guest)
            try await waitForConnections(1, server)
            try await channel.close()
            try await waitForConnections(0, server)
            #expect(try await connections(server) == 0)
        }
    }

    @Test func `a ticket connects once, without a header`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let head = try await guest.createNotes(1...1)
            let reply = try await guest.post("/v1/live/tickets", nil, key: nil)
            #expect(reply["Cache-Control"] == "no-store")
            let ticket = try reply.decode(LiveTicket.self)
            let query = "?since=\(head - 1)&ticket=\(ticket.ticket)"
            var reader = try await LiveReader(server, query)
            #expect(try await reader.nextChange()?.change.id.text == "n1")
            let again = try await server.send("GET", "/v1/live\(query)")
            #expect(again.status == 401)
            #expect(again.code == "unauthenticated")
        }
    }

    @Test func `a ticket of an ended session is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let ticket = try await guest.post("/v1/live/tickets", nil, key: nil)
                .decode(LiveTicket.self)
            #expect(try await guest.send("DELETE", "/v1/sessions/current").status == 204)
            let reply = try await server.send("GET", "/v1/live?ticket=\(ticket.ticket)")
            #expect(reply.code == "session_ended")
        }
    }

    @Test func `signing out ends the session's connections`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            var reader = try await LiveReader(guest, since: try await guest.balance().head)
            #expect(try await reader.next() == ["retry: 2000"])
            #expect(try await guest.send("DELETE", "/v1/sessions/current").status == 204)
            try await server.setup.delay.waitForSleepers(1)
            server.setup.delay.advance(by: .seconds(1))
            #expect(try await reader.next() == nil)
        }
    }

    @Test func `a graceful shutdown ends connections with a retry time`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            var reader = try await LiveReader(guest, since: try await guest.balance().head)
            #expect(try await reader.next() == ["retry: 2000"])
            await server.group.triggerGracefulShutdown()
            let farewell = try #require(try await reader.next())
            let time = try #require(farewell.first?.wholeMatch(of: /retry: (\d+)/))
            #expect((2_000...10_000).contains(Int(time.1) ?? 0))
            #expect(try await reader.next() == nil)
        }
    }

    @Test func `connections beyond the limits are refused with 429 or 503 and a retry time`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.liveConnectionsPerAccount = 1
            $0.settings.limits.liveConnections = 2
        } _: { server in
            // An address may use half of the connections, so that others can connect.
            let reader = try await LiveReader(try await server.guest())
            #expect(reader.status == 200)
            let second = try await server.guest()
            let refused = try await second.get("/v1/live")
            #expect(refused.code == "overloaded")
            #expect(refused["Retry-After"] != nil)
        }
        try await LiveServer.with {
            $0.settings.limits.liveConnectionsPerAccount = 1
        } _: { server in
            let guest = try await server.guest()
            let reader = try await LiveReader(guest)
            #expect(reader.status == 200)
            let refused = try await guest.get("/v1/live")
            #expect(refused.code == "rate_limited")
            #expect(refused["Retry-After"] != nil)
        }
    }

    @Test func `refusals follow the order of other requests`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            for query in ["since=a", "since=-1", "since=one.two"] {
                let reply = try await server.send("GET", "/v1/live?\(query)")
                #expect(reply.code == "malformed_request")
            }
            let malformed = ["Last-Event-ID": "a"]
            #expect(try await guest.get("/v1/live", headers: malformed).status == 400)
            #expect(try await server.send("GET", "/v1/live").code == "unauthenticated")
            let other = ["X-User-Id": Identifier.new().description]
            #expect(try await guest.get("/v1/live", headers: other).code == "identity_mismatch")
            #expect(try await server.send("POST", "/v1/live/tickets").code == "unauthenticated")
        }
    }

    @Test func `HEAD has the same headers and counts as no connection`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.send("HEAD", "/v1/live")
            #expect(reply.status == 200)
            #expect(reply["Content-Type"] == "text/event-stream")
            #expect(try await connections(server) == 0)
        }
    }

    @Test func `a page of an allowed origin may connect`() async throws {
        try await LiveServer.with {
            $0.settings.http.corsOrigins = ["https://app.example.com"]
        } _: { server in
            let guest = try await server.guest()
            let ticket = try await guest.post("/v1/live/tickets", nil, key: nil)
                .decode(LiveTicket.self)
            let reader = try await LiveReader(
                server,
                "?ticket=\(ticket.ticket)",
                headers: ["Origin": "https://app.example.com"]
            )
            let allowed = reader.headers.first(name: "Access-Control-Allow-Origin")
            #expect(allowed == "https://app.example.com")
        }
    }
}
