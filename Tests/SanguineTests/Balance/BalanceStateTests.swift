import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Balance state", .bounded)
struct BalanceStateTests {
    static let now = Timestamp(millisecondsSince1970: 1_700_000_000_000)

    /// A client that has just fetched 100 tokens, with its authority.
    struct Pair {
        var state = BalanceState()
        var ledger = SimulatedLedger(available: 100)

        init() { fetch() }

        var available: Int64? { state.visible?.available }
        var held: Int64? { state.visible?.held }

        mutating func begin(_ key: String, expecting cost: Int64 = 3) {
            let isTaken = state.began(
                key,
                function: key,
                expectedCost: cost,
                at: BalanceStateTests.now
            )
            #expect(isTaken)
        }

        mutating func hold(_ key: String, _ amount: Int64 = 3, fails: Bool = false) {
            ledger.hold(key, amount, cost: amount, fails: fails)
        }

        mutating func answer(_ key: String) throws {
            let answer = try #require(ledger.operations[key]?.answer)
            state.answered(key, function: key, answer, at: BalanceStateTests.now)
        }

        mutating func fetch() {
            let inquiry = state.inquiry()
            state.fetched(
                ledger.balance(naming: inquiry.keys),
                for: inquiry,
                at: BalanceStateTests.now
            )
        }
    }

    @Test func `without a balance nothing is shown, even with a call in flight`() {
        var state = BalanceState()
        let isTaken = state.began("a", function: "ask", expectedCost: 3, at: Self.now)
        #expect(isTaken)
        #expect(state.visible == nil)
    }

    @Test func `a first balance is shown even with more calls in flight than a fetch can name`() {
        var state = BalanceState()
        var ledger = SimulatedLedger(available: 1_000)
        for number in 1...250 {
            _ = state.began("\(number)", function: "ask", expectedCost: 3, at: Self.now)
            ledger.hold("\(number)", 3, cost: 3, fails: false)
        }
        #expect(state.inquiries == 3)
        for _ in 1...state.inquiries {
            #expect(state.visible == nil)
            let inquiry = state.inquiry()
            #expect(inquiry.keys.count <= WireLimits.operationsAsked)
            state.fetched(ledger.balance(naming: inquiry.keys), for: inquiry, at: Self.now)
        }
        #expect(state.visible?.available == 250)
        #expect(state.visible?.held == 750)
    }

