import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Output measure", .bounded)
struct OutputMeasureTests {
    private static func measure(_ text: String) -> OutputMeasure {
        var measure = OutputMeasure()
        measure.add(text)
        return measure
    }

    @Test func `four bytes count as a token, rounded up`() {
        #expect(Self.measure("").estimatedTokens == 0)
        #expect(Self.measure("a").estimatedTokens == 1)
        #expect(Self.measure("abcd").estimatedTokens == 1)
        #expect(Self.measure("abcde").estimatedTokens == 2)
        #expect(Self.measure("日本").estimatedTokens == 2)
    }

    @Test func `sixteen characters are a certain token, with a run counted once`() {
        #expect(Self.measure("internationally").certainTokens == 0)
        #expect(Self.measure(" representatives").certainTokens == 1)
        #expect(Self.measure(String(repeating: "日本", count: 16)).certainTokens == 2)
        #expect(Self.measure(String(repeating: " ", count: 10_000)).certainTokens == 0)
    }

    @Test func `a token of PCM audio lasts 50 milliseconds`() {
        var measure = OutputMeasure()
        // A second of 16-bit audio at 24 kHz is 48,000 bytes, or 64,000 characters of Base64.
        for _ in 1...10 { measure.addAudio(base64Characters: 6_400) }
        #expect(measure.certainTokens == 20 && measure.estimatedTokens == 20)
    }

    @Test(arguments: UInt64(1)...50)
    func `pieces measure like the whole, and certain tokens never exceed the estimate`(seed: UInt64)
    {
        var random = SplitMix64(seed: seed)
        let letters = Array("aab  \n-日é𝄞")
        let text = String((0..<500).map { _ in letters.randomElement(using: &random) ?? "a" })
        var pieces = OutputMeasure()
        var rest = Substring(text)
        while !rest.isEmpty {
            let count = Int.random(in: 1...9, using: &random)
            pieces.add(String(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        #expect(pieces == Self.measure(text))
        #expect(pieces.certainTokens <= pieces.estimatedTokens)
    }
}
