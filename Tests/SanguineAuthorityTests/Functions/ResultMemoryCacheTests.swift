import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Cached answers in memory", .bounded)
struct ResultMemoryCacheTests {
    private func row(_ number: Int, bytes: Int = 0, life: Int = 60) -> ResultRow {
        ResultRow(
            key: Array("\(number)".utf8),
            account: nil,
            function: "f",
            output: [UInt8](repeating: 0x20, count: bytes),
            madeAt: ManualClock.start,
            expiresAt: ManualClock.start + .seconds(life)
        )
    }

    private func find(
        _ number: Int,
        in tier: ResultMemoryCache,
        after seconds: Int = 0
    ) -> ResultRow? {
        tier.find(row(number).key, at: ManualClock.start + .seconds(seconds))
    }

    @Test func `an answer is found until it has expired, and is then removed`() {
        let tier = ResultMemoryCache(bytes: 10_000)
        tier.add(row(1))
        #expect(find(1, in: tier, after: 59) == row(1))
        #expect(find(1, in: tier, after: 60) == nil)
        #expect(find(1, in: tier) == nil && find(2, in: tier) == nil)
    }

    @Test func `a new answer replaces the old one`() {
        let tier = ResultMemoryCache(bytes: 10_000)
        tier.add(row(1))
        tier.add(row(1, bytes: 5))
        #expect(find(1, in: tier)?.output.count == 5)
    }

    @Test func `used answers stay, and unused ones are evicted when there is no room`() {
        let tier = ResultMemoryCache(bytes: 4 * ResultMemoryCache.overhead)
        for number in 1...4 { tier.add(row(number)) }
        #expect(find(1, in: tier) != nil && find(3, in: tier) != nil)
        tier.add(row(5))
        tier.add(row(6))
        #expect([1, 3, 5, 6].allSatisfy { find($0, in: tier) != nil })
        #expect(find(2, in: tier) == nil && find(4, in: tier) == nil)
    }

    @Test func `an answer that takes more than half of the limit is left out`() {
        let tier = ResultMemoryCache(bytes: 1_000)
        tier.add(row(1))
        tier.add(row(2, bytes: 500))
        #expect(find(1, in: tier) != nil && find(2, in: tier) == nil)
        ResultMemoryCache(bytes: 0).add(row(1))
    }

    @Test(arguments: 1...10)
    func `the tier never exceeds its limit`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let (limit, tier) = (20_000, ResultMemoryCache(bytes: 20_000))
        var most = 0
        for _ in 0..<3_000 {
            let number = Int.random(in: 0..<200, using: &random)
            if Bool.random(using: &random) {
                tier.add(row(number, bytes: .random(in: 0...3_000, using: &random)))
            } else {
                _ = find(number, in: tier, after: .random(in: 0...61, using: &random))
            }
            if number % 20 == 0 {
                let rows = (0..<200).compactMap { find($0, in: tier) }
                let bytes = rows.reduce(0) { $0 + $1.output.count + ResultMemoryCache.overhead }
                most = max(most, bytes)
            }
        }
        #expect(most > limit / 2 && most <= limit)
    }
}
