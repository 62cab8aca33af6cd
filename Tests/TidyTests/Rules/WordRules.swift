/// Rules about the words of comments and guides.
extension Rule {
    /// Words that prose does not use, each with the words to use instead.
    static let avoidedWords = [
        "anew": "again", "any more": "no longer", "are told": "are notified",
        "be told": "be notified", "beside": "next to", "bring along": "include",
        "brings along": "includes", "from now on": "later", "gives on": "passes on",
        "hitherto": "so far", "in the place of": "instead of", "is told": "is notified",
        "lest": "so that … not", "meanwhile": "in the meantime, or name the moment",
        "mend": "repair", "mended": "repaired", "mending": "repairing", "mends": "repairs",
        "of before": "earlier", "take note": "record", "takes note": "records",
        "thereof": "of it", "whatever": "any, or regardless of", "wherein": "in which",
        "whoever": "the caller, the observer", "whomever": "the caller, the observer",
        "whosoever": "the caller, the observer",
    ]

    /// Names that code does not use, each with the name to use instead.
    static let avoidedNames = [
        "dispel": "clear", "doubts": "possiblyApplied", "flight": "fetch, load, send or refresh",
        "ground": "snapshot", "landing": "completion", "mayBeDone": "outcomeUnknown",
        "rehearse": "dryRun", "stretch": "range", "told": "notified, reported",
    ]

    static let words = [
        Rule(
            "avoided-word",
            remedy: "Use plain words: "
                + avoidedWords.sorted { $0.key < $1.key }
                .map { "\($0.value) instead of \($0.key)" }.joined(separator: "; ") + ".",
            scope: .everything,
            broken: [
                SourceFile("Sources/Sanguine/A.swift", "// Stored beside the file.\n"),
                SourceFile("ARCHITECTURE.md", "Whoever asks is answered.\n"),
                SourceFile("Scripts/a.sh", "# Mends the file.\n"),
                SourceFile("Tests/A/A.swift", "@Test func `it waits meanwhile`() {}\n"),
            ],
            clean: [
                SourceFile("Sources/Sanguine/A.swift", "let a = b(beside: c)  // Besides.\n"),
                SourceFile("Sources/Sanguine/A.swift", "let a = \"whoever\"  // A name.\n"),
            ]
        ) { file in
            let pattern = "(?i)\\b(?:\(avoidedWords.keys.joined(separator: "|")))\\b"
            guard file.path.hasSuffix(".swift") else {
                return try file.lines(matching: pattern, in: \.text)
            }
            // The names of tests are prose, too.
            let prose = SourceFile("prose.md", file.prose.joined(separator: "\n"))
            return try prose.lines(matching: pattern, in: \.text)
        },
        Rule(
            "avoided-name",
            remedy: "Use the field's names: "
                + avoidedNames.sorted { $0.key < $1.key }
                .map { "\($0.value) instead of \($0.key)" }.joined(separator: "; ") + ".",
            scope: .swift,
            broken: [
                SourceFile("Sources/Sanguine/A.swift", "let landing = complete()\n"),
                SourceFile("Tests/A/A.swift", "func b(_ flight: Int) {}\n"),
            ],
            clean: [
                SourceFile("Sources/Sanguine/A.swift", "let a = \"flight\"  // In flight.\n"),
                SourceFile("Sources/Sanguine/A.swift", "var inFlight = 0\n"),
            ]
        ) { file in
            let pattern = "\\b(?:\(avoidedNames.keys.joined(separator: "|")))\\b"
            return try file.lines(matching: pattern, in: \.code)
        },
    ]
}
