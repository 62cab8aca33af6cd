import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineCommand

/// Runs against a server that is a closure, in virtual time.
@Suite("A run of sanguine load", .bounded)
struct LoadRunTests {
    private static let guest = #"{"session":{"accessToken":"token"}}"#

    /// One user with a page every 100 ms for ten seconds.
    private static func plan(_ steps: [LoadStep] = [LoadStep("feed")]) -> LoadPlan {
        var plan = LoadPlan()
        plan.users = 1
        plan.ramp = .zero
        plan.duration = .seconds(10)
        plan.think = .milliseconds(100) ... .milliseconds(100)
        plan.timeout = .seconds(30)
        plan.steps = steps
        return plan
    }

    private static func run(_ plan: LoadPlan) -> LoadRun {
        LoadRun(plan, run: "test", start: Timestamp(millisecondsSince1970: 1_800_000_000_000))
    }

    /// Plays a run; `latency` returns when and with what a request sent at a time is answered.
    private static func play(
        _ plan: LoadPlan,
        until limit: Duration = .seconds(60),
        _ respond: (LoadRun.Send, Duration) -> (at: Duration, LoadRun.Answer)
    ) -> LoadRun {
        var run = run(plan)
        var now = Duration.zero
        var answers: [(at: Duration, number: Int, answer: LoadRun.Answer)] = []
        func take(_ sends: [LoadRun.Send]) {
            for send in sends {
                let (at, answer) = respond(send, now)
                answers.append((at, send.number, answer))
            }
        }
        while now <= limit, !run.isComplete(at: now) {
            take(run.start(at: now))
            let due = answers.filter { $0.at <= now }
            answers.removeAll { $0.at <= now }
            for (_, number, answer) in due { take(run.answer(number, answer, at: now)) }
            take(run.expire(at: now).sends)
            now += .milliseconds(1)
        }
        run.finish(at: now, isInterrupted: false)
        return run
    }

    private static func success(_ send: LoadRun.Send) -> LoadRun.Answer {
        .response(status: 200, body: Array(Self.guest.utf8))
    }

    // MARK: - Coordinated omission

    @Test func `requests that should have started during a stall count from that time`() throws {
        // The server stops from 2 s to 7 s and answers everything at the end of that time.
        let run = Self.play(Self.plan([LoadStep("ask")])) { send, now in
            let isStalled = now >= .seconds(2) && now < .seconds(7)
            return (isStalled ? .seconds(7) : now + .milliseconds(1), Self.success(send))
        }
        let row = run.tally.rows[1]
        // A step every 100 ms from 0.1 s to 10 s, sent in time although none was answered.
        #expect(row.intended == 100)
        #expect(row.succeeded == 100)
        #expect(try #require(run.tally.lag.percentile(99)) == .zero)
        // Half of them waited, on average half of the stall, and not just one of them.
        let p90 = try #require(row.latencies.percentile(90))
        #expect(p90 > .milliseconds(3_900) && p90 < .milliseconds(4_200))
        #expect(row.latencies.longest >= .milliseconds(4_900))
        let p50 = try #require(row.latencies.percentile(50))
        #expect(p50 < .milliseconds(300))
    }

    @Test func `pages that wait for the page before them count the wait`() throws {
        let run = Self.play(Self.plan([LoadStep("page")])) { send, now in
            let isStalled = now >= .seconds(2) && now < .seconds(7)
            return (isStalled ? .seconds(7) : now + .milliseconds(1), Self.success(send))
        }
        let row = run.tally.rows[1]
        #expect(row.intended == 100 && row.succeeded == 100)
        #expect(try #require(row.latencies.percentile(90)) > .milliseconds(3_900))
    }

    @Test func `a generator that starts late has the delay in its lag and in the latencies`()
        throws
    {
        var run = Self.run(Self.plan([LoadStep("ask", isOnce: true)]))
        let sends = run.start(at: .seconds(3))
        #expect(sends.map(\.message.path) == ["/v1/accounts/guest"])
        let next = run.answer(sends[0].number, Self.success(sends[0]), at: .seconds(3))
        #expect(next.map(\.message.path) == ["/v1/functions/echo"])
        #expect(run.tally.lag.longest == .seconds(3))
        #expect(run.tally.rows[0].latencies.longest == .seconds(3))
    }

