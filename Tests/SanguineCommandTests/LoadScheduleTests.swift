import ArgumentParser
import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineCommand

@Suite("The schedule of sanguine load", .bounded)
struct LoadScheduleTests {
    private static func items(of plan: LoadPlan) -> [LoadSchedule.Item] {
        var schedule = LoadSchedule(plan)
        var items: [LoadSchedule.Item] = []
        while let item = schedule.next() { items.append(item) }
        return items
    }

    private static func plan(_ change: (inout LoadPlan) -> Void = { _ in }) -> LoadPlan {
        var plan = LoadPlan()
        plan.users = 20
        plan.rate = 10
        plan.ramp = .zero
        plan.duration = .seconds(20)
        change(&plan)
        return plan
    }

    @Test func `the same seed gives the same requests, and another one gives others`() {
        let first = Self.items(of: Self.plan())
        #expect(first == Self.items(of: Self.plan()))
        #expect(first != Self.items(of: Self.plan { $0.seed = 2 }))
        #expect(first == first.sorted { $0.time < $1.time })
        #expect(first.count > 100)
    }

    @Test func `users arrive at exact times, linearly faster during the ramp`() {
        var plan = Self.plan()
        #expect((0..<4).map { plan.arrival(of: $0) } == (0..<4).map { .milliseconds(100 * $0) })
        // During four seconds, the rate rises to 10: 20 users arrive, the fifth after 2 s.
        plan.ramp = .seconds(4)
        #expect(plan.arrival(of: 0) == .zero)
        #expect(plan.arrival(of: 5) == .seconds(2))
        #expect(plan.arrival(of: 20) == .seconds(4))
        #expect(plan.arrival(of: 21) == .milliseconds(4_100))
    }

    @Test(arguments: [0.3, 1, 7, 33.3])
    func `the number of users that arrive is the plan's at every rate`(rate: Double) {
        let plan = Self.plan {
            $0.users = 100
            $0.rate = rate
            $0.ramp = .seconds(10)
            $0.duration = .seconds(600)
            $0.steps = [LoadStep("feed", isOnce: true)]
        }
        let arrivals = Self.items(of: plan).filter { $0.step == nil }
        #expect(arrivals.map(\.user) == Array(0..<100))
        #expect(arrivals.map(\.time) == arrivals.map(\.time).sorted())
    }

    @Test func `a step that is done once occurs in the first round only`() {
        let plan = Self.plan { $0.steps = [LoadStep("ask", isOnce: true), LoadStep("feed")] }
        let items = Self.items(of: plan)
        #expect(items.count { $0.step == 0 } == 20)
        #expect(items.count { $0.step == 1 } > 20)
    }

    @Test func `a weight is the expected number of times`() {
        let plan = Self.plan {
            $0.users = 1_000
            $0.rate = 1_000
            $0.duration = .seconds(60)
            $0.steps = [
                LoadStep("page", weight: 2, isOnce: true),
                LoadStep("like", weight: 0.5, isOnce: true),
            ]
        }
        let items = Self.items(of: plan)
        #expect(items.count { $0.step == 0 } == 2_000)
        #expect((400...600).contains(items.count { $0.step == 1 }))
    }

    @Test func `pauses lie within their bounds`() {
        let plan = Self.plan { $0.think = .milliseconds(500) ... .milliseconds(700) }
        for user in 0..<20 {
            let times = Self.items(of: plan).filter { $0.user == user }.map(\.time)
            let pauses = zip(times, times.dropFirst()).map { $1 - $0 }
            // A round in which no step has its turn adds a pause.
            #expect(pauses.allSatisfy { $0 >= .milliseconds(500) })
            #expect(pauses.count > 10)
        }
    }

    @Test func `rare steps do not keep the schedule from ending`() {
        let plan = Self.plan { $0.steps = [LoadStep("like", weight: 0.001)] }
        #expect(Self.items(of: plan).allSatisfy { $0.time <= plan.duration })
    }

    // MARK: - Arguments

