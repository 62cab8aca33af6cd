import Foundation
import SanguineModel
import SanguineTesting

@testable import Sanguine

/// One client, one authority, and a network between them that delays, reorders, loses and repeats,
/// all driven by one seed; and an oracle that knows the truth and computes the balance to show.
struct BalanceSimulation {
    struct Conditions {
        /// Whether every call costs the predicted amount, so that answers change nothing.
        var exactPredictions = false
        var failures = true
        var grants = true
        var restarts = true
    }

    /// The client's knowledge of a call, as the oracle tracks it.
    private enum Knowledge { case nothing, charged(Int64), noEffect, ended }

    private enum Leg: Equatable { case toServer, atServer, answered, refused, running }

    private struct Call {
        let key: String
        let predicted: Int64
        let hold: Int64
        let cost: Int64
        let fails: Bool
        var knowledge = Knowledge.nothing
        /// The position of the current request, or `nil` if none is in flight.
        var leg: Leg?
        var sendings = 0
    }

    private struct Fetch {
        let inquiry: BalanceInquiry
        var answer: Balance?
    }

    let conditions: Conditions
    private(set) var state = BalanceState()
    private(set) var ledger = SimulatedLedger(available: 1_000_000)
    private var random: SplitMix64
    private var calls: [Call] = []
    private var fetches: [Fetch] = []
    /// The total cost of finished calls that the base contains, which keeps the oracle fast.
    private var settledCost: Int64 = 0
    private(set) var made = 0
    private var now = Timestamp(millisecondsSince1970: 1_000_000)
    private(set) var lastEvent = "start"
    /// The number of calls that the last event showed never to have happened.
    private(set) var neverHappened: Int64 = 0

    init(seed: UInt64, conditions: Conditions = Conditions()) {
        random = SplitMix64(seed: seed)
        self.conditions = conditions
        state.fetched(ledger.balance(), for: state.inquiry(), at: now)
    }

    /// The balance to show now, computed from the truth and the client's knowledge.
    ///
    /// A call costs its true charge once the base contains its end; before that, the charge in its
    /// answer; before that, the prediction.
    var expected: (available: Int64, held: Int64) {
        let head = state.base?.balance.head ?? 0
        var available = ledger.withoutCalls(at: head) - settledCost
        var held: Int64 = 0
        for call in calls {
            if let operation = ledger.operations[call.key], let end = operation.end, end <= head {
                available -= operation.charge
                continue
            }
            switch call.knowledge {
            case .nothing:
                available -= call.predicted
                held += call.predicted
            case .ended: available -= call.predicted
            case .charged(let amount): available -= amount
            case .noEffect: break
            }
        }
        return (available, held)
    }

    mutating func step() {
        now = now + .milliseconds(7)
        neverHappened = 0
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<18: begin()
        case 18..<40: deliverRequest()
        case 40..<58: settle()
        case 58..<76: deliverAnswer()
        case 76..<82: timeOut()
        case 82..<88: fetch()
        case 88..<92: answerFetch()
        case 92..<96: deliverFetch()
        case 96..<99: if conditions.grants { grant() }
        default: if conditions.restarts, chance(20) { restart() }
        }
        forgetSettled()
    }

    /// Finishes all requests in flight.
    mutating func rest() {
        lastEvent = "rest"
        fetches = []
        for index in calls.indices where calls[index].leg != nil { giveUp(index) }
        for call in calls { ledger.settle(call.key) }
        var rounds = 0
        repeat {
            let inquiry = state.inquiry()
            now = now + .seconds(1)
            receive(ledger.balance(naming: inquiry.keys), for: inquiry)
            rounds += 1
        } while state.wantsFetch && rounds < 20
    }
}

// MARK: - Events

extension BalanceSimulation {
    private mutating func begin() {
        guard calls.count(where: { $0.leg != nil }) < 8 else { return }
        made += 1
        let predicted: Int64 = conditions.exactPredictions ? 2 : .random(in: 1...5, using: &random)
        let cost: Int64 = conditions.exactPredictions ? 2 : .random(in: 0...6, using: &random)
        let key = "call-\(made)"
        lastEvent = "\(key) began"
        // Each call is a separate function, so that learning changes no prediction here.
        guard state.began(key, function: key, expectedCost: predicted, at: now) else { return }
        calls.append(
            Call(
                key: key,
                predicted: predicted,
                hold: cost + .random(in: 0...4, using: &random),
                cost: cost,
                fails: conditions.failures && chance(10),
                leg: .toServer,
                sendings: 1
            )
        )
    }

