import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

extension RangeQuery where Index == Int, Value == Int {
    /// The index times ten; multiples of five have no value.
    static let tens = RangeQuery("tens", policy: .fresh(for: .minutes(5)).stored(.onDisk)) {
        request,
        range in
        let path = "numbers/\(range.lowerBound)/\(range.upperBound)"
        let answer: [String: Int] = try await request.get(path)
        return Dictionary(
            uniqueKeysWithValues: answer.compactMap { key, value in
                Int(key).map { ($0, value) }
            }
        )
    }
}

extension RangeQuery where Index == CalendarDay, Value == String {
    static let days = RangeQuery("days", policy: .untilMidnight) { request, range in
        let path = "days/\(range.lowerBound)/\(range.upperBound)"
        let answer: [String: String] = try await request.get(path)
        return Dictionary(
            uniqueKeysWithValues: answer.compactMap { key, value in
                CalendarDay(key).map { ($0, value) }
            }
        )
    }
}

extension ScriptedTransport {
    /// Answers requests for ranges of numbers and days.
    static func stretches() -> ScriptedTransport {
        ScriptedTransport { request in
            let parts = request.url.path.split(separator: "/").map(String.init)
            if let from = Int(parts[1]), let to = Int(parts[2]) {
                let numbers = (from...to).filter { !$0.isMultiple(of: 5) }
                return .json(Dictionary(uniqueKeysWithValues: numbers.map { ("\($0)", $0 * 10) }))
            }
            guard let from = CalendarDay(parts[1]), let to = CalendarDay(parts[2]) else {
                return .status(400)
            }
            let days = (from.position...to.position).map { CalendarDay(position: $0).description }
            return .json(Dictionary(uniqueKeysWithValues: days.map { ($0, "on \($0)") }))
        }
    }

    var paths: [String] { requests.map(\.url.path) }
}

/// Ranges of days and numbers, through a client.
@Suite("Range cache", .bounded)
struct RangeCacheTests {
    private func day(_ text: String) throws -> CalendarDay { try #require(CalendarDay(text)) }

    @Test func `a month and a shift of it are two requests, and moving within them is none`()
        async throws
    {
        let test = try TestClient(network: .stretches())
        let first = try day("2026-11-01")
        func month(_ shift: Int) -> ClosedRange<CalendarDay> {
            CalendarDay(
                position: first.position + shift
            )...CalendarDay(
                position: first.position + shift + 29
            )
        }
        _ = try await test.client.value(of: .days, in: month(0))
        _ = try await test.client.value(of: .days, in: month(7))
        for shift in 0...7 { _ = try await test.client.value(of: .days, in: month(shift)) }
        let days = try await test.client.value(of: .days, in: month(3))

        #expect(
            test.network.paths == ["/days/2026-11-01/2026-11-30", "/days/2026-12-01/2026-12-07"]
        )
        #expect(days.count == 30)
        #expect(days[try day("2026-12-01")] == "on 2026-12-01")
    }

    @Test func `an index missing from the answer is known to have no value`() async throws {
        let test = try TestClient(network: .stretches())
        let values = try await test.client.value(of: .tens, in: 4...6)
        let known = test.client.cached(.tens, in: 5...5)
        _ = try await test.client.value(of: .tens, in: 5...5)

        #expect(values == [4: 40, 6: 60])
        #expect(known.values.isEmpty && known.isComplete)
        #expect(test.network.paths.count == 1)
    }

