import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Polling", .bounded)
struct PollScheduleTests {
    @Test func `a key is due about once per interval`() throws {
        var random = SplitMix64(seed: 1)
        var schedule = PollSchedule<String>()
        schedule.begin("a", every: .seconds(100), at: .zero, using: &random)
        var now = Duration.zero
        for _ in 0..<1_000 {
            let due = try #require(schedule.nextDue)
            #expect((Duration.seconds(90) ... .seconds(110)).contains(due - now))
            now = due
            #expect(schedule.popDue(at: now - .nanoseconds(1), using: &random).isEmpty)
            #expect(schedule.popDue(at: now, using: &random) == ["a"])
        }
    }

    @Test func `after a long pause a key is due once`() {
        var random = SplitMix64(seed: 1)
        var schedule = PollSchedule<String>()
        schedule.begin("a", every: .seconds(10), at: .zero, using: &random)

        #expect(schedule.popDue(at: .hours(8), using: &random) == ["a"])
        #expect(schedule.popDue(at: .hours(8), using: &random).isEmpty)
        #expect(schedule.popDue(at: .hours(8) + .seconds(8), using: &random).isEmpty)
    }

    @Test func `the shortest of several intervals for a key applies`() throws {
        var random = SplitMix64(seed: 1)
        var schedule = PollSchedule<String>()
        schedule.begin("a", every: .seconds(1_000), at: .zero, using: &random)
        schedule.begin("a", every: .seconds(10), at: .zero, using: &random)

        #expect(try #require(schedule.nextDue) <= .seconds(11))
        #expect(schedule.count == 1)
    }

    @Test func `polling ends with the last observer`() {
        var random = SplitMix64(seed: 1)
        var schedule = PollSchedule<String>()
        schedule.begin("a", every: .seconds(10), at: .zero, using: &random)
        schedule.begin("a", every: .seconds(10), at: .zero, using: &random)
        schedule.end("a")
        #expect(schedule.popDue(at: .seconds(20), using: &random) == ["a"])
        schedule.end("a")

        #expect(schedule.nextDue == nil)
        #expect(schedule.popDue(at: .hours(1), using: &random).isEmpty)
    }

    @Test func `a zero interval is a second`() throws {
        var random = SplitMix64(seed: 1)
        var schedule = PollSchedule<String>()
        schedule.begin("a", every: .zero, at: .zero, using: &random)

        #expect(try #require(schedule.nextDue) >= .milliseconds(900))
    }

    @Test(arguments: UInt64(1)...20)
    func `each key keeps its own pace while observers come and go`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var schedule = PollSchedule<Int>()
        var intervals: [Int: Duration] = [:]  // A key keeps its interval for the whole run.
        var observers: [Int: Int] = [:]
        var last: [Int: Duration] = [:]
        var now = Duration.zero
        for _ in 0..<5_000 {
            let key = Int.random(in: 0..<40, using: &random)
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let interval =
                    intervals[key] ?? .seconds(Int.random(in: 1...1_000, using: &random))
                intervals[key] = interval
                if observers[key, default: 0] == 0 { last[key] = now }
                observers[key, default: 0] += 1
                schedule.begin(key, every: interval, at: now, using: &random)
            case 1:
                observers[key] = max(0, observers[key, default: 0] - 1)
                schedule.end(key)
            default:
                now += .milliseconds(Int.random(in: 0...50_000, using: &random))
                for due in schedule.popDue(at: now, using: &random) {
                    let pause = now - last[due, default: .zero]
                    #expect(observers[due, default: 0] > 0, "\(due) is due and unobserved")
                    #expect(pause >= (intervals[due] ?? .zero) * 0.9, "\(due) came too early")
                    last[due] = now
                }
                let overdue = observers.filter { key, count in
                    count > 0 && now - last[key, default: .zero] > (intervals[key] ?? .zero) * 1.1
                }
                #expect(overdue.isEmpty)
            }
            #expect(schedule.count == observers.values.count { $0 > 0 })
        }
    }
}
