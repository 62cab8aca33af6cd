import AlmanacApp
import AlmanacModel
import AlmanacSky
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The events that drop values, with the real server, one at a time.
@Suite("Resets of Almanac", .bounded(.seconds(60)))
struct AlmanacResetTests {
    @Test func `the prediction is asked again after the user's midnight, and not before`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let (screen, birth) = try await world.born(client)
            let today = await screen.today
            _ = try await world.prediction(for: birth, on: today, client)

            // A minute before midnight in Istanbul, where it was noon.
            world.clock.advance(by: .minutes(12 * 60 - 1))
            await screen.dayMayHaveChanged()
            #expect(await screen.today == today)
            _ = network.take()
            _ = try await client.value(of: .prediction(for: birth, on: today))
            #expect(network.take().calls.isEmpty)

            world.clock.advance(by: .minutes(1))
            await screen.dayMayHaveChanged()
            #expect(await screen.today == today.next)
            try await world.expectQuestion(for: birth, on: today.next, client)
            #expect(network.take().calls == [PredictToday.name])
            client.close()
        }
    }

    @Test func `another time zone brings its own day with its own prediction`() async throws {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            let (screen, birth) = try await world.born(client)
            let today = await screen.today
            let first = try await world.prediction(for: birth, on: today, client)

            // It is 19:00 in Istanbul, and 01:00 of the next day in Tokyo.
            world.clock.advance(by: .hours(7))
            try client.account.update { $0.timeZone = "Asia/Tokyo" }
            await screen.dayMayHaveChanged()
            #expect(await screen.today == today.next)
            try await world.expectQuestion(for: birth, on: today.next, client)

            try client.account.update { $0.timeZone = "Europe/Istanbul" }
            await screen.dayMayHaveChanged()
            #expect(await screen.today == today)
            // The clock of the model does not advance, so the answer comes from a cache.
            let again = try await client.value(of: .prediction(for: birth, on: today))
            #expect(again == first)
            client.close()
        }
    }

    @Test func `a birth that another device corrects drops what depends on the former one`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let network = RecordedNetwork()
            let phone = try world.client { $0.transport = network }
            let (screen, birth) = try await world.born(phone)
            let today = await screen.today
            let chart = ValueQuery.astroData(of: birth, in: 2026)
            _ = try await phone.value(of: chart)
            _ = try await world.prediction(for: birth, on: today, phone)

            try world.join("tablet")
            let tablet = try world.client("tablet")
            let (other, corrected) = try await world.born(tablet, "1990-05-18")
            #expect(await other.birth == corrected)
            try await phone.synchronize()
            #expect(await screen.birth == corrected)

            // On this device, the values of the former birth are stale.
            _ = network.take()
            _ = try await phone.value(of: chart)
            _ = try await phone.value(of: .prediction(for: birth, on: today))
            #expect(network.take().calls == [ComputeAstroData.name, PredictToday.name])
            // The server's prediction of the former birth is not that of the corrected one.
            try await world.expectQuestion(for: corrected, on: today, phone)
            phone.close()
            tablet.close()
        }
    }

    @Test func `a birth is on every device, and after a reinstall`() async throws {
        try await AlmanacWorld.with { world in
            let phone = try world.client()
            let (screen, birth) = try await world.born(phone)

            // A reinstalled app has only the identity, as another device of the user.
            try world.join("tablet")
            let tablet = try world.client("tablet")
            let unknown = tablet.account.current.settings.decoded(as: AlmanacSettings.self)
            #expect(unknown.birth == nil)
            let other = await world.screen(tablet)
            _ = try await tablet.value(of: .account)
            #expect(await other.birth == birth)

            // A correction there shows another chart here.
            let corrected = try AlmanacWorld.birth("1990-05-18")
            try await other.setBirth(corrected)
            try await tablet.synchronize()
            _ = try await phone.refresh(.account)
            #expect(await screen.birth == corrected)
            // The prediction is a part of the refresh, and the model answers by its own clock.
            try await world.modelClock.advancing { await screen.refresh() }
            let moment = try Chart(of: corrected).moment
            #expect(await screen.data?.chart.moment == moment)
            #expect(await screen.prediction?.isEmpty == false)
            phone.close()
            tablet.close()
        }
    }

    @Test func `a sign-out leaves nothing of the user on the screen or for the next launch`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            let (screen, birth) = try await world.born(client)
            let account = try await client.value(of: .account)
            try await world.setPremium(account.id)
            _ = try await client.refresh(.account)
            let today = await screen.today
            let chart = ValueQuery.astroData(of: birth, in: 2026)
            let prediction = ValueQuery.prediction(for: birth, on: today)
            _ = try await client.value(of: chart)
            _ = try await world.modelClock.advancing {
                _ = try await client.value(of: prediction)
                let asked = try #require(try await screen.ask("Will I travel?"))
                return try await asked.answer()
            }
            try await eventually("the plan") { await screen.plan == .premium }
            let threads = await screen.threads()
            #expect(threads.count == 1)
            let id = try #require(threads.first).id

            await screen.signOut()
            #expect(await screen.birth == nil)
            try await eventually("no threads") { await screen.threads().isEmpty }
            #expect(await screen.plan == .free)
            client.close()

            let network = RecordedNetwork()
            network.disconnect()
            let again = try world.client { $0.transport = network }
            let next = await world.screen(again)
            #expect(await next.birth == nil)
            #expect(await next.threads().isEmpty)
            #expect(again.threads.messages(of: id).isEmpty)
            #expect(await next.plan == .free)
            #expect(again.cached(chart) == nil && again.cached(prediction) == nil)
            again.close()
        }
    }

    @Test func `a new device shows a subscription at once, because the server caches none`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let phone = try world.client()
            let account = try await phone.value(of: .account)
            #expect(account.plan == .free)
            try await world.setPremium(account.id)

            try world.join("tablet")
            let tablet = try world.client("tablet")
            #expect(try await tablet.value(of: .account).plan == .premium)
            #expect(try await phone.refresh(.account).plan == .premium)
            phone.close()
            tablet.close()
        }
    }
}

extension AlmanacWorld {
    /// Returns the prediction of a day while the model answers.
    fileprivate func prediction(
        for birth: BirthData,
        on day: CalendarDay,
        _ client: SanguineClient
    ) async throws -> String {
        try await modelClock.advancing {
            try await client.value(of: .prediction(for: birth, on: day))
        }
    }

    /// Expects that the model is asked for a prediction, and lets it answer.
    fileprivate func expectQuestion(
        for birth: BirthData,
        on day: CalendarDay,
        _ client: SanguineClient
    ) async throws {
        let asking = Task { try await client.value(of: .prediction(for: birth, on: day)) }
        try await modelClock.waitForSleepers(1)
        let prediction = try await modelClock.advancing {
            try await asking.finished("the prediction")
        }
        #expect(!prediction.isEmpty)
    }
}