    @Test func `a cached range reports its missing and stale parts`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...4)
        test.wall.advance(by: .minutes(6))
        _ = try await test.client.value(of: .tens, in: 7...8)
        let known = test.client.cached(.tens, in: 3...9)

        #expect(known.values == [3: 30, 4: 40, 7: 70, 8: 80])
        #expect(known.missing == [5...6, 9...9])
        #expect(known.stale == [3...4])
        #expect(!known.isComplete)
    }

    @Test func `each index becomes stale by its own age`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...4)
        test.wall.advance(by: .minutes(3))
        _ = try await test.client.value(of: .tens, in: 1...20)
        test.wall.advance(by: .minutes(3))
        _ = try await test.client.value(of: .tens, in: 1...20)

        #expect(test.network.paths == ["/numbers/1/4", "/numbers/5/20", "/numbers/1/4"])
    }

    @Test func `days are fresh until the user's midnight`() async throws {
        let test = try TestClient(network: .stretches()) { $0.timeZone = "Europe/Rome" }
        let range = try day("2026-11-01")...day("2026-11-02")
        _ = try await test.client.value(of: .days, in: range)
        test.wall.set(CalendarDay(containing: test.wall.now(), in: .gmt).next.start(in: .gmt))
        test.wall.advance(by: .seconds(-3_601))
        _ = try await test.client.value(of: .days, in: range)
        #expect(test.network.paths.count == 1)
        test.wall.advance(by: .seconds(1))
        _ = try await test.client.value(of: .days, in: range)

        #expect(test.network.paths.count == 2)
    }

    @Test(arguments: [(1, 13), (14, 1)])
    func `days are stale after a midnight here or where they were fetched`(
        hour: Int,
        later: Int
    ) async throws {
        let test = try TestClient(network: .stretches()) { $0.timeZone = "Asia/Tokyo" }
        let range = try day("2026-11-01")...day("2026-11-02")
        test.wall.set(try #require(Timestamp("2026-11-21T00:00:00Z")) + .hours(hour))
        _ = try await test.client.value(of: .days, in: range)
        try test.client.setTimeZone("America/Los_Angeles")
        test.wall.advance(by: .hours(later))
        _ = try await test.client.value(of: .days, in: range)

        #expect(test.network.paths.count == 2)
    }

    @Test func `overlapping readers share a fetch, and the second one fetches only the rest`()
        async throws
    {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        async let first = test.client.value(of: .tens, in: 1...10)
        try await test.network.waitForHeld(1)
        async let second = test.client.value(of: .tens, in: 6...14)
        try await test.network.waitForHeld(2)
        test.network.release()

        #expect(try await first.count == 8)
        #expect(
            try await second == [6: 60, 7: 70, 8: 80, 9: 90, 11: 110, 12: 120, 13: 130, 14: 140]
        )
        #expect(test.network.paths == ["/numbers/1/10", "/numbers/11/14"])
    }

    @Test func `a cancelled reader affects no other, and the last one cancels the fetch`()
        async throws
    {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        let first = Task { try await test.client.value(of: .tens, in: 1...10) }
        try await test.network.waitForHeld(1)
        let second = Task { try await test.client.value(of: .tens, in: 6...14) }
        try await test.network.waitForHeld(2)
        second.cancel()
        try await test.network.waitForCancelled(1)
        await #expect(throws: SanguineError.cancelled) { try await second.finished() }
        #expect(test.client.cached(.tens, in: 1...10).isFetching)
        first.cancel()
        try await test.network.waitForCancelled(2)
        await #expect(throws: SanguineError.cancelled) { try await first.finished() }

        #expect(!test.client.cached(.tens, in: 1...10).isFetching)
    }

    @Test func `a gap that fails affects only the readers that need it`() async throws {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        test.network.script(.status(404))
        async let failure = #expect(throws: SanguineError.self) {
            try await test.client.value(of: .tens, in: 1...3)
        }
        try await test.network.waitForHeld(1)
        async let succeeds = test.client.value(of: .tens, in: 21...23)
        try await test.network.waitForHeld(2)
        test.network.release()

        #expect(try await succeeds == [21: 210, 22: 220, 23: 230])
        #expect(await failure?.code == "http_404")
        #expect(test.client.cached(.tens, in: 1...3).missing == [1...3])
    }

    @Test func `only an invalid range is fetched again`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...40)
        test.client.invalidate(.tens, in: 11...12)
        #expect(test.client.cached(.tens, in: 1...40).stale == [11...12])
        _ = try await test.client.value(of: .tens, in: 1...40)

        #expect(test.network.paths == ["/numbers/1/40", "/numbers/11/12"])
    }

    @Test func `an answer in flight before an invalidation is not fresh`() async throws {
        let test = try TestClient(network: .stretches())
        test.network.hold()
        async let values = test.client.value(of: .tens, in: 1...4)
        try await test.network.waitForHeld(1)
        test.client.invalidate(.tens, in: 2...3)
        test.network.release()

        #expect(try await values.count == 4)
        #expect(test.client.cached(.tens, in: 1...4).stale == [2...3])
    }

    @Test func `an invalidation by name covers every range`() async throws {
        let test = try TestClient(network: .stretches())
        _ = try await test.client.value(of: .tens, in: 1...4)
        test.client.invalidate(all: "tens")
        #expect(test.client.cached(.tens, in: 1...4).stale == [1...4])
        _ = try await test.client.value(of: .tens, in: 3...4)

        #expect(test.network.paths == ["/numbers/1/4", "/numbers/3/4"])
        #expect(test.client.cached(.tens, in: 1...4).stale == [1...2])
    }

    @Test func `a late answer for another user is refused`() async throws {
        let authorizer = TestAuthorizer()
        let test = try TestClient(network: .stretches(), authorizer: authorizer)
        test.network.hold()
        async let failure = #expect(throws: SanguineError.userChanged) {
            try await test.client.value(of: .tens, in: 1...4)
        }
        try await test.network.waitForHeld(1)
        authorizer.change(to: nil, in: test.client)
        test.network.release()
        #expect(await failure == .userChanged)

        #expect(test.client.cached(.tens, in: 1...4).missing == [1...4])
    }

    @Test func `a sign-out removes all ranges`() async throws {
        let authorizer = TestAuthorizer()
        let test = try TestClient(network: .stretches(), authorizer: authorizer)
        _ = try await test.client.value(of: .tens, in: 1...4)
        authorizer.change(to: nil, in: test.client)

        #expect(test.client.cached(.tens, in: 1...4).missing == [1...4])
    }

    @Test func `values survive a restart with their age`() async throws {
        let folder = TemporaryFolder()
        let before = try TestClient(network: .stretches(), folder: folder)
        _ = try await before.client.value(of: .tens, in: 1...6)
        before.client.close()
        let after = try TestClient(network: .stretches(), folder: folder)
        let values = try await after.client.value(of: .tens, in: 2...6)
        _ = try await after.client.value(of: .tens, in: 5...9)

        #expect(values == [2: 20, 3: 30, 4: 40, 6: 60])
        #expect(after.network.paths == ["/numbers/7/9"])
    }

    @Test func `a long range is several requests, and one that is too long is refused`()
        async throws
    {
        let test = try TestClient(network: .stretches())
        let values = try await test.client.value(of: .tens, in: 1...1_000)
        await #expect(throws: SanguineError.rangeTooLong(limit: 4_000)) {
            try await test.client.value(of: .tens, in: 1...4_001)
        }

        #expect(values.count == 800)
        #expect(
            Set(test.network.paths)
                == ["/numbers/1/366", "/numbers/367/732", "/numbers/733/1000"]
        )
    }

    @Test func `the least recently read values are evicted first`() async throws {
        let test = try TestClient(network: .stretches())
        for start in stride(from: 1, to: 4_001, by: 400) {
            _ = try await test.client.value(of: .tens, in: start...start + 399)
        }
        _ = test.client.cached(.tens, in: 1...400)
        _ = try await test.client.value(of: .tens, in: 5_001...5_400)

        #expect(test.client.cached(.tens, in: 1...400).isComplete)
        #expect(test.client.cached(.tens, in: 5_001...5_400).isComplete)
        #expect(test.client.cached(.tens, in: 401...800).missing == [401...800])
    }
}