    @Test func `requests that time out count with the time that they waited`() throws {
        var plan = Self.plan([LoadStep("ask")])
        plan.timeout = .seconds(1)
        let run = Self.play(plan) { send, now in
            send.message.path.hasSuffix("guest")
                ? (now, Self.success(send)) : (.seconds(1_000), Self.success(send))
        }
        let row = run.tally.rows[1]
        #expect(row.reasons == ["timed out": 100])
        #expect(try #require(row.latencies.percentile(50)) >= .seconds(1))
        #expect(row.succeeded == 0)
    }

    @Test func `an interrupted run counts what is unanswered`() throws {
        var run = Self.run(Self.plan([LoadStep("ask")]))
        let guest = run.start(at: .zero)
        _ = run.answer(guest[0].number, Self.success(guest[0]), at: .zero)
        let sends = run.start(at: .seconds(1))
        try #require(sends.count == 10)
        run.finish(at: .seconds(2), isInterrupted: true)
        #expect(run.isInterrupted && run.end == .seconds(2))
        #expect(run.tally.rows[1].reasons == ["unanswered at the end": 10])
        #expect(run.tally.rows[1].latencies.longest == .milliseconds(1_900))
        #expect(run.start(at: .seconds(3)).isEmpty && run.openRequests == 0)
        #expect(run.answer(sends[0].number, Self.success(sends[0]), at: .seconds(3)).isEmpty)
        #expect(run.tally.rows[1].succeeded == 0)
    }

    // MARK: - Requests

    @Test func `a page has the cursor of the page before it, and begins again after the last`() {
        var plan = Self.plan([
            LoadStep("feed", isOnce: true), LoadStep("page", weight: 3, isOnce: true),
        ])
        plan.pageSize = 5
        var paths: [String] = []
        _ = Self.play(plan) { send, now in
            guard send.message.path.contains("records") else { return (now, Self.success(send)) }
            paths.append(send.message.path)
            let body = paths.count < 3 ? #"{"items":[],"nextCursor": "c\#(paths.count)"}"# : "{}"
            return (now, .response(status: 200, body: Array(body.utf8)))
        }
        let list = "/v1/collections/posts/records?limit=5"
        #expect(paths == [list, list + "&cursor=c1", list + "&cursor=c2", list])
    }

    @Test func `posts of a user are sent in order, one at a time`() throws {
        var sent: [Duration] = []
        let run = Self.play(Self.plan([LoadStep("post", weight: 5, isOnce: true)])) { send, now in
            guard send.message.path == "/v1/sync/push" else { return (now, Self.success(send)) }
            sent.append(now)
            return (now + .seconds(1), Self.success(send))
        }
        #expect(sent.count == 5)
        #expect(zip(sent, sent.dropFirst()).allSatisfy { $1 - $0 >= .seconds(1) })
        // The fifth was intended at 0.5 s and ended at 5.1 s.
        #expect(run.tally.rows[1].latencies.longest > .milliseconds(4_500))
    }

    @Test func `a like names the first post of the last list`() {
        var pushed: [String] = []
        let steps = [LoadStep("feed", isOnce: true), LoadStep("like", isOnce: true)]
        _ = Self.play(Self.plan(steps)) { send, now in
            if send.message.path == "/v1/sync/push" { pushed.append(send.message.body ?? "") }
            guard send.message.path.contains("records") else { return (now, Self.success(send)) }
            let list = #"{"items":[{"id":"one"},{"id":"two"}]}"#
            return (now, .response(status: 200, body: Array(list.utf8)))
        }
        #expect(pushed.count == 1)
        #expect(pushed.first?.contains(#""fields":{"post":"one"}"#) == true)
    }

    @Test func `a refused operation is a failure although the status is 200`() {
        let body = #"{"results":[{"status":"refused","problem":{"code":"not_found"}}]}"#
        let run = Self.play(Self.plan([LoadStep("like", isOnce: true)])) { send, now in
            send.message.path == "/v1/sync/push"
                ? (now, .response(status: 200, body: Array(body.utf8))) : (now, Self.success(send))
        }
        #expect(run.tally.rows[1].reasons == ["refused not_found": 1])
    }

