import AlmanacApp
import AlmanacModel
import AlmanacSky
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The rows of the README, with the real server.
@Suite("Almanac", .bounded(.seconds(60)))
struct AlmanacTests {
    @Test func `the storage of each value is printed from its declaration`() async throws {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            try Self.check(client.matrix().rows)
            client.close()
        }
    }

    private static func check(_ rows: [StorageMatrix.Row]) throws {
        let chart = try #require(rows.first { $0.name == ComputeAstroData.name })
        let today = try #require(rows.first { $0.name == PredictToday.name })
        #expect(chart.client.fresh == "for ever" && chart.client.tier == "onDisk")
        #expect(today.client.fresh == "until midnight")
        #expect(today.client.refetchedOn == ["midnight"])
        let birth = ["$account.settings.births"]
        #expect([chart, today].map(\.client.dependencies) == [birth, birth])
        let declared = Self.declared(in: rows)
        #expect(declared == rows.count)
        // No other function has a value in the client's cache.
        let uncached = [UseTools.name, Predict.name, ExplainMatch.name, DeliverFeedback.name]
        let others = rows.filter { uncached.contains($0.name) }
        #expect(others.map(\.client.tier) == ["none", "none", "none", "none"])
        // Questions and matches are kept in threads and records, which the client mirrors.
        let kept = [Predict.name, ExplainMatch.name, Match.collection.name].compactMap { name in
            rows.first { $0.name == name }
        }
        #expect(kept.map(\.server.history) == ["threads", "threads", "records"])
        #expect(kept.map(\.client.history) == ["mirror", "mirror", "mirror"])
        printFigure("C1", ours: "\(declared) of \(rows.count) printed rows are declared")
    }

    /// Returns the number of rows that the app has declared.
    private static func declared(in rows: [StorageMatrix.Row]) -> Int {
        rows.count { $0.standing == .declared }
    }

    @Test func `positions are computed each time, and a chart once until the birth changes`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await world.screen(client)
            let noon = Moment(julianDay: 2_461_371.875)
            for _ in 1...3 {
                let report = try await screen.sky(at: noon)
                #expect(report.moment == noon && report.positions.count == 11)
            }
            let birth = try AlmanacWorld.birth()
            let query = ValueQuery.astroData(of: birth, in: 2026)
            let own = try await client.value(of: query)
            for _ in 1...3 { _ = try await client.value(of: query) }
            #expect(own.chart.positions == (try Chart(of: birth)).positions)
            #expect(own.transits.count == (try Transit.all(in: 2026)).count)
            let tools = network.count(of: "/v1/functions/tools")
            let charts = network.count(of: "/v1/functions/astrodata")
            #expect(tools == 3 && charts == 1)
            printFigure(
                "C2",
                ours: "\(tools) requests for 3 uses of tools, \(charts) for 4 reads of a chart"
            )
            client.close()
        }
    }

    @Test func `another device's prediction of the day comes from the server's cache`() async throws
    {
        try await AlmanacWorld.with { world in
            let birth = try AlmanacWorld.birth()
            let client = try world.client()
            let day = await world.screen(client).today
            let query = ValueQuery.prediction(for: birth, on: day)
            let first = try await world.modelClock.advancing { try await client.value(of: query) }

            try world.join("tablet")
            let tablet = try world.client("tablet")
            _ = try await tablet.value(of: .account)
            // The model's clock stands, so the model cannot answer.
            let second = try await tablet.value(of: query)
            #expect(second == first && !first.isEmpty)
            let time = try await medianTime(of: 21) {
                let answer = try await tablet.call(PredictToday(for: birth, on: day))
                #expect(answer == first)
            }
            printFigure("C3", ours: "\(time.milliseconds) from the cache", theirs: "3 s to 10 ms")

            // Another user's prediction, with the same input, is not it.
            let stranger = try world.client("stranger")
            let waiting = Task { try await stranger.value(of: query) }
            try await world.modelClock.waitForSleepers(1)
            _ = try await world.modelClock.advancing {
                try await waiting.finished("the stranger's prediction")
            }
            for device in [client, tablet, stranger] { device.close() }
        }
    }

    @Test func `a repeated question of a session is answered from its cache without a charge`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            let screen = await world.screen(client)
            _ = try await client.value(of: .account)
            try await screen.setBirth(AlmanacWorld.birth())
            let id = RecordID.new()
            let ask: @Sendable () async throws -> ThreadMessage = {
                let asked = try await screen.ask("Will I travel?", thread: id)
                return try await #require(asked).answer()
            }
            let first = try await world.modelClock.advancing(ask)
            #expect(first.phase == .complete && first.charged ?? 0 > 0)
            // The model's clock stands, so it is not asked.
            let time = try await medianTime(of: 7) {
                let again = try await ask()
                #expect(again.charged == 0 && again.text == first.text)
            }
            printFigure("C4", ours: "\(time.milliseconds) from the cache", theirs: "3 s to 50 ms")
            #expect(await screen.thread(id).messages.count == 16)

            let long = try await screen.ask(String(repeating: "?", count: 1_100))
            let refusal = await #expect(throws: SanguineError.self) {
                try await #require(long).answer()
            }
            #expect(refusal?.code == "invalid_content")
            #expect(await long?.thread.messages.isEmpty == true)
            client.close()
        }
    }

    @Test func `midnight, another birth and a sign-out drop exactly what they end`() async throws {
        try await AlmanacWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await world.screen(client)
            let birth = try AlmanacWorld.birth()
            _ = try await client.value(of: .account)
            try await screen.setBirth(birth)
            let today = await screen.today
            let chart = ValueQuery.astroData(of: birth, in: 2026)
            let prediction = ValueQuery.prediction(for: birth, on: today)
            _ = try await client.value(of: chart)
            _ = try await world.modelClock.advancing { try await client.value(of: prediction) }

            // Midnight of the user: 21:00 UTC.
            world.clock.advance(by: .hours(12))
            await screen.dayMayHaveChanged()
            #expect(await screen.today == today.next)
            _ = network.take()
            _ = try await client.value(of: chart)
            let kept = network.take().calls
            _ = try await client.value(of: prediction)
            var rightEvents = [kept.isEmpty && network.take().calls == [PredictToday.name]]

            // Another birth has another chart; the earlier one is stale.
            let other = try AlmanacWorld.birth("1990-05-18")
            try await screen.setBirth(other)
            #expect(await screen.birth == other)
            _ = network.take()
            _ = try await client.value(of: chart)
            rightEvents.append(network.take().calls == [ComputeAstroData.name])
            let moved = try await client.value(of: .astroData(of: other, in: 2026))
            #expect(moved.chart.moment > (try Chart(of: birth)).moment)

            try await client.synchronize()
            await client.signOut()
            rightEvents.append(client.cached(chart) == nil && client.cached(prediction) == nil)
            #expect(await screen.birth == nil)
            let right = rightEvents.filter(\.self).count
            #expect(rightEvents == [true, true, true])
            printFigure(
                "C7",
                ours: "\(right) of \(rightEvents.count) events drop what they end, and nothing else"
            )
            client.close()
        }
    }

    @Test func `a chart is in the first frame after a restart, without a network`() async throws {
        try await AlmanacWorld.with { world in
            let birth = try AlmanacWorld.birth()
            let client = try world.client()
            let screen = await world.screen(client)
            _ = try await client.value(of: .account)
            try await screen.setBirth(birth)
            let data = try await client.value(of: .astroData(of: birth, in: 2026))
            try await client.synchronize()
            try await client.waitUntilIdle()
            client.close()

            let network = RecordedNetwork()
            network.disconnect()
            let time = try await median(of: 7) {
                let again = try world.client { $0.transport = network }
                defer { again.close() }
                let start = ContinuousClock.now
                let shown = await world.screen(again).data
                let time = ContinuousClock.now - start
                #expect(shown == data)
                return time
            }
            printFigure("C8", ours: "\(time.milliseconds) to the chart", theirs: "100 ms to 5 ms")
        }
    }

    @Test func `everything is readable offline, and feedback is delivered once online`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await world.screen(client)
            let birth = try AlmanacWorld.birth()
            _ = try await client.value(of: .account)
            try await screen.setBirth(birth)
            let today = await screen.today
            let chart = try await client.value(of: .astroData(of: birth, in: 2026))
            let prediction = try await world.modelClock.advancing {
                try await client.value(of: .prediction(for: birth, on: today))
            }
            try await client.synchronize()

            network.disconnect()
            let shown = [
                await screen.data == chart, await screen.prediction == prediction,
                await screen.birth == birth,
            ]
            #expect(shown == [true, true, true])
            try await screen.rate(Predict.name, isHelpful: true, comment: "It rained.")
            #expect(try world.feedback.isEmpty)
            network.lose(.response, of: "/v1/functions/feedback")
            network.connect()
            // The server stores it, but the app does not learn of it.
            try await eventually("the feedback", within: .seconds(30)) {
                try !world.feedback.isEmpty
            }
            network.lose(nil)
            try await eventually("an empty outbox", within: .seconds(30)) {
                client.outbox.summary.unsent == 0
            }
            let stored = try world.feedback
            #expect(stored.map(\.comment) == ["It rained."])
            printFigure(
                "C9",
                ours: """
                    \(shown.filter(\.self).count) of \(shown.count) values shown offline, feedback \
                    stored \(stored.count) time
                    """
            )
            client.close()
        }
    }

    @Test func `the subscription is kept on the device and corrected by the feed`() async throws {
        try await AlmanacWorld.with { world in
            let online = RecordedNetwork()
            let client = try world.client { $0.transport = online }
            let account = try await client.value(of: .account)
            let screen = await world.screen(client)
            #expect(await screen.plan == .free)
            let before = online.count(of: "/v1/account")
            try await world.setPremium(account.id)
            try await client.synchronize()
            try await eventually("the plan") { await screen.plan == .premium }
            let fetches = online.count(of: "/v1/account") - before
            #expect(fetches == 0)
            try await client.waitUntilIdle()
            client.close()

            let network = RecordedNetwork()
            network.disconnect()
            let again = try world.client { $0.transport = network }
            let plan = await world.screen(again).plan
            #expect(plan == .premium)
            printFigure(
                "C10",
                ours: "\(plan.rawValue) shown offline, and corrected with \(fetches) fetches"
            )
            again.close()
        }
    }

    @Test func `a match is computed on the device and explained by the model`() async throws {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            let screen = await world.screen(client)
            let (groom, bride) = (
                try AlmanacWorld.birth(), try AlmanacWorld.birth("1992-02-03")
            )
            let points = await screen.points(groom: groom, bride: bride)
            #expect(points.total == Compatibility(groom: groom, bride: bride).total)
            let asked = try await screen.explain(groom: groom, bride: bride)
            let answer = try await world.modelClock.advancing { try await asked.answer() }
            #expect(!answer.text.isEmpty && answer.charged ?? 0 > 0)
            // Asking again adds to the couple's thread, repeats the stored answer, and is free.
            let again = try await screen.explain(groom: groom, bride: bride)
            #expect(try await again.answer().charged == 0)
            let (matches, id) = await (screen.matches, asked.thread.id)
            #expect(matches.map(\.id) == [id] && matches.map(\.points) == [points.total])
            let texts = await screen.thread(id).messages.map(\.text)
            #expect(texts == [texts[0], answer.text, texts[0], answer.text])
            #expect(texts[0] == "Explain \(points.total) of 36 points.")
            #expect(await screen.threads(in: .match).map(\.id) == [id])

            try await client.synchronize()
            try await screen.delete(id)
            #expect(await screen.matches.isEmpty)
            #expect(await screen.threads().isEmpty)
            try await client.synchronize()
            #expect(client.outbox.refused.isEmpty)
            client.close()
        }
    }

    @Test func `a chart that cannot be computed is refused with its reason`() async throws {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            let north = try BirthData(
                date: "1990-05-17",
                time: "12:00",
                zone: "Europe/Oslo",
                latitude: 70,
                longitude: 20
            )
            let error = await #expect(throws: SanguineError.self) {
                try await client.call(ComputeAstroData(of: north, in: 2026))
            }
            #expect(error?.code == "invalid_content")
            #expect("\(error as Any)".contains("polar circles"))
            client.close()
        }
    }
}
