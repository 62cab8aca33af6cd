import Foundation
import Logging
import Sanguine
import SanguineTesting
import Synchronization
import TestSupport
import Testing

struct Mood: Codable, Sendable, Equatable {
    var score: Int
}

struct DatedMood: Codable, Sendable {
    var day: CalendarDay
    var mood: Mood
}

extension RangeQuery where Index == CalendarDay, Value == Mood {
    static let moods = RangeQuery("moods", policy: .fresh(for: .hours(1)).stored(.onDisk)) {
        request,
        days in
        let moods: [DatedMood] = try await request.get(
            "moods/\(days.lowerBound)/\(days.upperBound)"
        )
        return Dictionary(moods.map { ($0.day, $0.mood) }) { _, last in last }
    }
}

private let recorded = Mutex<[String]>([])

private func record(_ name: String, _ duration: Duration, _ code: String) {
    recorded.withLock { $0.append("\(name) \(code)") }
}

struct Telemetry: ClientObserver {
    func clientDid(_ event: ClientEvent) {
        if case .flightEnded(let name, let duration, let code, _) = event {
            record(name, duration, code)
        }
    }
}

/// The samples of the guides to ranges and to the client's metrics.
@Suite("Range and metrics snippets", .bounded)
struct RangeSnippets {
    private static func client(_ network: ScriptedTransport) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.observer = Telemetry()
        return try SanguineClient(configuration)
    }

    @Test func `a range of days can be read in several ways`() async throws {
        let first = try #require(CalendarDay("2026-11-01"))
        let last = try #require(CalendarDay("2026-11-30"))
        let network = ScriptedTransport { _ in
            .json([DatedMood(day: first, mood: Mood(score: 4))])
        }
        let client = try Self.client(network)

        let month = try await client.value(of: .moods, in: first...last)  // fetches what is missing
        let known = client.cached(.moods, in: first...last)  // at once
        client.invalidate(.moods, in: first...first)  // one day has changed

        #expect(month == [first: Mood(score: 4)])
        #expect(known.isComplete)
        #expect(client.cached(.moods, in: first...last).stale == [first...first])
        #expect(network.requests.map(\.url.path) == ["/moods/2026-11-01/2026-11-30"])
    }

    @Test func `operations are measured in addition to queries`() async throws {
        let client = try Self.client(ScriptedTransport { _ in .status(404) })
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let (points, photo) = ([1, 2], "photo")
        func draw(_ points: [Int]) -> Int { points.count }
        func resize(_ photo: String) async throws -> String { photo }

        let chart = client.measure("draw chart") { draw(points) }
        let image = try await client.measure("resize") { try await resize(photo) }

        #expect(chart == 2 && image == "photo")
        #expect(client.metrics.summary().operations.map(\.name) == ["draw chart", "resize"])
        logger.notice("\(client.debugReport())")
        #expect("\(client.debugReport())".contains("draw chart"))
        let report = client.debugReport()
        if report[.outboxOldest] ?? 0 > 3_600 { logger.warning("Writes do not arrive.") }
        let json = try JSONEncoder().encode(report)
        #expect(!json.isEmpty)
        logger.info("\(client.metrics.summary())")
        client.metrics.reset()  // starts over for the next screen
        #expect(client.metrics.summary().operations == [])
    }
}
