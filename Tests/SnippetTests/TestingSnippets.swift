import Foundation
import Logging
import Sanguine
import SanguineAuthority
import SanguineTesting
import TestSupport
import Testing

/// The samples of the test kit's guide.
@Suite("Testing snippets", .bounded)
struct TestingSnippets {
    let network = ScriptedTransport { _ in .json(["name": "Ada"]) }
    let clock = ManualWallClock()
    let delay = ManualClock()

    func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.clock = clock
        configuration.delay = delay
        return try SanguineClient(configuration)
    }

    func switchOptimismOff(_ authority: InMemoryAuthority) {
        var switches = Switches()
        switches.mutations["like"] = .init(optimism: false)
        authority.setSwitches(switches)
    }

    func logSteps(_ configuration: inout SanguineClient.Configuration) {
        configuration.logger.logLevel = .debug
    }

    @Test func `a profile is fetched again after five minutes`() async throws {
        let client = try client()
        _ = try await client.value(of: .profile("42"))
        _ = try await client.value(of: .profile("42"))
        #expect(network.requests.count == 1)

        clock.advance(by: .minutes(5))
        _ = try await client.value(of: .profile("42"))
        #expect(network.requests.count == 2)
    }

    @Test func `a read that timed out is tried again`() async throws {
        let client = try client()
        network.script(.fail(.timedOut))

        async let reading = client.value(of: .profile("42"))
        try await delay.waitForSleepers(2)  // The read's deadline, and the wait before its retry.
        delay.advance(by: .seconds(2))

        let profile = try await reading
        #expect(profile.name == "Ada")
    }

    @Test func `the request is cancelled when its last reader leaves`() async throws {
        let client = try client()
        network.hold()
        let reader = Task { try await client.value(of: .profile("42")) }
        try await network.waitForHeld(1)
        reader.cancel()

        await #expect(throws: SanguineError.cancelled) { try await reader.finished() }
        try await eventually("nothing is under way") { network.inFlight == 0 }
    }

    @Test func `two readers share a request`() async throws {
        let client = try client()
        network.hold()
        async let first = client.value(of: .profile("42"))
        async let second = client.value(of: .profile("42"))
        try await network.waitForHeld(1)
        network.release()

        let profiles = try await [first, second]
        #expect(profiles.map(\.name) == ["Ada", "Ada"])
        #expect(network.requests.count == 1)
    }
}

/// The samples of the guide to testing an app.
@Suite("App testing snippets", .bounded)
struct AppTestingSnippets {
    private let run = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
    private let schema: RecordSchema
    private let authority: InMemoryAuthority
    private let delay = ManualClock()
    private let device: TestDevice

    init() {
        let schema = RecordSchema(Habit.self, CompleteHabit.self)
        self.schema = schema
        authority = InMemoryAuthority(schema: schema)
        device = TestDevice(network: authority) { $0.register(schema) }
    }

    @Test func `a habit created on another device is completed here`() async throws {
        authority.set(Habit(id: run, title: "Run"))
        let client = try device.launch()
        try await client.synchronize()

        try client.perform(CompleteHabit(habit: run))
        #expect(client.record(Habit.self, run)?.streak == 1)

        try await client.synchronize()
        #expect(authority.record(Habit.self, run)?.streak == 1)
        #expect(authority.operations().count == 1)
    }

    @Test func `a question is paid for, or refused`() async throws {
        authority.serve(Ask.self, price: 3) { "You asked: \($0.question)" }
        let client = try device.launch()
        #expect(try await client.call(Ask(question: "Why?")) == "You asked: Why?")
        #expect(authority.balance().available == 97)

        authority.setBalance(2)
        await #expect(throws: SanguineError.self) { try await client.call(Ask(question: "Why?")) }
        #expect(authority.balance().available == 2)
    }

    @Test func `an authority uses the given settings`() async throws {
        let clock = ManualWallClock()
        var settings = AuthoritySettings()
        settings.grant = 10
        settings.quotas = ["readings": 1]
        let authority = InMemoryAuthority(schema: schema, settings: settings, clock: clock)
        let device = TestDevice(network: authority, clock: clock)
        let client = try device.launch()
        #expect(try await client.value(of: .balance).available == 10)

        clock.advance(by: .seconds(86_400))  // Tomorrow: new readings, old access tokens.
        await authority.runJobs()  // Expired holds end.
        #expect(try await client.value(of: .balance).available == 10)
    }

    @Test func `changes made on the train survive the end of the app`() async throws {
        authority.set(Habit(id: run, title: "Run"))
        try await device.launch().synchronize()
        device.connectivity.disconnect()
        try device.client?.perform(CompleteHabit(habit: run))
        try device.kill()

        let client = try device.launch()
        #expect(client.record(Habit.self, run)?.streak == 1)

        device.connectivity.connect()
        try await client.synchronize()
        #expect(authority.record(Habit.self, run)?.streak == 1)
    }

    @Test func `another device's changes arrive without advancing a clock`() async throws {
        let device = TestDevice(network: authority) { $0.register(schema) }

        let client = try device.launch()
        let habits = client.updates(of: .all(Habit.self))
        try await eventually("the app is connected") { authority.streamCount == 1 }
        authority.set(Habit(id: run, title: "Run"))
        _ = try await habits.first("the habit") { $0.map(\.title) == ["Run"] }

        #expect(client.record(Habit.self, run)?.title == "Run")
    }

    @Test(arguments: 1...5)
    func `a faulty network neither loses nor repeats an operation`(seed: UInt64) async throws {
        let network = FaultyNetwork(authority, seed: seed, clock: delay, faults: .rough)
        let device = TestDevice(network: network, delay: delay, seed: seed) { $0.register(schema) }
        authority.set(Habit(id: run, title: "Run"))
        network.faults = .none
        try await device.launch().synchronize()

        network.faults = .rough
        for _ in 1...10 { try device.client?.perform(CompleteHabit(habit: run)) }
        try device.kill()
        let client = try device.launch()
        network.partition()
        network.heal()

        network.faults = .none
        try await delay.advancing {
            try await eventually("everything is sent") { (try? await client.synchronize()) != nil }
        }
        #expect(authority.record(Habit.self, run)?.streak == 10, "\(network)")
    }

    @Test func `a server can be made to refuse, fail and forget`() async throws {
        let client = try device.launch()
        authority.set(Habit(id: run, title: "Run"))
        try await client.synchronize()
        authority.refuse {
            $0.mutator == CompleteHabit.name ? Refusal(.notOwner, "Not yours.") : nil
        }
        authority.fail("/v1/sync/push", with: Problem(.overloaded, "Wait.", retryAfter: 5))
        authority.expireTokens()
        authority.forgetDeletions()  // A device that was away too long starts over.

        try client.perform(CompleteHabit(habit: run))
        try await device.delay.advancing {
            try await eventually("an operation is refused") { !client.outbox.refused.isEmpty }
        }
        #expect(client.outbox.refused.map(\.problem.code) == [.notOwner])
    }
}
