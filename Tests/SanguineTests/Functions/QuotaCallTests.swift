import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A call that uses a quota shows that at once, like its tokens.
@Suite("Quotas and calls", .bounded)
struct QuotaCallTests {
    struct Read: FunctionCall {
        static let name = "read"
        static let rules = FunctionRules(price: .quota("readings"), cache: .duration(.seconds(60)))
        typealias Output = String
        var input: [String: Int]

        init(_ number: Int) { input = ["number": number] }
    }

    /// Costs a unit while there is one, and five tokens otherwise.
    struct Draw: FunctionCall {
        static let name = "draw"
        static let rules = FunctionRules(price: .quota("readings", otherwise: 5))
        typealias Output = String
        var input: [String: Int]

        init(_ number: Int) { input = ["number": number] }
    }

    let fixture = ClientFixture()
    let path = "/v1/functions/read"
    var authority: StagedAuthority { fixture.authority }

    init() {
        authority.server.serve(Draw.self) { "\($0)" }
        authority.server.serve(Read.self) { input in
            if input["number"] == 0 { throw Problem(.upstreamFailed, "A test's refusal.") }
            return "\(input)"
        }
    }

    private func client(folder: URL? = nil) async throws -> SanguineClient {
        let client = try await fixture.clientWithBalance(folder: folder)
        _ = try await client.value(of: .quotas)
        return client
    }

    private func left(_ client: SanguineClient) -> Int64? {
        client.cached(.quotas)?.first { $0.name == "readings" }?.remaining
    }

