import Foundation
import HabitsApp
import HabitsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Numbers that are derived from the records.
@Suite("Progress of habits", .bounded(.seconds(60)))
struct HabitProgressTests {
    @Test(arguments: 1...4)
    func `summary, streaks, completion and insights agree with any pending operations`(
        seed: UInt64
    ) async throws {
        try await HabitsWorld.with(registering: HabitsWorld.refusingTypes) { world in
            let network = ManualConnectivity()
            let phone = try world.client { $0.connectivity = network }
            try await phone.synchronize()
            let tablet = try world.client("tablet")
            let watcher = Task { await Self.watch(phone) }
            var play = Play(phone: phone, tablet: tablet, network: network, seed: seed)

            try await play.begin()
            var seen = Checked()
            for _ in 0..<80 {
                try await play.step()
                seen.check(phone.cached(.seen))
            }
            network.connect()
            try await phone.synchronize()
            try await tablet.synchronize()

            let refused = phone.outbox.refused.count
            #expect(refused > 0, "seed \(seed)")
            #expect(phone.cached(.seen) == tablet.cached(.seen), "seed \(seed)")
            phone.close()
            tablet.close()
            let reported = try await watcher.finished()
            let contradictions = seen.contradictions + reported.contradictions
            #expect(contradictions.isEmpty, "seed \(seed)")
            if seed == 1 {
                printFigure(
                    "O4",
                    ours: """
                        \(contradictions.count) contradictions in \(seen.states + reported.states) \
                        states, with \(refused) refusals
                        """
                )
            }
        }
    }

    /// Checks every update that an observer gets.
    private static func watch(_ client: SanguineClient) async -> Checked {
        var reported = Checked()
        let updates = client.updates(of: .seen)
        for await seen in updates {  // tidy: allow unbounded-wait: it ends with the client.
            reported.check(seen)
        }
        return reported
    }
}

/// States whose numbers are counted again from the visible logs.
private struct Checked {
    private(set) var states = 0
    /// The numbers that differ.
    private(set) var contradictions: [String] = []

    private mutating func expect<Value: Equatable>(
        _ name: String,
        _ shown: Value,
        _ counted: Value
    ) {
        if shown != counted { contradictions.append("\(name): \(shown), counted \(counted)") }
    }

    mutating func check(_ seen: Seen) {
        states += 1
        let (progress, first, last) = (seen.progress, Play.days.lowerBound, Play.days.upperBound)
        var (complete, today) = (0, 0)
        var streaks: [Int] = []
        for habit in progress.habits {
            var sums: [Int: Int] = [:]
            for log in seen.logs where log.habit == habit.id {
                sums[log.day.daysSince1970, default: 0] += log.value
            }
            let isDone = (first...last).map { sums[$0, default: 0] >= habit.goal }
            complete += isDone.count { $0 }
            if isDone.last == true { today += 1 }
            let counted = isDone.last == true ? isDone : isDone.dropLast()
            streaks.append(counted.reversed().prefix { $0 }.count)
        }
        let found = progress.habits.map { progress.insights.streak(of: $0) }
        expect("streaks", found, streaks)
        expect("today", progress.completeToday, today)
        let whole = progress.habits.count * (last - first + 1)
        let share = whole == 0 ? 0 : Double(complete) / Double(whole)
        let days = CalendarDay(daysSince1970: first)...CalendarDay(daysSince1970: last)
        expect("completion", progress.completion(in: days), share)
        let longest = streaks.max() ?? 0
        let best = longest == 0 ? nil : streaks.firstIndex(of: longest)
        expect("best", progress.insights.best, best.map { progress.habits[$0] })
    }
}

/// All numbers with the logs from which they are derived, as one state.
struct Seen: Sendable, Equatable {
    let progress: HabitProgress
    let logs: [HabitLog]
}

extension RecordQuery where Value == Seen {
    static var seen: Self {
        RecordQuery(reading: Habit.collection, HabitLog.collection) { records in
            let logs: [HabitLog] = records.records()
            let today = CalendarDay(daysSince1970: Play.days.upperBound)
            return Seen(
                progress: HabitProgress(habits: records.records(), logs: logs, today: today),
                logs: logs
            )
        }
    }
}

/// Random actions of two devices of one user.
private struct Play {
    /// A week that ends today.
    static let days = 19_994...20_000

    let phone: SanguineClient
    let tablet: SanguineClient
    let network: ManualConnectivity
    private let habits = (0..<3).map { Habit(title: "\($0)", goal: $0 + 1) }
    private var random: SplitMix64
    /// The habits that were deleted at any time.
    private var deleted: Set<RecordID> = []

    init(
        phone: SanguineClient,
        tablet: SanguineClient,
        network: ManualConnectivity,
        seed: UInt64
    ) {
        (self.phone, self.tablet, self.network) = (phone, tablet, network)
        random = SplitMix64(seed: seed)
    }

    func begin() async throws {
        for habit in habits { try phone.perform(AddHabit(habit)) }
        try await phone.synchronize()
        try await tablet.synchronize()
    }

    mutating func step() async throws {
        let habit = habits[Int.random(in: 0..<3, using: &random)]
        // Mostly recent days, so that there are streaks.
        let back = min(Int.random(in: 0...6, using: &random), Int.random(in: 0...6, using: &random))
        let day = CalendarDay(daysSince1970: Self.days.upperBound - back)
        let value = Int.random(in: 1...habit.goal, using: &random)
        let log = LogHabit(habit.id, on: day, value: max(value, habit.goal - 1))
        switch Int.random(in: 0..<14, using: &random) {
        case 0...3: try perform(log, on: phone)
        case 4: try phone.perform(DeleteLog(habit.id, on: day))
        case 5:
            let other = HabitLog(id: .new(), habit: habit.id, day: day, value: value)
            try phone.perform(ImportLog(other))
        case 6: try phone.perform(ConsolidateLogs(habit.id, on: day))  // Will be refused.
        case 7, 8:
            try perform(log, on: tablet)
            try await tablet.synchronize()
        case 9:
            try tablet.perform(DeleteRecord(Habit.self, habit.id))
            deleted.insert(habit.id)
            try await tablet.synchronize()
        case 10:
            try tablet.perform(AddHabit(habit))
            try await tablet.synchronize()
        case 11: network.disconnect()
        case 12: network.connect()
        default:
            do throws(SanguineError) {
                try await phone.synchronize()
            } catch {
                #expect(error.code == "offline" && !network.isOnline.value)
            }
        }
    }

    /// Logs a value.
    ///
    /// Only a deleted habit refuses it.
    private func perform(_ log: LogHabit, on device: SanguineClient) throws {
        do throws(SanguineError) {
            try device.perform(log)
        } catch {
            #expect(error.code == "not_found" && deleted.contains { $0.text == log.lane })
        }
    }
}
