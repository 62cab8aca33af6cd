/// Rules about the words of comments and guides.
extension Rule {
    /// Words that prose does not use, each with the words to use instead.
    static let avoidedWords = [
        "anew": "again", "beside": "next to", "hitherto": "so far", "lest": "so that … not",
        "mend": "repair", "mended": "repaired", "mending": "repairing", "mends": "repairs",
        "thereof": "of it", "wherein": "in which", "whoever": "the caller, the observer",
        "whomever": "the caller, the observer", "whosoever": "the caller, the observer",
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
            ],
            clean: [
                SourceFile("Sources/Sanguine/A.swift", "let a = b(beside: c)  // Besides.\n"),
                SourceFile("Sources/Sanguine/A.swift", "let a = \"whoever\"  // A name.\n"),
            ]
        ) { file in
            let pattern = "(?i)\\b(?:\(avoidedWords.keys.joined(separator: "|")))\\b"
            return try file.lines(matching: pattern, in: \.comments)
        }
    ]
}