    @Test func `without a session nothing is sent but the next attempt to sign in`() {
        let problem = #"{"code":"rate_limited"}"#
        var paths: Set<String> = []
        let run = Self.play(Self.plan()) { send, now in
            paths.insert(send.message.path)
            return (now, .response(status: 429, body: Array(problem.utf8)))
        }
        #expect(paths == ["/v1/accounts/guest"])
        #expect(run.tally.rows[0].reasons == ["429 rate_limited": 101])
        #expect(run.tally.rows[1].reasons == ["no session": 100])
        let advice = LoadAdvice.advice(step: "guest", reason: "429 rate_limited")
        #expect(advice?.contains("limits.guestsPerHour") == true)
    }

    @Test func `a live connection that the server ends is a failure`() {
        var run = Self.run(Self.plan([LoadStep("live", isOnce: true)]))
        let guest = run.start(at: .zero)
        _ = run.answer(guest[0].number, Self.success(guest[0]), at: .zero)
        let live = run.start(at: .seconds(1))
        #expect(live.map(\.isLive) == [true])
        _ = run.answer(live[0].number, .response(status: 200, body: []), at: .seconds(1))
        #expect(run.tally.liveConnections == 1)
        run.liveEnded(at: .seconds(2))
        #expect(run.tally.liveConnections == 0)
        #expect(run.tally.mostLiveConnections == 1)
        #expect(run.tally.rows[1].reasons == ["ended by the server": 1])
        #expect(run.tally.rows[1].succeeded == 0)
    }

    @Test func `a declared request is filled in and has a new idempotency key each time`() {
        var plan = Self.plan([LoadStep("mine")])
        plan.requests = ["mine": LoadRequest(method: "POST", path: "/u/{{user}}", body: "{{id}}")]
        var messages: [LoadUsers.Message] = []
        _ = Self.play(plan) { send, now in
            if send.message.path.hasPrefix("/u/") { messages.append(send.message) }
            return (now, Self.success(send))
        }
        #expect(messages.count == 100)
        #expect(messages.allSatisfy { $0.path == "/u/0" && $0.token == "token" })
        #expect(Set(messages.map(\.key)).count == 100 && Set(messages.map(\.body)).count == 100)
        #expect(messages.allSatisfy { $0.body.flatMap { Identifier($0) } != nil })
    }

    @Test func `a text that looks like a member is no member`() {
        let text = ResponseText(Array(#"{"text":"\"code\":\"no\"","code" : "yes"}"#.utf8))
        #expect(text.string(named: "code") == "yes")
        #expect(text.string(named: "cod") == nil)
        #expect(ResponseText(Array(#"{"code":"#.utf8)).string(named: "code") == nil)
    }

    // MARK: - Percentiles

    @Test func `percentiles are by nearest rank, never above the maximum`() throws {
        var histogram = DurationHistogram()
        #expect(histogram.percentile(50) == nil && histogram.count == 0)
        for _ in 0..<1_000 { histogram.record(.milliseconds(1)) }
        histogram.record(.seconds(599))
        // The 991st of 1,001 is one of the short ones.
        #expect(try #require(histogram.percentile(99)) < .microseconds(1_011))
        #expect(histogram.percentile(100) == .seconds(599))
        var single = DurationHistogram()
        single.record(.microseconds(575_300))
        for percent in [1, 50, 99, 100] {
            #expect(single.percentile(percent) == .microseconds(575_300))
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `merged histograms equal one histogram of all`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var parts = [DurationHistogram(), DurationHistogram()]
        var all = DurationHistogram()
        for number in 0..<1_000 {
            let time = Duration.microseconds(Int64.random(in: 0...20_000_000, using: &random))
            parts[number % 2].record(time)
            all.record(time)
        }
        parts[0].merge(parts[1])
        #expect(parts[0].count == 1_000)
        for percent in [1, 50, 90, 95, 99, 100] {
            #expect(parts[0].percentile(percent) == all.percentile(percent))
        }
        let bounds: [Duration] = [.milliseconds(1), .seconds(1), .seconds(10)]
        #expect(parts[0].counts(between: bounds) == all.counts(between: bounds))
        #expect(all.counts(between: bounds).reduce(0, +) == 1_000)
    }

    @Test func `reasons of failures are bounded`() {
        var tally = LoadTally(Self.plan())
        for number in 0..<100 {
            tally.end(0, intended: .zero, now: .zero, .failure("reason \(number)"))
        }
        #expect(tally.rows[0].reasons.count == LoadLimits.reasons + 1)
        #expect(tally.rows[0].reasons["other"] == 100 - LoadLimits.reasons)
    }
}
