import Foundation
import Testing

/// Documentation compiles: each Swift sample is also part of `SnippetTests`.
@Suite("Documented samples", .timeLimit(.minutes(15)))
struct DocumentedSampleTests {
    @Test func `every sample is part of a snippet that compiles`() throws {
        let files = try Repository.files()
        let folders = ["Tests/SnippetTests/", "Tests/ConsumerPackage/", "Examples/"]
        let snippets = files.filter { file in folders.contains { file.path.hasPrefix($0) } }
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

    @Test func `a sample with imports is a whole file of a package without other modules`()
        throws
    {
        let files = try Repository.files()
        let whole = files.filter { $0.path.hasPrefix("Tests/ConsumerPackage/Sources/") }
        let samples = files.filter { Self.isDocumentation($0.path) }.flatMap(DocumentedSample.all)
            .filter { $0.code.contains { $0.hasPrefix("import ") } }
        try #require(samples.count >= 3 && !whole.isEmpty)

        for sample in samples where !whole.contains(where: sample.isWhole) {
            Issue.record(
                """
                \(sample.path):\(sample.line): This sample imports, and is no whole file below \
                Tests/ConsumerPackage/Sources. Put it there.
                """
            )
        }
    }

    @Test func `the moving guide states the line counts of its samples`() throws {
        let guide = try #require(
            try Repository.files().first { $0.path.hasSuffix("Moving-Here.md") }
        )
        let samples = DocumentedSample.all(in: guide).map(\.code)
        try #require(samples.count == 2)

        // Each part of the first sample begins with its comment. The types of values come first.
        let parts = samples[0].split(omittingEmptySubsequences: false) { $0.hasPrefix("///") }
        for (number, part) in parts.enumerated().dropFirst() {
            let row = "| \(Self.lines(part)) lines |"
            #expect(guide.text.contains(row), "Part \(number) has \(Self.lines(part)) lines.")
        }
        for (title, sample) in zip(["Before", "After"], samples) {
            let lines = Self.lines(sample[...])
            #expect(guide.text.contains("## \(title): \(lines) lines"), "\(title): \(lines)")
        }
    }

    /// Counts lines of code, without blank lines and comments.
    private static func lines(_ code: ArraySlice<String>) -> Int {
        code.map { $0.trimmingCharacters(in: .whitespaces) }
            .count { !$0.isEmpty && !$0.hasPrefix("//") }
    }

    @Test(arguments: [
        ("README.md", true), ("ARCHITECTURE.md", true), ("Examples/Habits/README.md", true),
        ("Sources/Sanguine/Sanguine.docc/Offline.md", true), ("Tests/A/notes.md", false),
        ("Documentation/Command.md", true), ("Sources/Sanguine/Sanguine.swift", false),
    ])
    func `guides and articles are documentation`(path: String, isDocumentation: Bool) {
        #expect(Self.isDocumentation(path) == isDocumentation)
    }

    @Test func `only blocks of Swift are found`() {
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
    func `a sample occurs as a whole, at any indentation`(snippet: String, occurs: Bool) throws {
        let readMe = SourceFile("README.md", "```swift\na {\n    b()\n\n}\n```\n")
        let sample = try #require(DocumentedSample.all(in: readMe).first)

        #expect(sample.occurs(in: SourceFile("Tests/SnippetTests/A.swift", snippet)) == occurs)
    }

    private static func isDocumentation(_ path: String) -> Bool {
        guard path.hasSuffix(".md") else { return false }
        let folders = ["Documentation/", "Examples/"]
        return !path.contains("/") || path.contains(".docc/")
            || folders.contains { path.hasPrefix($0) }
    }
}
