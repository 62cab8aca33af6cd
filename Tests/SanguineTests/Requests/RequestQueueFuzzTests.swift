import Foundation
import SanguineTesting
import Testing

@testable import Sanguine

/// The line-up under events that a seed thinks of, held against a list that is searched anew each
/// time.
///
/// A failure names seed and event; the same seed replays it.
@Suite("Line-up of reads, fuzzed")
struct RequestQueueFuzzTests {
    @Test(arguments: UInt64(1)...20)
    func `lanes are never too many or idle, lines keep their order and nobody starves`(
        seed: UInt64
    ) {
        var model = RequestQueueModel(seed: seed)
        for event in 1...Fuzz.events {
            model.step()
            if let fault = model.fault {
                Issue.record("Seed \(seed), event \(event) (\(model.lastEvent)): \(fault)")
                return
            }
        }
        model.drain()
        #expect(model.fault == nil, "Seed \(seed)")
        #expect(model.state.isIdle, "Seed \(seed)")
        #expect(model.granted + model.refused + model.gaveUp == model.entered, "Seed \(seed)")
        #expect(model.refused > 0 && model.gaveUp > 0, "The seed exercises nothing.")
    }
}

enum Fuzz {
    /// Events per seed; `SANGUINE_FUZZ_EVENTS` sets more for a long run.
    static let events =
        ProcessInfo.processInfo.environment["SANGUINE_FUZZ_EVENTS"].flatMap(Int.init) ?? 2_000
}

/// What the line-up should do, written down in the plainest way.
struct RequestQueueModel {
    private struct Entry {
        let number: UInt64
        let host: String
        var priority: FetchPriority
        var isUnderWay = false
    }

    private struct Line: Hashable {
        let host: String
        let priority: FetchPriority
    }