    @Test func `a call is held when it begins and charged when it is answered`() throws {
        var pair = Pair()
        pair.begin("a")
        #expect(pair.available == 97 && pair.held == 3)
        pair.hold("a")
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 97 && pair.held == 0)
        #expect(pair.state.base?.balance.head == 2)
        #expect(pair.state.calls.isEmpty)
        #expect(!pair.state.wantsFetch)
    }

    @Test func `a first answer is also a first balance`() throws {
        var pair = Pair()
        pair.state = BalanceState()
        pair.begin("a")
        pair.hold("a")
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 97)
    }

    @Test func `two answers in the order of their charges keep each other's holds`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.begin("b")
        #expect(pair.available == 94 && pair.held == 6)
        pair.hold("a")
        pair.hold("b")
        pair.ledger.settle("a")
        pair.ledger.settle("b")
        try pair.answer("a")
        #expect(pair.available == 94 && pair.held == 3)
        #expect(
            pair.state.base?.balance.head == 0,
            "The answer may or may not contain the other hold."
        )
        try pair.answer("b")
        #expect(pair.available == 94 && pair.held == 0)
        #expect(pair.state.calls.isEmpty)
    }

    @Test func `two answers in reverse order show the same numbers`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.begin("b")
        pair.hold("a")
        pair.hold("b")
        pair.ledger.settle("a")
        pair.ledger.settle("b")
        try pair.answer("b")
        #expect(pair.available == 94 && pair.held == 3)
        try pair.answer("a")
        #expect(pair.available == 94 && pair.held == 0)
        #expect(pair.state.base?.balance.head == 4)
        #expect(pair.state.calls.isEmpty)
    }

    @Test func `a charge that differs from the prediction changes the number once, at the answer`()
        throws
    {
        var pair = Pair()
        pair.begin("a", expecting: 3)
        pair.begin("b", expecting: 3)
        pair.hold("a", 5)
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 92)
    }

    @Test func `a refetch before the server receives the call keeps its hold`() {
        var pair = Pair()
        pair.begin("a")
        pair.fetch()
        #expect(pair.available == 97 && pair.held == 3)
    }

    @Test func `a refetch that contains the hold does not count it twice`() throws {
        var pair = Pair()
        pair.begin("a", expecting: 3)
        pair.hold("a", 10)
        pair.ledger.grant(50)
        pair.fetch()
        #expect(pair.state.base?.balance.available == 140)
        #expect(pair.available == 147 && pair.held == 3)
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 140 && pair.held == 0)
    }

    @Test func `a refetch that contains the charge does not count it twice`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a")
        pair.ledger.settle("a")
        pair.fetch()
        #expect(pair.available == 97 && pair.held == 0)
        #expect(pair.state.calls.count == 1, "Its answer is still awaited.")
        try pair.answer("a")
        #expect(pair.available == 97)
        #expect(pair.state.calls.isEmpty)
    }

    @Test func `a fetch that cannot name a call waits for it`() throws {
        var pair = Pair()
        let inquiry = pair.state.inquiry()
        pair.begin("a")
        pair.hold("a")
        pair.ledger.grant(50)
        pair.state.fetched(pair.ledger.balance(), for: inquiry, at: Self.now)
        #expect(pair.available == 97, "The fetch may or may not contain the hold.")
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 147)
    }

    @Test func `a candidate stays valid when a call begins after it arrived`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.begin("b")
        pair.hold("a")
        pair.ledger.settle("a")
        try pair.answer("a")
        pair.begin("c")
        pair.state.refused("b")
        #expect(pair.state.base?.balance.available == 97)
        #expect(pair.available == 94 && pair.held == 3)
    }

    @Test func `an older balance never replaces a newer one`() {
        var pair = Pair()
        let old = pair.ledger.balance()
        pair.ledger.grant(5)
        pair.fetch()
        pair.state.fetched(old, for: pair.state.inquiry(), at: Self.now)
        #expect(pair.available == 105)
    }

    @Test func `a refusal releases exactly its own hold`() {
        var pair = Pair()
        pair.begin("a")
        pair.begin("b", expecting: 5)
        pair.state.refused("a")
        #expect(pair.available == 95 && pair.held == 5)
    }

    @Test func `a failure that the base still holds releases its tokens once`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a", fails: true)
        pair.fetch()
        #expect(pair.available == 97)
        pair.ledger.settle("a")
        pair.state.released("a", head: pair.ledger.head)
        #expect(pair.available == 100 && pair.held == 0)
        #expect(pair.state.wantsFetch)
        pair.fetch()
        #expect(pair.available == 100 && pair.state.calls.isEmpty)
    }

    @Test func `a balance that precedes a release does not show the hold again`() {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a", fails: true)
        let inquiry = pair.state.inquiry()
        let early = pair.ledger.balance(naming: inquiry.keys)
        pair.ledger.settle("a")
        pair.state.released("a", head: pair.ledger.head)
        #expect(pair.available == 100)
        pair.state.fetched(early, for: inquiry, at: Self.now)
        #expect(pair.available == 100 && pair.held == 0)
    }

    @Test func `refusing a call that the base still holds waits for a newer balance`() {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a", fails: true)
        pair.fetch()
        pair.state.refused("a")
        #expect(pair.available == 100)
        pair.ledger.settle("a")
        pair.fetch()
        #expect(pair.available == 100 && pair.state.calls.isEmpty)
    }

    @Test func `an abandoned call that never happened is removed by the next fetch`() {
        var pair = Pair()
        pair.begin("a")
        pair.state.gaveUp("a")
        #expect(pair.available == 97)
        pair.fetch()
        #expect(pair.available == 100 && pair.state.calls.isEmpty)
    }

    @Test func `an abandoned call that still runs stays until its charge`() {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a", 4)
        pair.state.gaveUp("a")
        pair.fetch()
        #expect(pair.available == 97 && pair.held == 3)
        pair.ledger.settle("a")
        pair.fetch()
        #expect(pair.available == 96 && pair.held == 0 && pair.state.calls.isEmpty)
    }

    @Test func `a call abandoned during a fetch is not considered unsent`() {
        var pair = Pair()
        pair.begin("a")
        let inquiry = pair.state.inquiry()
        let early = pair.ledger.balance(naming: inquiry.keys)
        pair.hold("a")
        pair.state.gaveUp("a")
        pair.state.fetched(early, for: inquiry, at: Self.now)
        #expect(pair.available == 97 && pair.state.calls.count == 1)
    }

    @Test func `a server that cannot report a call is believed after its hold has expired`() {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a")
        pair.ledger.settle("a")
        pair.state.gaveUp("a")
        pair.state.fetched(pair.ledger.balance(), for: pair.state.inquiry(), at: Self.now)
        #expect(pair.state.calls.count == 1)
        let later = Self.now + BalanceLimits.unansweredLifetime
        pair.state.fetched(pair.ledger.balance(), for: pair.state.inquiry(), at: later)
        #expect(pair.available == 97 && pair.state.calls.isEmpty)
    }

    @Test func `after a restart during a call the hold is still there and is reconciled`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a")
        let archive = try #require(BalanceArchive(BalanceArchive(pair.state).encoded()))
        pair.state = BalanceState(restoring: archive)
        #expect(pair.available == 97 && pair.held == 3)
        #expect(pair.state.wantsFetch)
        pair.ledger.settle("a")
        pair.fetch()
        #expect(pair.available == 97 && pair.held == 0 && pair.state.calls.isEmpty)
    }

    @Test func `an archive of another version is not read`() {
        #expect(BalanceArchive(Data(#"{"version":0}"#.utf8)) == nil)
        #expect(BalanceArchive(Data("nonsense".utf8)) == nil)
    }

    @Test func `more calls than one fetch can name are reconciled in turns`() {
        var pair = Pair()
        for number in 0..<250 {
            pair.begin("\(number)", expecting: 0)
            pair.state.gaveUp("\(number)")
        }
        var rounds = 0
        while pair.state.wantsFetch, rounds < 10 {
            #expect(pair.state.inquiry().keys.count <= WireLimits.operationsAsked)
            pair.fetch()
            rounds += 1
        }
        #expect(rounds == 3 && pair.state.calls.isEmpty)
    }

    @Test func `a call beyond the limit is refused and changes nothing`() {
        var pair = Pair()
        for number in 0..<BalanceLimits.pendingCalls { pair.begin("\(number)", expecting: 0) }
        let before = pair.state.visible
        let isTaken = pair.state.began("more", function: "ask", expectedCost: 1, at: Self.now)
        #expect(!isTaken)
        #expect(pair.state.visible == before)
    }

    @Test func `the visible number is never negative`() {
        var pair = Pair()
        pair.begin("a", expecting: 1_000)
        #expect(pair.available == 0)
        pair.state.refused("a")
        #expect(pair.available == 100)
    }

    @Test func `an answer that agrees with the shown balance is no mismatch`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a")
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 97 && pair.state.mismatches == 0)
    }

    @Test func `an answer that differs from the shown balance is one mismatch`() throws {
        var pair = Pair()
        pair.begin("a")
        pair.hold("a")
        pair.ledger.grant(1)
        pair.ledger.settle("a")
        try pair.answer("a")
        #expect(pair.available == 98 && pair.state.mismatches == 1)
    }

    @Test func `with a call always in flight a fetch is eventually requested`() throws {
        var pair = Pair()
        pair.begin("long")
        for number in 0...BalanceLimits.answeredCalls {
            pair.begin("\(number)", expecting: 1)
            pair.hold("\(number)", 1)
            pair.ledger.settle("\(number)")
            try pair.answer("\(number)")
        }
        #expect(pair.state.wantsFetch)
        pair.fetch()
        #expect(!pair.state.wantsFetch)
        #expect(pair.available == 46)
    }

    @Test func `the last ten balances are kept with their timestamps`() {
        var pair = Pair()
        for _ in 0..<20 {
            pair.ledger.grant(1)
            pair.fetch()
            pair.fetch()
        }
        #expect(pair.state.history.map(\.balance.available) == Array(111...120))
    }

    @Test func `a balance is fresh for two minutes unless it is from the future`() {
        let pair = Pair()
        #expect(pair.state.isFresh(at: Self.now + .seconds(120)))
        #expect(!pair.state.isFresh(at: Self.now + .seconds(121)))
        #expect(!pair.state.isFresh(at: Self.now - .seconds(1)))
    }

    @Test func `another account's balance and calls are forgotten, but learned costs are kept`() {
        var pair = Pair()
        let (first, second) = (Identifier(at: Self.now), Identifier(at: Self.now))
        pair.state.signedIn(first)
        #expect(pair.available == 100)
        pair.begin("a")
        pair.state.signedIn(second)
        #expect(pair.state.visible == nil && pair.state.calls.isEmpty)
        #expect(pair.state.account == second)
    }

    @Test func `with too many functions, the least recently called one is forgotten`() {
        var costs = LearnedCosts()
        for number in 0...BalanceLimits.learnedFunctions { costs.learn(1, of: "f\(number)") }
        #expect(costs.count == BalanceLimits.learnedFunctions)
        #expect(costs.expectedCost(of: "f0") == nil)
        #expect(costs.expectedCost(of: "f1") == 1)
    }
}
