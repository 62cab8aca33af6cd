import Testing

/// Documentation compiles: each sample in Swift stands in `SnippetTests` too.
@Suite("Documented samples", .timeLimit(.minutes(15)))
struct DocumentedSampleTests {
    @Test func `every sample is a part of a snippet that compiles`() throws {
        let files = try Repository.files()
        let snippets = files.filter { $0.path.hasPrefix("Tests/SnippetTests/") }
        let samples = files.filter { Self.isDocumentation($0.path) }.flatMap(DocumentedSample.all)
        try #require(!snippets.isEmpty && !samples.isEmpty)

        for sample in samples where !snippets.contains(where: sample.occurs) {
            Issue.record(
                """
                \(sample.path):\(sample.line): This sample is in no file of Tests/SnippetTests. \
                Put it there, where it must compile, and quote it line by line.
                """
            )
        }
    }

    @Test(arguments: [
        ("README.md", true), ("ARCHITECTURE.md", true), ("Examples/Habits/README.md", true),
        ("Sources/Sanguine/Sanguine.docc/Offline.md", true), ("Tests/A/notes.md", false),
        ("Sources/Sanguine/Sanguine.swift", false),
    ])
    func `guides and articles are documentation`(path: String, isDocumentation: Bool) {
        #expect(Self.isDocumentation(path) == isDocumentation)
    }

    @Test func `blocks of Swift are found, and no others`() {
        let file = SourceFile(
            "README.md",
            """
            ```swift
            a()
            ```
            ```sh
            make
            ```
            1. Then:
               ```swift
               if b {
                   c()

               }
               ```
            ````text
            ```swift
            no()
            ```
            ````
            """
        )
        let samples = DocumentedSample.all(in: file)

        #expect(samples.map(\.line) == [1, 8])
        #expect(samples.map(\.code) == [["a()"], ["if b {", "    c()", "", "}"]])
    }

    @Test(arguments: [
        ("func x() {\n        a {\n            b()\n\n        }\n}", true),
        ("a {\n    b()\n\n}", true),
        ("a {\n    b()\n}", false),
        ("a {\n    b(1)\n\n}", false),
        ("a {\n  b()\n\n}", false),
        ("a {", false),
    ])
    func `a sample occurs whole, at any indentation`(snippet: String, occurs: Bool) throws {
        let readMe = SourceFile("README.md", "```swift\na {\n    b()\n\n}\n```\n")
        let sample = try #require(DocumentedSample.all(in: readMe).first)

        #expect(sample.occurs(in: SourceFile("Tests/SnippetTests/A.swift", snippet)) == occurs)
    }

    private static func isDocumentation(_ path: String) -> Bool {
        guard path.hasSuffix(".md") else { return false }
        return !path.contains("/") || path.hasPrefix("Examples/") || path.contains(".docc/")
    }
}