    @Test(arguments: [
        ["users": "0"], ["users": "x"], ["rate": "0"], ["rate": "nan"], ["duration": "11m"],
        ["ramp": "31s"], ["think": "0ms"], ["think": "5s..1s"], ["seed": "-1"],
        ["collection": "a/b"], ["pageSize": "101"], ["users": "10000"],
    ])
    func `wrong arguments are refused`(values: [String: String]) {
        #expect(throws: Failure.self) { try LoadScenario.plan(values) }
    }

    @Test(arguments: ["", "page:", "page:0", "page:-1", "page:2:often", "a b", "page:1:once:x"])
    func `wrong steps are refused`(text: String) {
        #expect(throws: Failure.self) { try LoadStep(parsing: text) }
    }

    @Test(arguments: [["feed", "feed"], ["nothing"], ["live"], ["live:2:once"]])
    func `steps that cannot be played are refused`(steps: [String]) {
        #expect(throws: Failure.self) { try LoadScenario.plan([:], steps: steps) }
    }

    @Test func `arguments and steps become a plan, which states the flags that repeat it`() throws {
        let plan = try LoadScenario.plan(
            ["users": "50", "rate": "25", "think": "250ms", "seed": "9"],
            steps: ["feed", "page:2.5", "ask:1:once"]
        )
        #expect(plan.users == 50)
        #expect(plan.think == .milliseconds(250) ... .milliseconds(250))
        #expect(plan.steps.map(\.description) == ["feed:1", "page:2.5", "ask:1:once"])
        let again = try SanguineTool.parseAsRoot(["load"] + plan.arguments)
        let options = try #require((again as? LoadCommand)?.options)
        #expect(options.steps == ["feed:1", "page:2.5", "ask:1:once"])
        #expect(options.seed == "9")
    }

    @Test func `a scenario file declares requests, and flags take precedence`() async throws {
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "scenario.yaml")
            let text = """
                users: 40
                rate: 20
                steps: [feed, "account:0.5"]
                requests:
                  account:
                    path: /v1/account
                """
            try Data(text.utf8).write(to: file)
            let command = try SanguineTool.parseAsRoot([
                "load", "--scenario", file.path, "--users", "30",
            ])
            let plan = try await #require(command as? LoadCommand).options.plan()
            #expect(plan.users == 30)
            #expect(plan.rate == 20)
            #expect(plan.steps.map(\.description) == ["feed:1", "account:0.5"])
            let account = LoadRequest(method: "GET", path: "/v1/account", body: nil)
            #expect(plan.requests == ["account": account])
        }
    }

    @Test func `an unknown name in a scenario file is refused`() async throws {
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "scenario.yaml")
            try Data("user: 40\n".utf8).write(to: file)
            let command = try SanguineTool.parseAsRoot(["load", "--scenario", file.path])
            let options = try #require(command as? LoadCommand).options
            await #expect(throws: ValidationError.self) { try await options.plan() }
        }
    }

    @Test func `another machine is refused unless that is allowed`() throws {
        #expect(throws: Failure.self) {
            try LoadTarget("http://192.0.2.1:8080", allowsRemote: false)
        }
        #expect(try LoadTarget("http://192.0.2.1:8080", allowsRemote: true).port == 8_080)
        #expect(try LoadTarget("http://127.0.0.1:8080", allowsRemote: false).port == 8_080)
        #expect(throws: Failure.self) {
            try LoadTarget("http://127.0.0.1:8080/v1", allowsRemote: false)
        }
    }

    @Test func `too few file descriptors are refused with the command that raises them`() throws {
        let error = try #require(throws: Failure.self) {
            try LoadConnections(requests: nil, live: 10_000, descriptors: 1_024)
        }
        #expect("\(error)".contains("ulimit -n 11064"))
        let enough = try LoadConnections(requests: nil, live: 10_000, descriptors: 20_000)
        #expect(enough.requests == 9_936)
    }

    #if os(Linux)
    @Test func `many connections come from several loopback addresses`() throws {
        let target = try LoadTarget("http://127.0.0.1:8080", allowsRemote: false)
        #expect(target.localAddresses(for: 100).count == 1)
        #expect(target.localAddresses(for: 20_000).count == 3)
    }
    #endif
}
