/// Rules about the words of comments and guides.
extension Rule {
    /// Words that prose does not use, each with the words to use instead.
    static let avoidedWords = [
        "anew": "again", "beside": "next to", "hitherto": "so far", "lest": "so that … not",
        "mend": "repair", "mended": "repaired", "whoever": "the caller, the observer",
        "whomever": "the caller, the observer",
    ]

    /// The folders and files that the rule holds for; add one when its prose is done.
    private static let wordFolders = [
        "ARCHITECTURE.md", "Documentation/Decisions/", "Sources/Sanguine/",
        "Sources/SanguineModel/",
        "Sources/SanguineSQLite/", "Sources/SanguineTesting/", "Sources/SanguineUI/",
        "Tests/SanguineModelTests/", "Tests/SanguineSQLiteTests/", "Tests/SanguineTests/",
        "Tests/SanguineUITests/", "Tests/Simulation/", "Tests/SimulationTests/",
        "Tests/StorageContractTests/", "Tests/TestSupport/",
    ]

    static let words = [
        Rule(
            "avoided-word",
            remedy: "Use plain words: "
                + avoidedWords.sorted { $0.key < $1.key }
                .map { "\($0.value) instead of \($0.key)" }.joined(separator: "; ") + ".",
            scope: Scope { path in wordFolders.contains { path.hasPrefix($0) } },
            broken: [
                SourceFile("Sources/Sanguine/A.swift", "// Stored beside the file.\n"),
                SourceFile("ARCHITECTURE.md", "Whoever asks is answered.\n"),
            ],
            clean: [
                SourceFile("Sources/Sanguine/A.swift", "let a = b(beside: c)  // Besides.\n"),
                SourceFile("Sources/Unlisted/A.swift", "// Begins anew.\n"),
            ]
        ) { file in
            let pattern = "(?i)\\b(?:\(avoidedWords.keys.joined(separator: "|")))\\b"
            let isSwift = file.path.hasSuffix(".swift")
            return try file.lines(matching: pattern, in: isSwift ? \.comments : \.text)
        }
    ]
}
