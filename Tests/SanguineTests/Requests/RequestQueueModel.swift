import SanguineTesting

@testable import Sanguine

/// The specification of the request queue in its simplest form, played at random from a seed.
///
/// There are few hosts, slots and lines, so that all of them are checked after every event.
struct RequestQueueModel {
    /// The expected state of a host.
    private struct Host {
        let name: String
        /// The requests in flight.
        var underWay: [(number: UInt64, priority: FetchPriority)] = []
        /// The waiting requests by priority, oldest first.
        var lines: [[UInt64]] = [[], [], []]
        /// The number of times that a line's head could have started and a higher priority started.
        var passedOver = [0, 0, 0]

        var waiting: Int { lines[0].count + lines[1].count + lines[2].count }
        var count: Int { underWay.count + waiting }
        var prefetches: Int {
            var count = 0
            for request in underWay where request.priority == .prefetch { count += 1 }
            return count
        }

        func canGo(_ line: Int, _ limits: RequestQueueState.Limits) -> Bool {
            guard !lines[line].isEmpty, underWay.count < limits.slots else { return false }
            return line != FetchPriority.prefetch.rawValue || prefetches < limits.prefetchSlots
        }

        mutating func add(_ number: UInt64, to line: Int) {
            var place = lines[line].count
            while place > 0, lines[line][place - 1] > number { place -= 1 }
            lines[line].insert(number, at: place)
        }

        mutating func take(_ place: Int, from line: Int) -> UInt64 {
            let number = lines[line].remove(at: place)
            if lines[line].isEmpty { passedOver[line] = 0 }
            return number
        }
    }