    @Test(arguments: [
        (#"{"redirect":"http://login.test/"}"#, "application/json"), ("", "text/plain"),
        ("<head><script>", "text/plain"), (#"{"captive":true}"#, "application/captive+json"),
    ])
    func `a call answered by an intermediary is resent under its key`(
        body: String,
        type: String
    ) async throws {
        let client = try await client()
        let portal = TransportResponse(
            status: 200,
            headers: ["Content-Type": type],
            body: Data(body.utf8)
        )
        authority.script(path, [portal, portal])
        _ = try await client.call(Read(1))
        let requests = authority.requests(path)
        #expect(requests.count == 3)
        #expect(Set(requests.map { $0.headers["Idempotency-Key"] }).count == 1)
        #expect(left(client) == 2)
    }

    @Test func `a unit is used at once and stays used with the answer, without flickering`()
        async throws
    {
        let client = try await client()
        #expect(left(client) == 3)
        let seen = WatchedState<[Int64]>([])
        let following = client.observe(.quotas) { state in
            if let left = state.value?.first?.remaining { seen.withLock { $0.append(left) } }
        }
        authority.stop(path, at: .answer)
        let calls = [
            Task { try await client.call(Read(1)) }, Task { try await client.call(Read(2)) },
        ]
        try await authority.reached(path, at: .answer, count: 2)
        #expect(left(client) == 1)
        _ = try await client.refresh(.quotas)
        #expect(left(client) == 1)
        try await authority.release(path, at: .answer, index: 1)
        try await authority.release(path, at: .answer)
        for call in calls { _ = try await call.finished() }
        #expect(left(client) == 1)
        _ = try await client.refresh(.quotas)
        #expect(left(client) == 1)
        withExtendedLifetime(following) {}
        let numbers = seen.withLock { $0 }
        #expect(numbers == numbers.sorted(by: >), "It flickered: \(numbers)")
    }

    @Test func `a failed call returns its unit`() async throws {
        let client = try await client()
        authority.stop(path, at: .answer)
        let call = Task { try await client.call(Read(0)) }
        try await authority.reached(path, at: .answer)
        #expect(left(client) == 2)
        try await authority.release(path, at: .answer)
        let refusal = await #expect(throws: SanguineError.self) { try await call.finished() }
        #expect(refusal?.code == "upstream_failed")
        #expect(left(client) == 3)
        try await eventually("no call is pending") { client.balance.pendingCalls.isEmpty }
        #expect(try await client.refresh(.quotas).first?.remaining == 3)
    }

    @Test func `a cached answer uses nothing`() async throws {
        let client = try await client()
        try await client.call(Read(1))
        #expect(left(client) == 2)
        let result = try await client.result(of: Read(1))
        #expect(result.cached && left(client) == 2)
        #expect(try await client.refresh(.quotas).first?.remaining == 2)
    }

    @Test func `the fourth call is refused, and the remainder is never negative`() async throws {
        let client = try await client()
        for number in 1...3 { try await client.call(Read(number)) }
        let error = await #expect(throws: SanguineError.self) { try await client.call(Read(4)) }
        #expect(error?.code == "quota_exhausted")
        #expect(left(client) == 0)
    }

    @Test func `a call paid with tokens instead of a unit shows them at once and is not learned`()
        async throws
    {
        let client = try await client()
        for number in 1...2 { try await client.call(Draw(number)) }
        let drawPath = "/v1/functions/draw"
        #expect(client.predictedCost(of: Draw.self).expected == 0)
        authority.stop(drawPath, at: .answer)
        // Two calls at once for the last unit: the second one is expected to cost tokens.
        let calls = [
            Task { try await client.result(of: Draw(3)) },
            Task { try await client.result(of: Draw(4)) },
        ]
        try await authority.reached(drawPath, at: .answer, count: 2)
        #expect(left(client) == 0)
        #expect(client.cached(.balance)?.available == 95 && client.cached(.balance)?.held == 5)
        authority.clear(drawPath, at: .answer)
        var charges: [Int64] = []
        for call in calls { charges.append(try await call.finished().charged) }
        #expect(charges.sorted() == [0, 5])
        #expect(left(client) == 0)
        #expect(client.cached(.balance)?.available == 95 && client.cached(.balance)?.held == 0)
        let last = try await client.result(of: Draw(5))
        #expect(last.charged == 5 && last.quota == nil)
        #expect(client.cached(.balance)?.available == 90)
        #expect(client.predictedCost(of: Draw.self).expected == 5)
        #expect(try await client.quote(Draw(6)).hold == 5)
        // A call paid with a unit is not expected to cost tokens.
        let paidByUnits = SpendingState.Terms(expectedCost: 0, quota: nil)
        #expect(client.balance.prediction(of: "draw", paidByUnits).expected == 0)
    }

    @Test func `a unit left by a kill is settled by the server's answer`() async throws {
        try await ClientFixture.withFolder { folder in
            let first = try await client(folder: folder)
            authority.stop(path, at: .answer)
            let call = Task { try await first.call(Read(1)) }
            try await authority.reached(path, at: .answer)
            first.close()
            authority.clear(path, at: .answer)
            let refusal = await #expect(throws: SanguineError.self) { try await call.finished() }
            #expect(refusal == .closed)
            let second = try fixture.client(folder: folder)
            #expect(left(second) == 2)
            _ = try await second.refresh(.balance)
            #expect(try await second.refresh(.quotas).first?.remaining == 2)
            #expect(second.balance.pendingCalls.isEmpty)
        }
    }

    @Test func `a new day starts over despite calls in flight`() {
        var book = QuotaBook()
        let now = Timestamp(millisecondsSince1970: 1_700_000_000_000)
        let (midnight, next) = (now + .seconds(60), now + .hours(24))
        func quota(_ used: Int64, _ end: Timestamp) -> Quota {
            Quota(name: "readings", limit: 3, used: used, resetsAt: end, unlimited: false)
        }
        book.fetched([quota(0, midnight)], head: 1, at: now)
        book.began("a", .init("readings"), isWaiting: false, at: now)
        #expect(book.visible?.first?.used == 1)
        book.fetched([quota(0, next)], head: 3, at: midnight)
        #expect(book.visible?.first?.used == 0)
        book.answered("a", quota(0, next), head: 4, at: midnight)
        #expect(book.visible?.first?.used == 0)
    }

    @Test func `another device's usage is shown in addition to the call in flight`() {
        var book = QuotaBook()
        let now = Timestamp(millisecondsSince1970: 1_700_000_000_000)
        func quota(_ used: Int64) -> Quota {
            Quota(
                name: "readings",
                limit: 9,
                used: used,
                resetsAt: now + .hours(1),
                unlimited: false
            )
        }
        book.fetched([quota(0)], head: 1, at: now)
        book.began("a", .init("readings", units: 2), isWaiting: false, at: now)
        // Two of ours and three of another device: the owner is not known yet.
        let isKnown = book.received(quota(5), head: 5, at: now)
        #expect(isKnown)
        #expect(book.visible?.first?.used == 2)
        book.answered("a", quota(5), head: 6, at: now)
        #expect(book.visible?.first?.used == 5)
        let other = Quota(name: "x", limit: 1, used: 0, resetsAt: now, unlimited: false)
        let isOther = book.received(other, head: 7, at: now)
        #expect(!isOther)
    }
}