    private mutating func deliverRequest() {
        guard let index = anyCall(at: .toServer) else { return }
        let call = calls[index]
        if let known = ledger.operations[call.key] {
            calls[index].leg = known.end == nil ? .running : .answered
        } else if conditions.failures, chance(15) {
            calls[index].leg = .refused
        } else {
            ledger.hold(call.key, call.hold, cost: call.cost, fails: call.fails)
            calls[index].leg = .atServer
        }
        lastEvent = "\(call.key) reached the server"
    }

    private mutating func settle() {
        let running = calls.indices.filter {
            ledger.operations[calls[$0].key].map { $0.end == nil } ?? false
        }
        guard let index = running.randomElement(using: &random) else { return }
        ledger.settle(calls[index].key)
        if calls[index].leg == .atServer { calls[index].leg = .answered }
        lastEvent = "\(calls[index].key) was settled"
    }

    private mutating func deliverAnswer() {
        let ready = calls.indices.filter {
            [.answered, .refused, .running].contains(calls[$0].leg)
        }
        guard let index = ready.randomElement(using: &random) else { return }
        let call = calls[index]
        lastEvent = "\(call.key) was answered"
        switch call.leg {
        case .running:
            calls[index].leg = .toServer  // Requested again, after Retry-After.
        case .refused:
            calls[index].leg = nil
            calls[index].knowledge = .noEffect
            state.refused(call.key)
        default:
            guard let answer = ledger.operations[call.key]?.answer else { return }
            calls[index].leg = nil
            if call.fails {
                calls[index].knowledge = .noEffect
                state.released(call.key, head: chance(70) ? answer.head : nil)
            } else {
                calls[index].knowledge = .charged(answer.charged)
                state.answered(call.key, function: call.key, answer, at: now)
            }
        }
    }

    private mutating func timeOut() {
        let waiting = calls.indices.filter { calls[$0].leg != nil }
        guard let index = waiting.randomElement(using: &random) else { return }
        if calls[index].sendings < 3, chance(70) {
            lastEvent = "\(calls[index].key) is sent again"
            calls[index].sendings += 1
            calls[index].leg = .toServer
        } else {
            giveUp(index)
        }
    }

    private mutating func giveUp(_ index: Int) {
        lastEvent = "\(calls[index].key) was abandoned"
        calls[index].leg = nil
        state.gaveUp(calls[index].key)
    }

    private mutating func fetch() {
        guard fetches.count < 3 else { return }
        lastEvent = "a fetch began"
        fetches.append(Fetch(inquiry: state.inquiry()))
    }

    private mutating func answerFetch() {
        let open = fetches.indices.filter { fetches[$0].answer == nil }
        guard let index = open.randomElement(using: &random) else { return }
        lastEvent = "a fetch read the ledger"
        fetches[index].answer = ledger.balance(naming: fetches[index].inquiry.keys)
    }

    private mutating func deliverFetch() {
        guard let index = fetches.indices.randomElement(using: &random) else { return }
        let fetch = fetches.remove(at: index)
        guard let answer = fetch.answer, chance(85) else { return }
        lastEvent = "a fetch completed"
        receive(answer, for: fetch.inquiry)
    }

    private mutating func receive(_ balance: Balance, for inquiry: BalanceInquiry) {
        for index in calls.indices where inquiry.idle.contains(calls[index].key) {
            guard case .nothing = calls[index].knowledge else { continue }
            switch balance.operations?[calls[index].key]?.phase {
            case .unknown:
                calls[index].knowledge = .noEffect
                neverHappened += 1
            case .settled: calls[index].knowledge = .ended
            default: break
            }
        }
        state.fetched(balance, for: inquiry, at: now)
    }

    private mutating func grant() {
        lastEvent = "a grant"
        ledger.grant(.random(in: 1...50, using: &random))
    }

    /// Kills the process: requests not yet received and all answers are lost; the archive remains.
    private mutating func restart() {
        lastEvent = "a restart"
        fetches = []
        for index in calls.indices { calls[index].leg = nil }
        guard let data = try? BalanceArchive(state).encoded(), let archive = BalanceArchive(data)
        else { preconditionFailure("The archive cannot be read back.") }
        state = BalanceState(restoring: archive)
    }

    /// Drops calls that can no longer change, so that a long run stays fast.
    private mutating func forgetSettled() {
        let head = state.base?.balance.head ?? 0
        calls.removeAll { call in
            guard call.leg == nil, state.call(call.key) == nil else { return false }
            if let operation = ledger.operations[call.key] {
                guard let end = operation.end, end <= head else { return false }
                settledCost += operation.charge
            }
            return true
        }
    }

    private mutating func anyCall(at leg: Leg) -> Int? {
        calls.indices.filter { calls[$0].leg == leg }.randomElement(using: &random)
    }

    private mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &random) < percent
    }
}
