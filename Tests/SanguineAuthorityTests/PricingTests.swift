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

    /// Creates progress with this many bytes of output and a reported usage.
    private static func made(bytes: Int, _ reported: Usage? = nil) -> RunProgress {
        var output = OutputMeasure()
        output.add(words(bytes))
        return made(output, reported)
    }

    private static func made(_ output: OutputMeasure, _ reported: Usage? = nil) -> RunProgress {
        var progress = RunProgress()
        progress.make(output)
        if let reported { progress.report(reported) }
        return progress
    }

    private static func words(_ bytes: Int) -> String {
        String(String(repeating: "word ", count: bytes / 5 + 1).prefix(bytes))
    }

    @Test func `a fixed price applies to every call`() {
        let pricing = Pricing(price: .fixed(7), maxOutputTokens: 1_000)

        #expect(pricing.most(promptBytes: 0) == 7)
        #expect(pricing.guess(promptBytes: .max) == 7)
        let huge = Usage(inputTokens: .max, outputTokens: .max)
        #expect(pricing.charge(Self.made(bytes: 10, huge), promptBytes: 10) == 7)
        #expect(pricing.charge(Self.made(bytes: 10), promptBytes: 10) == 7)
    }

    @Test func `usage is priced per million, rounded up, with a minimum`() {
        func charge(_ input: Int64, _ output: Int64) -> Int64 {
            let reported = Usage(inputTokens: input, outputTokens: output)
            return usage.charge(Self.made(bytes: 0, reported), promptBytes: 60)
        }

        #expect(charge(0, 0) == 1)
        #expect(charge(10, 0) == 1)
        #expect(charge(11, 0) == 2)
        #expect(charge(10, 5) == 3)
        #expect(charge(20, 100) == 42)
    }

    @Test func `cached and reasoning tokens have their own rates`() {
        let pricing = Pricing(
            price: .usage(
                perMillionInput: 100_000,
                perMillionOutput: 400_000,
                perMillionCachedInput: 10_000,
                perMillionReasoning: 800_000
            ),
            maxOutputTokens: 100
        )
        let reported = Usage(
            inputTokens: 1_000,
            outputTokens: 60,
            cachedInputTokens: 900,
            reasoningTokens: 50
        )
        // 100 × 0.1 + 900 × 0.01 + 10 × 0.4 + 50 × 0.8 = 63
        #expect(pricing.charge(Self.made(bytes: 40, reported), promptBytes: 4_000) == 63)
        // (4,000 + 32) × 0.1 + 100 × 0.8 = 483.2
        #expect(pricing.most(promptBytes: 4_000) == 484)
    }

    @Test func `visible reasoning that is not reported is priced as reasoning`() {
        let pricing = Pricing(
            price: .usage(
                perMillionInput: 0,
                perMillionOutput: 1_000_000,
                perMillionReasoning: 0,
                atLeast: 0
            ),
            maxOutputTokens: 1_000
        )
        var output = OutputMeasure()
        output.add(Self.words(400), as: .reasoning)
        output.add(Self.words(40))
        #expect(pricing.charge(Self.made(output), promptBytes: 0) == 10)
        let reported = Usage(inputTokens: 0, outputTokens: 120)
        #expect(pricing.charge(Self.made(output, reported), promptBytes: 0) == 20)
    }

    @Test func `a hold covers a token per byte and the longest answer`() {
        // (1,000 + 32) × 0.1 + 100 × 0.4 = 143.2
        #expect(usage.most(promptBytes: 1_000) == 144)
    }

    @Test func `a hold covers the largest token count of the attachments`() {
        let pricing = Pricing(price: usage.price, maxOutputTokens: 100, attachmentTokens: 2_000)

        #expect(pricing.most(promptBytes: 1_000) == usage.most(promptBytes: 1_000))
        // (1,000 + 32 + 2 × 2,000) × 0.1 + 100 × 0.4 = 543.2
        #expect(pricing.most(promptBytes: 1_000, attachments: 2) == 544)
        // (1,000 / 4 + 2 × 2,000) × 0.1 + 50 × 0.4 = 445
        #expect(pricing.guess(promptBytes: 1_000, attachments: 2) == 445)
        // (1,000 / 4 + 2 × 2,000) × 0.1 = 425
        #expect(pricing.charge(RunProgress(), promptBytes: 1_000, attachments: 2) == 425)
    }

    @Test func `without a plausible report, four bytes count as a token`() {
        // 400 / 4 × 0.1 + 200 / 4 × 0.4 = 30
        #expect(usage.charge(Self.made(bytes: 200), promptBytes: 400) == 30)
        for lie in [
            Usage(inputTokens: -1, outputTokens: 5), Usage(inputTokens: 5, outputTokens: .min),
            Usage(inputTokens: 0, outputTokens: 0),
        ] {
            #expect(usage.charge(Self.made(bytes: 200, lie), promptBytes: 400) == 30)
        }
    }

    @Test func `a plausible report is used`() {
        let small = Usage(inputTokens: 10, outputTokens: 20)
        // 10 × 0.1 + 20 × 0.4 = 9
        #expect(usage.charge(Self.made(bytes: 200, small), promptBytes: 400) == 9)
    }

    @Test func `output after the last report is estimated and added`() {
        var output = OutputMeasure()
        output.add(Self.words(40))
        var progress = Self.made(output, Usage(inputTokens: 100, outputTokens: 10))
        output.add(Self.words(80))
        progress.make(output)
        // 100 × 0.1 + (10 + 20) × 0.4 = 22
        #expect(usage.charge(progress, promptBytes: 400) == 22)
    }

    @Test func `the largest of several reported counts is used`() {
        var progress = Self.made(bytes: 40, Usage(inputTokens: 100, outputTokens: 0))
        progress.report(Usage(inputTokens: 0, outputTokens: 10))
        // 100 × 0.1 + 10 × 0.4 = 14
        #expect(usage.charge(progress, promptBytes: 400) == 14)
    }

    @Test func `an exaggerated report is charged at most the hold`() {
        let lie = Usage(inputTokens: .max, outputTokens: .max)
        let charge = usage.charge(Self.made(bytes: 1, lie), promptBytes: 100)

        #expect(charge == usage.most(promptBytes: 100))
    }

    @Test func `prices beyond 64 bits are clamped to the largest amount`() {
        let dear = Pricing(
            price: .usage(perMillionInput: .max, perMillionOutput: .max),
            maxOutputTokens: .max
        )

        #expect(dear.most(promptBytes: 1 << 20) == WireLimits.amount)
        #expect(dear.charge(Self.made(bytes: 1 << 20), promptBytes: 1 << 20) == WireLimits.amount)
        #expect(dear.guess(promptBytes: .max) == WireLimits.amount)
    }

    @Test(arguments: UInt64(1)...20)
    func `a charge is never above the hold and never negative`(seed: UInt64) {
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
                    perMillionCachedInput: max(0, number(0...10_000_000)),
                    perMillionReasoning: max(0, number(0...10_000_000)),
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
                ? Usage(
                    inputTokens: number(0...1 << 20),
                    outputTokens: number(0...1 << 20),
                    cachedInputTokens: number(0...1 << 20),
                    reasoningTokens: number(0...1 << 20)
                ) : nil
            var progress = RunProgress()
            progress.add(bytes: .random(in: 0...1 << 30, using: &random))
            if let reported { progress.report(reported) }
            progress.add(bytes: .random(in: 0...1 << 30, using: &random))
            let charge = pricing.charge(
                progress,
                promptBytes: promptBytes,
                attachments: attachments
            )
            let most = pricing.most(promptBytes: promptBytes, attachments: attachments)

            #expect(charge >= 0 && charge <= most)
            #expect(most <= WireLimits.amount)
        }
    }
}
