import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Repeated calls", .bounded)
struct RepeatGuardTests {
    private let repeats = RepeatGuard()
    private let account = Identifier.numbered(1)

    private func count(
        _ input: JSONValue = ["a": 1],
        _ account: Identifier? = nil,
        function: String = "f",
        limit: Int? = 2,
        after seconds: Int = 0
    ) -> Problem? {
        refusal { () throws(Problem) in
            try repeats.count(
                function,
                account ?? self.account,
                input,
                limit: limit,
                at: .seconds(seconds)
            )
        }
    }

    @Test func `the same call is refused beyond its limit until the minute is over`() {
        #expect(count() == nil && count(after: 30) == nil)
        let problem = count(after: 40)
        #expect(problem?.code == .rateLimited && problem?.retryAfter == 20)
        #expect(count(after: 59)?.retryAfter == 1)
        #expect(count(after: 60) == nil)
    }

    @Test func `another input, function or account makes a different call`() {
        #expect(count() == nil && count() == nil && count() != nil)
        #expect(count(["a": 2]) == nil)
        #expect(count(.numbered(2)) == nil)
        #expect(count(function: "g") == nil)
        #expect(count(limit: nil) == nil)
    }

    @Test func `a call that was not made is uncounted`() throws {
        let receipt = try #require(try repeats.count("f", account, 1, limit: 1, at: .zero))
        #expect(count(1, limit: 1) != nil)
        repeats.uncount(receipt)
        #expect(count(1, limit: 1) == nil)
        #expect(count(1, limit: 1, after: 60) == nil)
        // A receipt of an earlier minute does not change a later one.
        repeats.uncount(receipt)
        #expect(count(1, limit: 1, after: 60) != nil)
    }
}

extension RepeatGuardTests {
    private func count(_ account: Identifier) -> Problem? { count(["a": 1], account) }
}
