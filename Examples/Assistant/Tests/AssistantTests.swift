import AssistantApp
import AssistantModel
import Foundation
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// The rows of the assistant, on the real server.
@MainActor
@Suite("Assistant", .bounded(.seconds(60)))
struct AssistantTests {
    private let picture = RequestBody.data(Data(SampleFile.jpeg.bytes()), type: "image/jpeg")
    private let video = RequestBody.data(Data(SampleFile.mp4.bytes()), type: "video/mp4")

    @Test func `all requests of a user say the same identity, and another one is refused`()
        async throws
    {
        let picture = picture
        try await AssistantWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await AssistantScreen(client)
            _ = try await screen.ask("Why is the sky blue?").whole()
            _ = try await screen.ask("What is this?", about: [picture]).whole()
            await screen.refresh()

            let tokens = network.requests.compactMap { $0.headers["Authorization"] }
            #expect(tokens.count >= 4 && Set(tokens).count == 1)
            let token = try #require(tokens.first)
            var wrong = TransportRequest(url: world.server.appending(path: "v1/balance"))
            wrong.headers = [
                "Authorization": token, "X-User-Id": "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa",
            ]
            let refused = try await network.send(wrong)
            #expect(refused.status == 403)
            let counted = world.registry.render().split(separator: "\n").first {
                $0.hasPrefix("http_server_problems_total{code=\"identity_mismatch\"}")
            }
            #expect(counted?.hasSuffix(" 1") == true)
            let server = try await world.balance().available
            #expect(await screen.balance?.available == server)
            printFigure(
                "T1",
                ours: "0 mismatched balances, 1 of 1 wrong identities refused and counted",
                theirs: "mismatched balances: 0"
            )
            client.close()
        }
    }

    @Test func `a question, one about a picture and one about a video are answered and metered`()
        async throws
    {
        let (picture, video) = (picture, video)
        try await AssistantWorld.with { world in
            let client = try world.client()
            let screen = await AssistantScreen(client)
            let text = try await screen.ask("Why is the sky blue?").whole()
            let image = try await screen.ask("What is this?", about: [picture]).whole()
            let film = try await screen.ask("What happens here?", about: video).whole()

            #expect(!text.output.contains("I have looked at"))
            #expect(image.output.contains("I have looked at 1 attached"))
            #expect(film.output.contains("I have looked at 1 attached"))
            let charged = [text.charged, image.charged, film.charged]
            #expect(charged.allSatisfy { $0 > 0 })
            #expect(try await world.balance().available == 100 - charged.reduce(0, +))
            printFigure("T2", ours: "3 of 3 queries, charged \(charged)")
            client.close()
        }
    }

    @Test func `the balance is asked for once in two minutes, and given up after eight seconds`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (network, clock, delay) = (
                RecordedNetwork(), ManualWallClock(SystemWallClock().now()), ManualClock()
            )
            let client = try world.client {
                ($0.transport, $0.clock, $0.delay) = (network, clock, delay)
            }
            _ = try await client.value(of: .balance)
            clock.advance(by: .seconds(119))
            _ = try await client.value(of: .balance)
            #expect(network.balanceRequests == 1)
            clock.advance(by: .seconds(2))
            _ = try await client.value(of: .balance)
            #expect(network.balanceRequests == 2)

            network.hold(on: delay)
            let read = Task { try await client.refresh(.balance) }
            try await eventually("the request") { network.balanceRequests == 3 }
            let start = delay.now
            await #expect(throws: SanguineError.self) {
                try await delay.advancing { try await read.finished() }
            }
            let waited = start.duration(to: delay.now)
            #expect(waited >= .seconds(8) && waited < .seconds(30))
            let other = try world.client("tablet")
            for _ in 0..<9 { _ = try await other.refresh(.balance) }
            let row = try #require(other.metrics.summary()[query: "$balance"])
            let median = try #require(row.durations?.p50)
            printFigure(
                "T3",
                ours: "\(median.milliseconds) for a balance (median of 9), given up after 8 s",
                theirs: "< 2 s on average"
            )
            other.close()
            client.close()
        }
    }

    @Test func `the balance is there in the first frame after a start, without a network`()
        async throws
    {
        try await AssistantWorld.with { world in
            let first = try world.client()
            let spent = try await first.result(of: AskText("Why is the sky blue?")).tokensRemaining
            try await first.waitUntilIdle()
            first.close()

            let network = ManualConnectivity(isOnline: false)
            let client = try world.client { $0.connectivity = network }
            let (known, time) = await MainActor.run {
                let start = ContinuousClock.now
                let screen = AssistantScreen(client)
                return (screen.balance?.available, start.duration(to: .now))
            }
            #expect(known == spent)
            printFigure(
                "T4",
                ours: "\(time.milliseconds) from the start to the first frame",
                theirs: "instant"
            )
            client.close()
        }
    }

    @Test func `the deduction is shown before the request leaves, and no order makes it dance`()
        async throws
    {
        try await AssistantWorld.with(latency: AssistantWorld.latency) { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            _ = try await client.value(of: .balance)
            let (atDeparture, numbers) = (WatchedState<[Int64]>([]), WatchedState<[Int64]>([]))
            network.watch { request in
                guard request.url.path().hasPrefix("/v1/functions/") else { return }
                let shown = client.cached(.balance)?.available ?? -1
                atDeparture.withLock { $0.append(shown) }
            }
            let following = client.observe(.balance) { state in
                if let value = state.value { numbers.withLock { $0.append(value.available) } }
            }
            let screen = await AssistantScreen(client)
            let answers = try await MainActor.run {
                try ["One?", "Two?", "Three?"].map { try screen.ask($0) }
            }
            let shown = try #require(await screen.balance)
            #expect((shown.available, shown.held) == (91, 9))
            try await eventually("three requests") { atDeparture.value.count == 3 }
            #expect(atDeparture.value.allSatisfy { $0 <= 97 })
            // The model has not moved: what they waited for has not begun.
            #expect(world.modelClock.now.offset == .zero)

            try await world.modelClock.waitForSleepers(3)
            world.modelClock.advance(by: AssistantWorld.latency)
            var charged: Int64 = 0
            for answer in answers { charged += try await answer.whole().charged }
            try await client.waitUntilIdle()
            #expect(await screen.balance?.available == 100 - charged)
            #expect(try await world.balance().available == 100 - charged)
            // Each step is one call's hold, or one call's hold that became its charge.
            let steps = zip(numbers.value, numbers.value.dropFirst()).map { $1 - $0 }
            #expect(steps.allSatisfy { abs($0) <= 3 }, "\(numbers.value)")
            #expect(steps.count { $0 > 0 } <= 3, "\(numbers.value)")
            printFigure(
                "T5",
                ours: "shown 2 s before the first word, by a stand-in that takes as long",
                theirs: "2 to 5 s faster than waiting"
            )
            withExtendedLifetime(following) {}
            client.close()
        }
    }

    @Test func `every answer carries the balance that the server has then`() async throws {
        try await AssistantWorld.with { world in
            let client = try world.client()
            let screen = await AssistantScreen(client)
            var equal = 0
            for number in 0..<5 {
                let answer = try await screen.ask("Question \(number)?").whole()
                let server = try await world.balance()
                if answer.tokensRemaining == server.available, server.held == 0 { equal += 1 }
            }
            #expect(equal == 5)
            printFigure(
                "T6",
                ours: "equal to the balance endpoint \(equal) of 5 times",
                theirs: "always equal to the balance endpoint"
            )
            client.close()
        }
    }

    @Test
    func `the balance is renewed when the app comes back, and observers are told`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (network, clock) = (RecordedNetwork(), ManualWallClock(SystemWallClock().now()))
            let lifecycle = ManualLifecycle()
            let client = try world.client {
                ($0.transport, $0.clock, $0.lifecycle) = (network, clock, lifecycle)
            }
            let screen = await AssistantScreen(client)
            _ = try await client.value(of: .balance)
            lifecycle.enterBackground()
            let tablet = try world.client("tablet")
            let spent = try await tablet.result(of: AskText("Why?")).tokensRemaining
            tablet.close()
            clock.advance(by: .minutes(10))
            #expect(await screen.balance?.available == 100)
            let requests = network.requests.count
            // Nothing waits: the old number is shown until the new one is there.
            lifecycle.enterForeground()
            #expect(await screen.balance != nil)
            try await eventually("the tablet's charge") {
                await screen.balance?.available == spent
            }
            #expect(network.requests.count > requests)
            printFigure("T7", ours: "renewed by itself, 0 waits")
            client.close()
        }
    }

    @Test func `without a network the last balance is shown with its age, and ten are kept`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (clock, delay) = (ManualWallClock(SystemWallClock().now()), ManualClock())
            let connectivity = ManualConnectivity()
            let network = FaultyNetwork(URLSessionTransport(), seed: 9, clock: delay)
            let client = try world.client {
                ($0.transport, $0.clock, $0.delay) = (network, clock, delay)
                $0.connectivity = connectivity
            }
            let screen = await AssistantScreen(client)
            for number in 0..<12 { _ = try await screen.ask("Question \(number)?").whole() }
            _ = try await client.refresh(.balance)
            let known = try #require(await screen.balance?.available)

            network.partition()
            connectivity.disconnect()
            clock.advance(by: .hours(3))
            try await delay.advancing { await screen.refresh() }

            #expect(await screen.balance?.available == known)
            let asOf = try #require(await screen.balanceAsOf)
            #expect(clock.now() - asOf >= .hours(3))
            let history = await screen.history
            #expect(history.count == 10 && history.last?.balance.available == known)
            // A question waits for the network; its hold is shown meanwhile.
            let answer = try await screen.ask("Still there?")
            #expect(await screen.balance?.held == screen.cost.expected)
            network.heal()
            connectivity.connect()
            _ = try await answer.whole()
            printFigure("T9", ours: "the last 10 balances, the newest with its age")
            client.close()
        }
    }

    @Test func `what a question costs is predicted from the past, and the prediction is the hold`()
        async throws
    {
        try await AssistantWorld.with { world in
            let client = try world.client()
            let screen = await AssistantScreen(client)
            _ = try await client.value(of: .balance)
            for number in 0..<8 {
                let words = String(repeating: "really ", count: number % 3 * 400)
                _ = try await screen.ask("Is it \(words)true?").whole()
            }
            let predicted = await screen.cost
            let before = try #require(await screen.balance?.available)
            let answer = try await screen.ask("Is it true?")
            #expect(await screen.balance?.available == before - predicted.expected)
            _ = try await answer.whole()
            let error = try #require(predicted.meanError)
            #expect(predicted.count == 8 && error > 0 && error <= 2)
            printFigure(
                "T10",
                ours: "mean error \(error) tokens over \(predicted.count) calls",
                theirs: "mean error stated"
            )
            client.close()
        }
    }

    @Test func `what one device spends the other one shows, without asking`() async throws {
        try await AssistantWorld.with { world in
            let phone = try world.client()
            _ = try await phone.value(of: .balance)
            let network = RecordedNetwork()
            let tablet = try world.client("tablet") { $0.transport = network }
            let screen = await AssistantScreen(tablet)
            try await eventually("a live connection") {
                network.requests.contains { $0.url.path() == "/v1/live" }
            }
            try await eventually("the tablet's balance") { await screen.balance != nil }
            try await tablet.waitUntilIdle()
            let requests = network.balanceRequests

            let spent = try await phone.result(of: AskText("Why?")).tokensRemaining
            try await eventually("the phone's charge") {
                await screen.balance?.available == spent
            }
            #expect(network.balanceRequests == requests)
            printFigure("T11", ours: "shown on the other device by a server-sent event")
            phone.close()
            tablet.close()
        }
    }

    @Test func `how often the balance is read and asked for is known, and its freshness adapts`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (network, clock) = (RecordedNetwork(), ManualWallClock(SystemWallClock().now()))
            let client = try world.client { ($0.transport, $0.clock) = (network, clock) }
            let balance = ValueQuery.balance(adaptingWithin: .minutes(2) ... .minutes(10))
            for _ in 0..<30 {
                _ = try await client.value(of: balance)
                clock.advance(by: .seconds(61))
            }
            let row = try #require(client.metrics.summary()[query: "$balance"])
            let rate = try #require(row.hitRate)
            #expect(row.reads == 30 && rate > 0.7)
            // Half an hour of a balance that stays the same: asked for every two minutes it would
            // be fifteen times.
            #expect(network.balanceRequests < 8, "\(network.balanceRequests)")
            printFigure(
                "T12",
                ours: "\(Int(rate * 100)) % of 30 reads, \(network.balanceRequests) requests in 30 "
                    + "minutes, "
                    + "a request \(row.durations?.p50.milliseconds ?? "untimed")",
                theirs: "hit rate > 70 %"
            )
            client.close()
        }
    }
}
