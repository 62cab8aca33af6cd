import AssistantApp
import AssistantModel
import Foundation
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// The rows of the assistant's README, with the real server.
@MainActor
@Suite("Assistant", .bounded(.seconds(60)))
struct AssistantTests {
    private let picture = RequestBody.data(Data(SampleFile.jpeg.bytes()), type: "image/jpeg")
    private let video = RequestBody.data(Data(SampleFile.mp4.bytes()), type: "video/mp4")

    @Test func `all requests of a user carry the same identity, and another identity is refused`()
        async throws
    {
        let (picture, video) = (picture, video)
        try await AssistantWorld.with { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await AssistantScreen(client)
            let questions: [@Sendable () async throws -> FunctionResult<String>] = [
                { try await screen.ask("Why is the sky blue?").whole() },
                { try await screen.ask("What is this?", about: [picture]).whole() },
                { try await screen.ask("What happens here?", about: video).whole() },
            ]
            var compared: [(shown: Int64?, known: Int64)] = []
            for question in questions {
                _ = try await question()
                await screen.refresh()
                let known = try await world.balance().available
                compared.append((await screen.balance?.available, known))
            }
            let mismatches = compared.count { $0.shown != $0.known }
            #expect(mismatches == 0, "\(compared)")

            let sent = network.requests.filter { $0.headers["Authorization"] != nil }
            #expect(Set(sent.compactMap { $0.headers["Authorization"] }).count == 1)
            let kinds = Dictionary(grouping: sent) { "\($0.method) \($0.url.path())" }
            let functions = [AskText.name, AskImage.name, AskVideo.name].map { "functions/\($0)" }
            let paths = Set(kinds.keys)
            #expect(paths.isSuperset(of: functions.map { "POST /v1/\($0)" } + ["GET /v1/balance"]))
            let refused = try await Self.refused(kinds.values.compactMap(\.first))
            #expect(refused == kinds.count, "\(kinds.keys.sorted())")
            let counted = Self.problems("identity_mismatch", world)
            #expect(counted == kinds.count)
            // Neither user is charged, and a request may name the user's own identity.
            #expect(try await world.balance().available == compared.last?.known)
            var own = try #require(kinds["GET /v1/balance"]?.first)
            own.headers["X-User-Id"] = try await client.value(of: .account).id.description
            #expect(try await URLSessionTransport.patient.send(own).status == 200)
            printFigure(
                "T1",
                ours: """
                    \(mismatches) of \(compared.count) balances mismatched, \(refused) of \
                    \(kinds.count) wrong identities refused, \(counted ?? 0) counted
                    """,
                theirs: "mismatched balances: 0"
            )
            client.close()
        }
    }

    /// Sends each request again with another user's identity, and returns how many are refused for
    /// it.
    private nonisolated static func refused(_ requests: [TransportRequest]) async throws -> Int {
        let transport = URLSessionTransport.patient
        defer { transport.close() }
        var refused = 0
        for var request in requests {
            request.headers["X-User-Id"] = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"
            request.bodyFile = nil  // The request is refused before its body is read.
            let answer = try await transport.send(request)
            let problem = try JSONDecoder().decode(Problem.self, from: answer.body)
            if answer.status == 403, problem.code == .identityMismatch { refused += 1 }
        }
        return refused
    }

    /// Returns the server's count of problems with a code.
    private nonisolated static func problems(_ code: String, _ world: AssistantWorld) -> Int? {
        let name = "http_server_problems_total{code=\"\(code)\"}"
        let line = world.registry.render().split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(separator: " ").last.flatMap { Int($0) }
    }