    private(set) var state: RequestQueueState
    private(set) var fault: String?
    private(set) var lastEvent = ""
    private(set) var entered = 0
    private(set) var granted = 0
    private(set) var refused = 0
    private(set) var gaveUp = 0
    private var hosts = [Host(name: "a"), Host(name: "b")]
    /// Numbers assigned to threads that have not entered yet.
    private var late: [UInt64] = []
    private var random: SplitMix64
    private var lastNumber: UInt64 = 0
    private let limits: RequestQueueState.Limits

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        limits = .init(
            slots: Int.random(in: 1...4, using: &random),
            prefetchSlots: Int.random(in: 1...3, using: &random),
            waiting: Int.random(in: 1...8, using: &random),
            patience: Int.random(in: 1...4, using: &random)
        )
        state = RequestQueueState(limits: limits)
    }

    mutating func step() {
        let host = chance(hosts.count)
        switch chance(100) {
        case 0..<46: enter(host)
        case 46..<60: raise(host)
        case 60..<68: giveUp(host)
        default: end(host)
        }
        check(host)
    }

    /// Finishes all requests in flight or waiting.
    mutating func drain() {
        for host in hosts.indices {
            while fault == nil, !hosts[host].underWay.isEmpty {
                end(host)
                check(host)
            }
        }
    }

    // A generator's own `random(in:using:)` is not specialized without optimization.
    private mutating func chance(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }

    private mutating func priority() -> FetchPriority {
        FetchPriority(rawValue: chance(3)) ?? .normal
    }

    // MARK: - Events

    private mutating func enter(_ host: Int) {
        lastNumber += 1
        late.append(lastNumber)
        if late.count < 4, chance(2) == 0 { return lastEvent = "number" }
        let number = late.remove(at: chance(late.count))
        entered += 1
        let priority = priority()
        lastEvent = "enter \(number)"
        hosts[host].add(number, to: priority.rawValue)
        let actions = state.enter(number, host: hosts[host].name, priority: priority)
        apply(actions, host)
        if fault == nil, actions.refused == nil, state.priority(of: number) != priority {
            fault = "A priority is wrong."
        }
        guard hosts[host].waiting > limits.waiting else {
            if actions.refused != nil { fault = "A request was refused although there was space." }
            return
        }
        var lowest = 0
        while hosts[host].lines[lowest].isEmpty { lowest += 1 }
        let youngest = hosts[host].take(hosts[host].lines[lowest].count - 1, from: lowest)
        if actions.refused != youngest { fault = "The wrong request was refused." }
        if state.priority(of: youngest) != nil { fault = "A refused request is remembered." }
        refused += 1
    }

    private mutating func raise(_ host: Int) {
        guard hosts[host].count > 0 else { return }
        let to = priority()
        var place = chance(hosts[host].count)
        let number: UInt64
        let from: FetchPriority
        if place < hosts[host].underWay.count {
            (number, from) = hosts[host].underWay[place]
            hosts[host].underWay[place].priority = max(from, to)
        } else {
            place -= hosts[host].underWay.count
            var line = 0
            while place >= hosts[host].lines[line].count {
                place -= hosts[host].lines[line].count
                line += 1
            }
            from = FetchPriority(rawValue: line) ?? .normal
            number = hosts[host].lines[line][place]
            if to > from { hosts[host].add(hosts[host].take(place, from: line), to: to.rawValue) }
        }
        lastEvent = "raise \(number)"
        apply(state.raise(number, to: to), host)
        if state.priority(of: number) != max(from, to) { fault = "A priority is wrong." }
    }

    private mutating func giveUp(_ host: Int) {
        guard hosts[host].waiting > 0 else { return }
        var line = chance(3)
        while hosts[host].lines[line].isEmpty { line = (line + 1) % 3 }
        let number = hosts[host].take(chance(hosts[host].lines[line].count), from: line)
        lastEvent = "give up \(number)"
        gaveUp += 1
        apply(state.leave(number), host)
        if state.priority(of: number) != nil { fault = "A cancelled request is remembered." }
    }

    private mutating func end(_ host: Int) {
        guard !hosts[host].underWay.isEmpty else { return }
        let number = hosts[host].underWay.remove(at: chance(hosts[host].underWay.count)).number
        lastEvent = "end \(number)"
        apply(state.leave(number), host)
        if state.priority(of: number) != nil { fault = "A finished request is remembered." }
    }

    // MARK: - Effects and checks

    private mutating func apply(_ actions: RequestQueueState.Actions, _ host: Int) {
        for number in actions.granted {
            guard let line = (0..<3).first(where: { hosts[host].lines[$0].first == number }),
                hosts[host].canGo(line, limits)
            else { return fault = "\(number) started although it may not yet." }
            var isInTurn = true
            for other in 0..<3 where other != line && hosts[host].canGo(other, limits) {
                isInTurn = isInTurn && precedes(line, other, host)
            }
            guard isInTurn else { return fault = "\(number) started out of turn." }
            for lower in 0..<line where hosts[host].canGo(lower, limits) {
                hosts[host].passedOver[lower] += 1
                if hosts[host].passedOver[lower] > limits.patience + 1 { fault = "A line starves." }
            }
            hosts[host].passedOver[line] = 0
            let priority = FetchPriority(rawValue: line) ?? .normal
            hosts[host].underWay.append((hosts[host].take(0, from: line), priority))
            granted += 1
        }
    }

    /// Whether the line gets the next slot rather than the other line.
    private func precedes(_ line: Int, _ other: Int, _ host: Int) -> Bool {
        let own = hosts[host].passedOver[line]
        let others = hosts[host].passedOver[other]
        // If neither line has reached the limit, or both were passed over equally often, the higher
        // one goes first.
        if max(own, others) < limits.patience || own == others { return line > other }
        return own > others
    }

    private mutating func check(_ host: Int) {
        guard fault == nil else { return }
        let own = hosts[host]
        if own.underWay.count > limits.slots { fault = "Too many requests run." }
        if own.prefetches > limits.prefetchSlots { fault = "Too many prefetches run." }
        if state.underWay(to: own.name) != own.underWay.count { fault = "It miscounts its slots." }
        for line in 0..<3 {
            if own.canGo(line, limits) { fault = "A request waits that could start." }
            let priority = FetchPriority(rawValue: line) ?? .normal
            if state.waiting(for: own.name, of: priority) != own.lines[line].count {
                fault = "It miscounts a line."
            }
        }
    }
}
