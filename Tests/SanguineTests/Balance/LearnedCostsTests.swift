import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Learned costs", .bounded)
struct LearnedCostsTests {
    @Test func `the prediction is the median of the last costs`() {
        var costs = LearnedCosts()
        #expect(costs.expectedCost(of: "ask") == nil)
        #expect(
            costs.prediction(of: "ask", orElse: 4) == .init(expected: 4, meanError: nil, count: 0)
        )
        for cost in [2, 12, 3] as [Int64] { costs.learn(cost, of: "ask") }
        #expect(costs.expectedCost(of: "ask") == 3)
        costs.learn(-1, of: "ask")
        costs.learn(.max, of: "ask")
        #expect(costs.prediction(of: "ask", orElse: 4).count == 3)
    }

    @Test func `outliers do not affect the prediction`() {
        var costs = LearnedCosts()
        for number in 0..<100 { costs.learn(number % 5 == 0 ? 1_000_000 : 7, of: "ask") }
        #expect(costs.expectedCost(of: "ask") == 7)
    }

    @Test func `a price increase is predicted after half a window`() {
        var costs = LearnedCosts()
        for _ in 0..<1_000 { costs.learn(2, of: "ask") }
        for _ in 0..<(BalanceLimits.learnedCalls / 2 + 1) { costs.learn(9, of: "ask") }
        #expect(costs.expectedCost(of: "ask") == 9)
        #expect(costs.prediction(of: "ask", orElse: 0).count == BalanceLimits.learnedCalls)
    }

    @Test func `the mean error is that of the predictions made`() {
        var costs = LearnedCosts()
        costs.learn(4, of: "ask")
        #expect(costs.prediction(of: "ask", orElse: 0).meanError == nil)
        costs.learn(6, of: "ask")
        costs.learn(3, of: "ask")
        // The prediction was 4 both times.
        #expect(costs.prediction(of: "ask", orElse: 0).meanError == 1.5)
    }

    @Test func `the client reports its prediction and mean error`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        #expect(client.predictedCost(of: Ask.self) == .init(expected: 3, meanError: nil, count: 0))
        fixture.authority.serveAsk(price: 7, hold: 10)
        try await client.call(Ask(question: "one"))
        try await client.call(Ask(question: "two"))
        #expect(client.predictedCost(of: Ask.self) == .init(expected: 7, meanError: 0, count: 2))
    }
}
