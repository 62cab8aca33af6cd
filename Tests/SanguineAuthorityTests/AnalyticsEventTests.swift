import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Events for analytics: stored with their change, and without anything personal.
@Suite("Events for analytics", .bounded)
struct AnalyticsEventTests {
    private let clock = ManualClock()

    private func authority(records: Bool = true) -> Authority {
        var settings = AuthoritySettings()
        settings.recordsEvents = records
        return Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
    }

    private func guest(_ authority: Authority, _ number: Int = 1) async throws -> Identifier {
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let device = "device-0123456789-\(number)"
        let request = GuestRequest(deviceId: device, deviceSecret: secret)
        return try await authority.guest(request).signedIn.account.id
    }

    private func consume(
        _ amount: Int64,
        _ account: Identifier,
        _ authority: Authority
    ) async throws {
        let key = "k\(amount)\(clock.now())"
        let request = Submission(key, ConsumeRequest(amount: amount))
        _ = try await authority.consume("readings", account, request)
    }

    private func types(_ events: [OutgoingEvent]) throws -> [JSONValue?] {
        try events.map { event in
            try JSONDecoder().decode([String: JSONValue].self, from: Data(event.body))["type"]
        }
    }

    @Test func `a new guest is one event, a known device none`() async throws {
        let authority = authority()
        _ = try await guest(authority)
        _ = try await guest(authority)

        let events = try await authority.waitingEvents(limit: 10)
        #expect(try types(events) == ["sanguine.account.created"])
    }

    @Test func `a quota is exhausted once, by its last unit`() async throws {
        let authority = authority()
        let account = try await guest(authority)
        try await consume(2, account, authority)
        #expect(try await authority.waitingEvents(limit: 10).count == 1)
        try await consume(1, account, authority)
        let refused = await problem { () throws(Problem) in
            let request = Submission("over", ConsumeRequest(amount: 1))
            return try await authority.consume("readings", account, request)
        }

        #expect(refused?.code == .quotaExhausted)
        let events = try await authority.waitingEvents(limit: 10)
        #expect(try types(events) == ["sanguine.account.created", "sanguine.quota.exhausted"])
    }

    @Test func `a failed call exhausts no quota, and a kept unit does it once`() async throws {
        var settings = AuthoritySettings()
        settings.recordsEvents = true
        let rules = FunctionRules(price: .quota("readings", units: 3))
        let function = ScriptedFunction("f", rules) { input, _ async throws(Problem) in
            guard input["fail"] == nil else { throw .upstreamFailed }
            return .init(output: "made", charge: 0)
        }
        let world = CallWorld(function, settings: settings)
        let who = try await world.account()
        #expect(await world.answer(who, "a", ["fail": true]).code == "upstream_failed")
        #expect(try await world.authority.waitingEvents(limit: 10).isEmpty)
        #expect(await world.answer(who, "b").status == 200)
        #expect(await world.answer(who, "c").code == "quota_exhausted")
        let events = try await world.authority.waitingEvents(limit: 10)
        #expect(try types(events) == ["sanguine.quota.exhausted"])
    }

    @Test func `the subject is a stable hash that differs between accounts and servers`()
        async throws
    {
        let authority = authority()
        let (first, second) = (try await guest(authority), try await guest(authority, 2))

        #expect(authority.subject(of: first) == authority.subject(of: first))
        #expect(authority.subject(of: first) != authority.subject(of: second))
        #expect(authority.subject(of: first) != self.authority().subject(of: first))
        for event in try await authority.waitingEvents(limit: 10) {
            let body = String(decoding: event.body, as: UTF8.self)
            #expect(!body.contains(first.description) && !body.contains(second.description))
            #expect(!body.contains("device"))
        }
    }

    @Test func `the source is a URI reference for every issuer`() async throws {
        var settings = AuthoritySettings()
        settings.recordsEvents = true
        settings.issuer = "My App <1>"
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: clock
        )
        _ = try await guest(authority)
        let event = try #require(try await authority.waitingEvents(limit: 1).first)
        let members = try JSONDecoder().decode([String: JSONValue].self, from: Data(event.body))
        #expect(members["source"] == "/My%20App%20%3C1%3E")
    }

    @Test func `without a destination nothing is stored`() async throws {
        let authority = authority(records: false)
        _ = try await guest(authority)

        #expect(try await authority.waitingEvents(limit: 10).isEmpty)
    }

    @Test func `events keep the order of their decisions when the clock is set back`() {
        let now = clock.now()
        let positions = [now, now, now - .seconds(60), now + .seconds(1)].map(EventOrder.next)
        #expect(positions == positions.sorted())
        #expect(Set(positions).count == 4)
    }

    @Test func `beyond the limit the oldest events are dropped and counted`() async throws {
        let authority = authority()
        for number in 1...5 { _ = try await guest(authority, number) }
        let newest = try await authority.waitingEvents(limit: 10).suffix(2).map(\.id)

        let count = try await authority.trimEvents(to: 2)
        #expect(count.waiting == 2 && count.dropped == 3)
        #expect(try await authority.waitingEvents(limit: 10).map(\.id) == newest)
    }
}
