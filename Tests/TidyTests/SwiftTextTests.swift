import Testing

/// Most rules rely on the separation of code, literals and comments.
@Suite("Swift text", .timeLimit(.minutes(15)))
struct SwiftTextTests {
    /// Dots mark blanked bytes.
    @Test(arguments: [
        (#"let a = "b"  // c"#, #"let a = "·"  ····"#),
        (#"a("b\(c("d"))e", f)"#, #"a("·\(c("·"))·", f)"#),
        (##"a = #"b"c\(d)\#(e)"#"##, ##"a = #"·······\#(e)"#"##),
        ("a /* b /* c */ d */ e", "a ················· e"),
        ("a = \"\"\"\n\"b\" \\\" c\n\"\"\"!", "a = \"\"\"\n········\n\"\"\"!"),
        (#"a = "\\" + b // "c""#, #"a = "··" + b ······"#),
        ("func `a \"b\" // c`() { d }", "func `x xxx xx x`() { d }"),
        (#"a = /b"c/ + d / e"#, "a = ····· + d / e"),
        (##"a = #/b/"/# + "c""##, ##"a = ······· + "·""##),
        (#"#expect(a == "b")"#, ##"#expect(a == "·")"##),
        ("a = \"b\nc = d", "a = \"·\nc = d"),
        ("\"ä\" + b", "\"··\" + b"),
        ("a `b", "a `x"),
        ("a = \"\\(b", "a = \"\\(b"),
    ])
    func `code is kept, and the rest is blanked`(text: String, code: String) {
        #expect(SwiftText(text).code == code.replacing("·", with: " "))
    }

    @Test func `literals and comments are separate parts`() {
        let text = SwiftText("a(\"b // c\") // d \"e\"\n")

        #expect(text.literals == "···b // c···········\n".replacing("·", with: " "))
        #expect(text.comments == "············// d \"e\"\n".replacing("·", with: " "))
    }

    /// Generates 500 texts per seed from the bytes that matter to the scanner.
    @Test(arguments: 1...20)
    func `any text is split without loss`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let pieces = [
            "\"", "\"\"\"", "#", "/", "//", "/*", "*/", "\\", "(", ")", "`", "\n", " ", "a", "ä",
        ]
        for _ in 1...500 {
            let text = (1...30).map { _ in pieces[Int(random.next() % UInt64(pieces.count))] }
                .joined()
            let parts = SwiftText(text)
            let merged = zip(Array(parts.code.utf8), zip(parts.literals.utf8, parts.comments.utf8))
                .map { code, rest in max(code, rest.0, rest.1) }
            let isInRawIdentifier = parts.code.contains("x")

            #expect(parts.code.utf8.count == text.utf8.count)
            #expect(isInRawIdentifier || merged == Array(text.utf8), "\(text.debugDescription)")
        }
    }
}

/// A random number generator that repeats its sequence for the same seed.
private struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
