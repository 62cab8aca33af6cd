import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Pricing", .bounded)
struct PricingTests {
    private let usage = Pricing(
        price: .usage(perMillionInput: 100_000, perMillionOutput: 400_000, atLeast: 1),
        maxOutputTokens: 100
    )

    @Test func `a fixed price is the price, whatever happens`() {
        let pricing = Pricing(price: .fixed(7), maxOutputTokens: 1_000)

        #expect(pricing.most(promptBytes: 0) == 7)
        #expect(pricing.guess(promptBytes: .max) == 7)
        let huge = Usage(inputTokens: .max, outputTokens: .max)
        #expect(pricing.charge(huge, promptBytes: 10, answerBytes: 10) == 7)
        #expect(pricing.charge(nil, promptBytes: 10, answerBytes: 10) == 7)
    }

    @Test func `usage is priced by the million, rounded up, at least the minimum`() {
        func charge(_ input: Int64, _ output: Int64) -> Int64 {
            usage.charge(
                Usage(inputTokens: input, outputTokens: output),
                promptBytes: 1_000,
                answerBytes: 0
            )
        }

        #expect(charge(0, 0) == 1)
        #expect(charge(10, 0) == 1)
        #expect(charge(11, 0) == 2)
        #expect(charge(10, 5) == 3)
        #expect(charge(100, 100) == 50)
    }

    @Test func `what is held covers a token a byte and the longest answer`() {
        // (1,000 + 32) × 0.1 + 100 × 0.4 = 143.2
        #expect(usage.most(promptBytes: 1_000) == 144)
    }

    @Test func `attachments are held for as what they count as at most`() {
        let pricing = Pricing(price: usage.price, maxOutputTokens: 100, attachmentTokens: 2_000)

        #expect(pricing.most(promptBytes: 1_000) == usage.most(promptBytes: 1_000))
        // (1,000 + 32 + 2 × 2,000) × 0.1 + 100 × 0.4 = 543.2
        #expect(pricing.most(promptBytes: 1_000, attachments: 2) == 544)
        // (1,000 / 4 + 2 × 2,000) × 0.1 + 50 × 0.4 = 445
        #expect(pricing.guess(promptBytes: 1_000, attachments: 2) == 445)
        let unreported = pricing.charge(nil, promptBytes: 1_000, attachments: 2, answerBytes: 0)
        // (1,000 + 32 + 2 × 2,000) × 0.1 = 503.2
        #expect(unreported == 504)
        let cut = pricing.chargeWhenCut(CallProgress(), promptBytes: 1_000, attachments: 2)
        // (1,000 / 4 + 2 × 2,000) × 0.1 = 425
        #expect(cut == 425)
    }

    @Test func `without a believable usage the text itself is counted`() {
        // (100 + 32) × 0.1 + 20 × 0.4 = 21.2
        #expect(usage.charge(nil, promptBytes: 100, answerBytes: 20) == 22)
        for lie in [
            Usage(inputTokens: -1, outputTokens: 5), Usage(inputTokens: 5, outputTokens: .min),
        ] {
            #expect(usage.charge(lie, promptBytes: 100, answerBytes: 20) == 22)
        }
    }

    @Test func `an upstream that exaggerates is paid the hold and no more`() {
        let lie = Usage(inputTokens: .max, outputTokens: .max)

        #expect(usage.charge(lie, promptBytes: 100, answerBytes: 1) == usage.most(promptBytes: 100))
    }

    @Test func `prices beyond 64 bits end at the largest amount`() {
        let dear = Pricing(
            price: .usage(perMillionInput: .max, perMillionOutput: .max),
            maxOutputTokens: .max
        )

        #expect(dear.most(promptBytes: 1 << 20) == WireLimits.amount)
        #expect(dear.charge(nil, promptBytes: 1 << 20, answerBytes: .max) == WireLimits.amount)
        #expect(dear.guess(promptBytes: .max) == WireLimits.amount)
    }

    @Test(arguments: UInt64(1)...20)
    func `no call is ever charged more than is held for it, nor less than nothing`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let extremes: [Int64] = [.min, -1, 0, 1, 1_000_000, .max / 2, .max]
        func number(_ range: ClosedRange<Int64>) -> Int64 {
            Bool.random(using: &random)
                ? extremes[.random(in: extremes.indices, using: &random)]
                : .random(in: range, using: &random)
        }

        for _ in 1...500 {
            let price: Price =
                Bool.random(using: &random)
                ? .fixed(.random(in: 0...1_000, using: &random))
                : .usage(
                    perMillionInput: max(0, number(0...10_000_000)),
                    perMillionOutput: max(0, number(0...10_000_000)),
                    atLeast: .random(in: 0...1_000, using: &random)
                )
            let maxOutputTokens = max(0, number(0...100_000))
            let pricing = Pricing(
                price: price,
                maxOutputTokens: maxOutputTokens,
                attachmentTokens: number(0...100_000)
            )
            let attachments = Int.random(in: 0...9, using: &random)
            let promptBytes = Int.random(in: 0...WireLimits.bodyBytes, using: &random)
            let reported =
                Bool.random(using: &random)
                ? Usage(inputTokens: number(0...1 << 20), outputTokens: number(0...1 << 20)) : nil
            let charge = pricing.charge(
                reported,
                promptBytes: promptBytes,
                attachments: attachments,
                answerBytes: .random(in: 0...1 << 30, using: &random)
            )
            var progress = CallProgress()
            progress.bytes = .random(in: 0...1 << 30, using: &random)
            progress.usage = reported
            let cut = pricing.chargeWhenCut(
                progress,
                promptBytes: promptBytes,
                attachments: attachments
            )
            let most = pricing.most(promptBytes: promptBytes, attachments: attachments)

            #expect(charge >= 0 && charge <= most)
            #expect(cut >= 0 && cut <= most)
            #expect(most <= WireLimits.amount)
        }
    }
}