    @Test func `questions in words, about a picture and about a video are answered and metered`()
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
            let ledger = try await world.charges()
            #expect(ledger.sorted() == charged.sorted())
            printFigure("T2", ours: "\(ledger.count) of 3 queries charged once: \(charged)")
            client.close()
        }
    }

    @Test func `the balance is fetched once in two minutes, and fails after eight seconds`()
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
            #expect(network.count(of: "/v1/balance") == 1)
            clock.advance(by: .seconds(2))
            _ = try await client.value(of: .balance)
            #expect(network.count(of: "/v1/balance") == 2)

            let limit = try await Self.timeAllowed(
                .balance,
                "/v1/balance",
                attempts: 1,
                client,
                network,
                delay
            )
            #expect(limit.request == .seconds(8) && limit.all == .seconds(8))
            #expect(network.count(of: "/v1/balance") == 3)
            let other = try await Self.timeAllowed(
                .account,
                "/v1/account",
                attempts: 2,
                client,
                network,
                delay
            )
            #expect(other.request == .seconds(30) && other.all == .seconds(60))
            let tablet = try world.client("tablet")
            for _ in 0..<9 { _ = try await tablet.refresh(.balance) }
            let row = try #require(tablet.metrics.summary()[query: "$balance"])
            let median = try #require(row.durations?.p50)
            printFigure(
                "T3",
                ours: """
                    \(median.milliseconds) for a balance (median of 9), given up after \
                    \(limit.all.components.seconds) s; another request after \
                    \(other.request.components.seconds) s, and all attempts after \
                    \(other.all.components.seconds) s
                    """,
                theirs: "< 2 s on average"
            )
            tablet.close()
            client.close()
        }
    }

    /// Returns the time allowed for an unanswered request, and for a read with all its attempts, on
    /// the client's clock.
    private nonisolated static func timeAllowed<Value>(
        _ query: ValueQuery<Value>,
        _ path: String,
        attempts: Int,
        _ client: SanguineClient,
        _ network: RecordedNetwork,
        _ delay: ManualClock
    ) async throws -> (request: Duration, all: Duration) {
        network.hold(path, on: delay)
        let (start, before) = (delay.now, network.count(of: path))
        let read = Task { _ = try await client.refresh(query) }
        var request: Duration?
        for attempt in 1...attempts {
            if attempt > 1 {  // The pause before it.
                try await delay.waitForSleepers(2)
                delay.advance(by: try #require(delay.timeToNextWake))
            }
            try await eventually("attempt \(attempt)") {
                network.count(of: path) == before + attempt
            }
            // The request's timeout and, if there may be several attempts, the timeout of all.
            try await delay.waitForSleepers(attempts)
            let time = try #require(delay.timeToNextWake)
            request = request ?? time
            delay.advance(by: time)
        }
        let error = await #expect(throws: SanguineError.self) { try await read.finished() }
        #expect(error?.code == "timed_out")
        return (try #require(request), start.duration(to: delay.now))
    }

    @Test func `the balance is in the first frame after a start, without a network`()
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

    @Test func `the deduction is shown before the request is sent, and the balance never flickers`()
        async throws
    {
        try await AssistantWorld.with(latency: AssistantWorld.latency) { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            _ = try await client.value(of: .balance)
            let departures = WatchedState<[(shown: Int64, at: Duration)]>([])
            let numbers = WatchedState<[Int64]>([])
            network.watch { request in
                guard request.url.path().hasPrefix("/v1/functions/") else { return }
                let shown = client.cached(.balance)?.available ?? -1
                departures.withLock { $0.append((shown, world.modelClock.now.offset)) }
            }
            let following = client.observe(.balance) { state in
                if let value = state.value { numbers.withLock { $0.append(value.available) } }
            }
            let screen = await AssistantScreen(client)
            // The fourth is about a picture that does not exist.
            let (answers, refused) = try await MainActor.run {
                let answers = try ["One?", "Two?", "Three?"].map { try screen.ask($0) }
                let missing = AskImage("Four?", about: [UUID().uuidString.lowercased()])
                return (answers, try client.answer(to: missing))
            }
            let shown = try #require(await screen.balance)
            #expect((shown.available, shown.held) == (87, 13))
            try await eventually("four requests") { departures.value.count == 4 }
            let sums: Set<Int64> = [97, 94, 91, 87]
            #expect(Set(departures.value.map(\.shown)).isSubset(of: sums))
            let refusal = await #expect(throws: SanguineError.self) { try await refused.whole() }
            #expect(refusal?.code == "invalid_content")

            try await world.modelClock.waitForSleepers(3)
            world.modelClock.advance(by: AssistantWorld.latency)
            try await eventually("a first word") {
                await MainActor.run { answers.contains { !$0.text.isEmpty } }
            }
            let firstWord = world.modelClock.now.offset
            var charged: [Int64] = []
            for answer in answers { charged.append(try await answer.whole().charged) }
            try await client.waitUntilIdle()
            let rest = 100 - charged.reduce(0, +)
            #expect(await screen.balance?.available == rest)
            #expect(try await world.balance().available == rest)
            // Each step is one call's hold, or a hold that became a charge or was released.
            let steps = zip(numbers.value, numbers.value.dropFirst()).map { $1 - $0 }
            #expect(steps.filter { $0 < 0 }.sorted() == [-4, -3, -3, -3], "\(numbers.value)")
            let up = charged.map { 3 - $0 }.filter { $0 > 0 } + [4]
            #expect(steps.filter { $0 > 0 }.sorted() == up.sorted(), "\(numbers.value)")
            let lead = firstWord - (departures.value.map(\.at).max() ?? firstWord)
            #expect(lead >= AssistantWorld.latency)
            printFigure(
                "T5",
                ours: "shown \(lead.milliseconds) before the first word, in \(steps.count) steps",
                theirs: "2 to 5 s faster than waiting"
            )
            withExtendedLifetime(following) {}
            client.close()
        }
    }

    @Test func `every answer carries the server's current balance`() async throws {
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
    func `the balance is refreshed when the app returns, and observers are notified`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (network, clock) = (RecordedNetwork(), ManualWallClock(SystemWallClock().now()))
            let (lifecycle, delay) = (ManualLifecycle(), ManualClock())
            let client = try world.client {
                ($0.transport, $0.clock, $0.lifecycle) = (network, clock, lifecycle)
                ($0.delay, $0.balancePolling) = (delay, .minutes(10))
            }
            let screen = await AssistantScreen(client)
            _ = try await client.value(of: .balance)
            let reported = WatchedState<[Int64]>([])
            let following = client.observe(.balance) { state in
                if let value = state.value { reported.withLock { $0.append(value.available) } }
            }
            try await client.waitUntilIdle()

            // Less than five minutes do not count as absence.
            let first = network.count(of: "/v1/balance")
            lifecycle.enterBackground()
            clock.advance(by: .seconds(299))
            lifecycle.enterForeground()
            try await client.waitUntilIdle()
            let short = network.count(of: "/v1/balance") - first
            #expect(short == 0)

            lifecycle.enterBackground()
            try await client.waitUntilIdle()
            let away = network.requests.count
            let tablet = try world.client("tablet")
            let spent = try await tablet.result(of: AskText("Why?")).tokensRemaining
            tablet.close()
            clock.advance(by: .minutes(5))
            delay.advance(by: .minutes(5))
            #expect(network.requests.count == away)
            // Nothing waits: the old number is shown until the new one arrives.
            let start = ContinuousClock.now
            lifecycle.enterForeground()
            let shown = await screen.balance?.available
            let wait = start.duration(to: .now)
            #expect(shown == 100 || shown == spent)
            try await eventually("the tablet's charge") {
                await screen.balance?.available == spent
            }
            try await client.waitUntilIdle()
            let long = network.count(of: "/v1/balance") - first
            #expect(long == 1)
            #expect(reported.value.last == spent && Set(reported.value) == [100, spent])

            // A timer refreshes it too.
            try await delay.waitForSleepers(1)
            try await eventually("a renewal by the timer") {
                delay.advance(by: .seconds(30))
                return network.count(of: "/v1/balance") > first + long
            }
            printFigure(
                "T7",
                ours: """
                    fetched \(short) times after 299 s away and \(long) times after 300 s, \
                    with a number to show after \(wait.milliseconds)
                    """
            )
            withExtendedLifetime(following) {}
            client.close()
        }
    }

    @Test func `a purchase raises the balance at once on every device, and is credited once`()
        async throws
    {
        let now = SystemWallClock().now()
        let (store, other) = (try TestAppStore(at: now), try TestAppStore(at: now))
        try await AssistantWorld.with(selling: store) { world in
            let phone = try world.client()
            _ = try await phone.value(of: .balance)
            let network = RecordedNetwork()
            let tablet = try world.client("tablet") { $0.transport = network }
            let (sheet, second) = await (PurchaseSheet(phone), PurchaseSheet(tablet))
            try await eventually("a live connection") {
                network.requests.contains { $0.url.path() == "/v1/live" }
            }
            try await eventually("the tablet's balance") {
                await second.balance?.available == 100
            }
            try await tablet.waitUntilIdle()
            let before = network.requests.count

            let bought = store.transaction("1", of: "tokens")
            let start = ContinuousClock.now
            try await sheet.credit(try store.sign(bought))
            let here = start.duration(to: .now)
            #expect(await sheet.balance?.available == 200)
            try await eventually("the purchase") { await second.balance?.available == 200 }
            let there = start.duration(to: .now)
            let requests = network.requests.dropFirst(before).map { $0.url.path() }
            #expect(requests.isEmpty, "\(requests)")

            // StoreKit reports it on the other device, too.
            try await second.credit(try store.sign(bought))
            let forged = try other.sign(store.transaction("2", of: "tokens"))
            let error = await #expect(throws: SanguineError.self) { try await sheet.credit(forged) }
            #expect(error?.code == ProblemCode.purchaseInvalid.rawValue)
            let credited = try await world.balance().available - 100
            #expect(credited == 100)
            printFigure(
                "T8",
                ours: """
                    \(credited) tokens shown after \(here.milliseconds) on the device, and after \
                    \(there.milliseconds) on the other one with \(requests.count) requests
                    """
            )
            phone.close()
            tablet.close()
        }
    }

    @Test func `without a network the last balance is shown with its age, and ten are kept`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (clock, delay) = (ManualWallClock(SystemWallClock().now()), ManualClock())
            let connectivity = ManualConnectivity()
            let network = FaultyNetwork(URLSessionTransport.patient, seed: 9, clock: delay)
            let client = try world.client {
                ($0.transport, $0.clock, $0.delay) = (network, clock, delay)
                $0.connectivity = connectivity
            }
            let screen = await AssistantScreen(client)
            var balances: [Int64] = []
            for number in 0..<12 {
                balances.append(try await screen.ask("Question \(number)?").whole().tokensRemaining)
            }
            _ = try await client.refresh(.balance)
            let known = try #require(await screen.balance?.available)

            network.partition()
            connectivity.disconnect()
            clock.advance(by: .hours(3))
            try await delay.advancing { await screen.refresh() }

            #expect(await screen.balance?.available == known)
            let age = clock.now() - (try #require(await screen.balanceAsOf))
            #expect(age == .hours(3))
            let history = await screen.history
            #expect(history.map(\.balance.available) == Array(balances.suffix(10)))
            // A question waits for the network, and its hold is already shown.
            let answer = try await screen.ask("Still there?")
            #expect(await screen.balance?.held == screen.cost.expected)
            network.heal()
            connectivity.connect()
            _ = try await answer.whole()
            printFigure(
                "T9",
                ours: """
                    \(history.count) of \(balances.count) balances, the newest with its age: \
                    \(age.components.seconds / 3_600) h
                    """
            )
            client.close()
        }
    }

    @Test func `the cost of a question is predicted from the past, and the prediction is held`()
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

    @Test func `another device's spending is shown without a request`() async throws {
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
            let before = network.requests.count

            let spent = try await phone.result(of: AskText("Why?")).tokensRemaining
            let start = ContinuousClock.now
            try await eventually("the phone's charge") {
                await screen.balance?.available == spent
            }
            let time = start.duration(to: .now)
            // The charge therefore arrived over the open live connection.
            let requests = network.requests.dropFirst(before).map { $0.url.path() }
            #expect(requests.isEmpty, "\(requests)")
            printFigure(
                "T11",
                ours: """
                    shown on the other device \(time.milliseconds) after the answer, with \
                    \(requests.count) requests
                    """
            )
            phone.close()
            tablet.close()
        }
    }

    @Test func `the balance's reads and requests are counted, and its freshness adapts`()
        async throws
    {
        try await AssistantWorld.with { world in
            let (network, clock) = (RecordedNetwork(), ManualWallClock(SystemWallClock().now()))
            let client = try world.client { ($0.transport, $0.clock) = (network, clock) }
            let balance = ValueQuery.balance(adaptingWithin: .minutes(2) ... .minutes(10))
            var known = try await client.value(of: balance).available
            let tablet = try world.client("tablet")
            // The tablet spends twice in an hour in which the phone reads the balance every minute.
            let (minutes, spending) = (60, [20, 45])
            var old: [Int] = []
            for minute in 1..<minutes {
                clock.advance(by: .seconds(61))
                if spending.contains(minute) {
                    known = try await tablet.result(of: AskText("\(minute)?")).tokensRemaining
                }
                if try await client.value(of: balance).available != known { old.append(minute) }
            }
            let row = try #require(client.metrics.summary()[query: "$balance"])
            let requests = network.count(of: "/v1/balance")
            // A read that waits for a request is not a hit.
            let rate = try #require(row.hitRate)
            #expect(row.reads == minutes && row.flights == requests)
            #expect(abs(rate - Double(minutes - requests) / Double(minutes)) < 0.001)
            #expect(rate > 0.7)
            // Old reads are less than ten minutes old. Requests every two minutes would be 30
            // requests.
            let late = spending.map { moment in old.count { (moment..<moment + 10).contains($0) } }
            #expect(late.reduce(0, +) == old.count && late.allSatisfy { $0 < 10 }, "\(old)")
            #expect(requests < 30)
            printFigure(
                "T12",
                ours: """
                    \(Int(rate * 100)) % of \(row.reads) reads of a balance that changes \
                    \(spending.count) times, \(old.count) of them old, \(requests) requests in an \
                    hour, a request \(row.durations?.p50.milliseconds ?? "untimed")
                    """,
                theirs: "hit rate > 70 %"
            )
            tablet.close()
            client.close()
        }
    }
}