    private(set) var state: RequestQueueState
    private(set) var fault: String?
    private(set) var lastEvent = ""
    private(set) var entered = 0
    private(set) var granted = 0
    private(set) var refused = 0
    private(set) var gaveUp = 0
    private var entries: [Entry] = []  // In the order of their numbers.
    /// Numbers that were taken by threads that have not entered yet.
    private var late: [UInt64] = []
    /// How often a line's head could have gone and one of higher priority went.
    private var passedOver: [Line: Int] = [:]
    private var random: SplitMix64
    private var lastNumber: UInt64 = 0
    private let limits: RequestQueueState.Limits

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        limits = .init(
            lanes: Int.random(in: 1...6, using: &random),
            prefetchLanes: Int.random(in: 1...3, using: &random),
            waiting: Int.random(in: 1...40, using: &random),
            patience: Int.random(in: 1...8, using: &random)
        )
        state = RequestQueueState(limits: limits)
    }

    mutating func step() {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<48: enter()
        case 48..<60: raise()
        case 60..<66: leave(isUnderWay: false)
        default: leave(isUnderWay: true)
        }
        check()
    }

    /// Lets everything end that is under way or waits.
    mutating func drain() {
        while fault == nil, entries.contains(where: \.isUnderWay) { leave(isUnderWay: true) }
        check()
    }

    private mutating func enter() {
        lastNumber += 1
        late.append(lastNumber)
        if late.count < 4, Bool.random(using: &random) { return lastEvent = "number" }
        let number = late.remove(at: Int.random(in: late.indices, using: &random))
        entered += 1
        let host = ["a", "b"].randomElement(using: &random) ?? "a"
        let priority = FetchPriority.allCases.randomElement(using: &random) ?? .normal
        lastEvent = "enter \(number) \(host) \(priority)"
        let place = entries.firstIndex { $0.number > number } ?? entries.count
        entries.insert(Entry(number: number, host: host, priority: priority), at: place)
        let effect = state.enter(number, host: host, priority: priority)
        apply(effect, host: host)
        let waiting = entries.filter { $0.host == host && !$0.isUnderWay }
        guard waiting.count > limits.waiting else {
            if effect.refused != nil { fault = "Somebody was refused although there was room." }
            return
        }
        let lowest = waiting.map(\.priority).min()
        let youngest = waiting.last { $0.priority == lowest }
        guard effect.refused == youngest?.number
        else { return fault = "The wrong one was refused." }
        refused += 1
        entries.removeAll { $0.number == effect.refused }
        forgetEmptyLines()
    }

    private mutating func raise() {
        guard let index = entries.indices.randomElement(using: &random) else { return }
        let priority = FetchPriority.allCases.randomElement(using: &random) ?? .normal
        lastEvent = "raise \(entries[index].number) to \(priority)"
        entries[index].priority = max(entries[index].priority, priority)
        forgetEmptyLines()
        let host = entries[index].host
        apply(state.raise(entries[index].number, to: priority), host: host)
    }

    private mutating func leave(isUnderWay: Bool) {
        let candidates = entries.indices.filter { entries[$0].isUnderWay == isUnderWay }
        guard let index = candidates.randomElement(using: &random) else { return }
        let entry = entries.remove(at: index)
        forgetEmptyLines()
        lastEvent = "leave \(entry.number)"
        if !isUnderWay { gaveUp += 1 }
        apply(state.leave(entry.number), host: entry.host)
    }

    private mutating func apply(_ effect: RequestQueueState.Effect, host: String) {
        for number in effect.granted {
            let able = entries.indices.filter {
                entries[$0].host == host && canGo($0) && isFirst($0)
            }
            guard let index = able.first(where: { entries[$0].number == number })
            else { return fault = "\(number) went and could not, or not yet." }
            let line = Line(host: host, priority: entries[index].priority)
            let lines = able.map { Line(host: host, priority: entries[$0].priority) }
            let patience = passedOver[line, default: 0]
            let isInTurn = lines.allSatisfy { other in
                let others = passedOver[other, default: 0]
                let isHigher = other.priority > line.priority
                if max(patience, others) < limits.patience || others == patience {
                    return !isHigher
                }
                return others < patience
            }
            guard isInTurn else { return fault = "\(number) went out of its turn." }
            for other in lines where other.priority < line.priority {
                passedOver[other, default: 0] += 1
                if passedOver[other, default: 0] > limits.patience + 1 { fault = "A line starves." }
            }
            passedOver[line] = 0
            entries[index].isUnderWay = true
            granted += 1
        }
        forgetEmptyLines()
    }

    private mutating func forgetEmptyLines() {
        passedOver = passedOver.filter { line, _ in
            entries.contains {
                !$0.isUnderWay && $0.host == line.host && $0.priority == line.priority
            }
        }
    }

    private func isFirst(_ index: Int) -> Bool {
        let entry = entries[index]
        return !entries.contains {
            !$0.isUnderWay && $0.host == entry.host && $0.priority == entry.priority
                && $0.number < entry.number
        }
    }

    private func canGo(_ index: Int) -> Bool {
        let entry = entries[index]
        guard !entry.isUnderWay else { return false }
        let underWay = entries.filter { $0.isUnderWay && $0.host == entry.host }
        guard underWay.count < limits.lanes else { return false }
        guard entry.priority == .prefetch else { return true }
        return underWay.count { $0.priority == .prefetch } < limits.prefetchLanes
    }

    private mutating func check() {
        guard fault == nil else { return }
        for host in ["a", "b"] {
            let here = entries.filter { $0.host == host }
            let underWay = here.filter(\.isUnderWay)
            if underWay.count > limits.lanes { fault = "Too many go." }
            if underWay.count(where: { $0.priority == .prefetch }) > limits.prefetchLanes {
                fault = "Too many prefetches go."
            }
            if state.underWay(to: host) != underWay.count { fault = "It miscounts its lanes." }
            if state.waiting(for: host) != here.count - underWay.count { fault = "It miscounts." }
        }
        if entries.indices.contains(where: canGo) { fault = "Somebody waits who could go." }
        if entries.contains(where: { state.priority(of: $0.number) != $0.priority }) {
            fault = "A priority is wrong."
        }
    }
}
