import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct SendingTests {
    @Test func `operations are stored without credentials and sent with the current token`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        _ = try await fixture.authorizer.present.accessToken()
        try client.add("a")
        let folder = try #require(fixture.folder)
        #expect(try folder.contains(Count.name) && !folder.contains("token-"))
        _ = try await fixture.authorizer.present.rejected("token-0-0")
        fixture.connectivity.connect()
        try await client.synchronize()
        let push = fixture.network.requests.first(where: \.isPush)
        #expect(push?.headers["Authorization"] == "Bearer token-0-1")
        #expect(try !folder.contains("token-") && !folder.contains("Bearer"))
    }

    @Test func `a 401 pauses the outbox, and signing in resumes it`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        let problem = Problem(.unauthenticated, "Sign in.")
        fixture.network.script(.json(problem, status: 401), .json(problem, status: 401))
        let receipt = try client.add("a")
        try await fixture.network.waitForRequests(3)
        try await eventually("the outbox is paused") {
            client.users.current.outbox.read { $0.state.outbox.mustSignIn(.record) }
        }
        #expect(client.count("a") == 1 && client.outbox.summary.unsent == 1)
        client.users.current.outbox.signedIn(isFirst: false)
        #expect(try await receipt.outcome == .applied)
    }

    @Test func `Retry-After is honored`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        let problem = Problem(.rateLimited, "Wait.", retryAfter: 30)
        fixture.network.script(.json(problem, status: 429))
        let receipt = try client.add("a")
        try await fixture.delay.waitForSleepers(2)
        fixture.delay.advance(by: .seconds(29))
        #expect(fixture.pushes.count == 1)
        fixture.delay.advance(by: .seconds(10))
        #expect(try await receipt.outcome == .applied)
    }

    @Test func `failures are retried until they are answered, at most a minute apart`()
        async throws
    {
        let fixture = RecordsFixture()
        let client = try fixture.client { $0.recordPolling = nil }
        try await client.synchronize()
        for _ in 0..<12 { fixture.network.script(.fail(.timedOut)) }
        let receipt = try client.add("a")
        for _ in 0..<12 {
            try await fixture.delay.waitForSleepers(1)
            #expect((fixture.delay.timeToNextWake ?? .zero) <= .seconds(75))
            fixture.delay.advance(by: .seconds(75))
        }
        #expect(try await receipt.outcome == .applied)
        #expect(fixture.authority.count("a") == 1)
    }

    @Test func `operations are sent at once when the network returns`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.network.script(.fail(.offline("away")))
        let receipt = try client.add("a")
        try await fixture.delay.waitForSleepers(2)
        fixture.connectivity.disconnect()
        fixture.connectivity.connect()
        #expect(try await receipt.outcome == .applied)
    }

    @Test func `a hundred operations go in one push`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        for _ in 0..<250 { try client.add("a") }
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.pushes.map(\.operations.count) == [100, 100, 50])
        #expect(fixture.authority.count("a") == 250 && client.count("a") == 250)
    }

    @Test func `synchronize succeeds when everything is answered at that moment`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client { $0.recordPolling = nil }
        try await client.synchronize()
        for _ in 0..<100 {
            try client.add("a")
            try await client.synchronize()
        }
        #expect(fixture.authority.count("a") == 100)
    }

    @Test func `synchronize throws while the server cannot be reached`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.network.script(.fail(.offline("away")), .fail(.offline("away")))
        try client.add("a")
        await #expect(throws: SanguineError.transport(.offline("away"))) {
            try await client.synchronize()
        }
        #expect(client.count("a") == 1)
    }

    @Test func `the feed is pulled every minute, only in the foreground`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        try await fixture.delay.waitForSleepers(1)
        let before = fixture.pulls.count
        fixture.delay.advance(by: .seconds(60))
        try await eventually("another pull is sent") { fixture.pulls.count == before + 1 }
        try await fixture.delay.waitForSleepers(1)
        fixture.lifecycle.enterBackground()
        fixture.delay.advance(by: .seconds(60))
        fixture.authority.set("a", to: 4)
        fixture.lifecycle.enterForeground()
        try await eventually("the count is 4") { client.count("a") == 4 }
        #expect(fixture.pulls.count == before + 2)
    }

    @Test func `synchronize sends even if the system reports no network`() async throws {
        let fixture = RecordsFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        try await client.synchronize()
        #expect(fixture.authority.count("a") == 1 && client.outbox.pending.isEmpty)
    }

    @Test func `a proxy's 400 refuses nothing`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.network.script(.status(400))
        let receipt = try client.add("a")
        try await fixture.delay.waitForSleepers(2)
        #expect(client.outbox.refused.isEmpty && client.count("a") == 1)
        fixture.delay.advance(by: .seconds(2))
        #expect(try await receipt.outcome == .applied)
    }

    @Test func `an unreachable backend does not prevent records from synchronizing`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client { configuration in
            configuration.baseURL = URL(string: "http://songs.test")
            configuration.register(LikeSong.self)
        }
        try await client.synchronize()
        let away = TransportError.offline("away")
        fixture.network.script(.fail(away), .fail(away))
        let requests = fixture.network.requests.count
        try client.perform(LikeSong(song: "a"))
        try await fixture.network.waitForRequests(requests + 1)
        try await eventually("the like waits again") {
            client.outbox.pending.map(\.phase) == [.queued]
        }
        fixture.authority.set("b", to: 7)
        await #expect(throws: SanguineError.transport(away)) { try await client.synchronize() }
        #expect(client.count("b") == 7)
    }

    @Test func `operations in a push that a proxy finds too large are sent one by one`()
        async throws
    {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        try await client.synchronize()
        fixture.connectivity.disconnect()
        for id in ["a", "b"] { try client.add(id) }
        fixture.network.script(.status(413))
        try await client.synchronize()
        #expect(fixture.pushes.map(\.operations.count) == [2, 1, 1])
        #expect(fixture.authority.count("a") == 1 && fixture.authority.count("b") == 1)
    }
}
