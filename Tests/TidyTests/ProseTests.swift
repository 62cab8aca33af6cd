import Foundation
import Testing

/// Counts turns of phrase that read as if translated, in comments, test names and guides.
///
/// A rule that applied to every line would also forbid good English. A folder may therefore have
/// ``mostHits`` hits in 1,000 lines of prose. A small folder, whose share is less than one line,
/// may have one.
@Suite("Prose", .timeLimit(.minutes(15)))
struct ProseTests {
    /// The lines of prose with a hit, in 1,000 lines of a folder.
    private static let mostHits = 3

    @Test func `the prose of each folder reads as written in English`() throws {
        let folders = Dictionary(grouping: try Repository.files()) { Self.folder(of: $0.path) }
        for (folder, files) in folders.sorted(by: { $0.key < $1.key }) {
            var lines = 0
            var hits: [String] = []
            for file in files {
                let prose = file.prose
                lines += prose.count { $0.contains { !$0.isWhitespace } }
                for line in try Self.hits(in: prose) {
                    hits.append("\(file.path):\(line): \(prose[line - 1])")
                }
            }
            #expect(
                hits.count <= max(1, lines * Self.mostHits / 1_000),
                """
                \(folder): \(hits.count) of \(lines) lines read as if translated. Start with a \
                concrete noun and its verb, one idea in a sentence.
                \(hits.joined(separator: "\n"))
                """
            )
        }
    }

    @Test func `each rule finds its broken sample`() throws {
        for rule in ProseRule.all {
            let sample = SourceFile("README.md", rule.broken)
            #expect(try sample.lines(matching: rule.pattern, in: \.text) == [1], "\(rule.name)")
            #expect(try Self.hits(in: [rule.broken]) == [1], "\(rule.name)")
        }
    }

    @Test(arguments: [
        "Returns what the server has sent, or nil.",
        "What is the base now?",
        "Whether the entry is fresh.",
        "The observer is notified, and the value is stored next to the file.",
        "The first one, and only the first one, besides those on disk.",
        "A test runs alone in its process.",
    ])
    func `plain English has no hit`(sentence: String) throws {
        #expect(try Self.hits(in: [sentence]) == [])
    }

    @Test func `only comments and the names of tests are the prose of Swift`() {
        let file = SourceFile(
            "Tests/A/A.swift",
            """
            /// A comment.
            let a = "a literal"  // Behind code.
            @Test func `a name is prose`() {}
            let b = `default`
            """
        )

        #expect(file.prose == ["A comment.", "Behind code.", "a name is prose", ""])
    }

    @Test func `code is not prose of a page`() {
        let file = SourceFile("README.md", "A line.\n```swift\na()\n```\n    b()\n- An item.")

        #expect(file.prose == ["A line.", "", "", "", "", "- An item."])
    }

    @Test(arguments: [
        ("Sources/Sanguine/Cache/Entry.swift", "Sources/Sanguine"),
        ("Documentation/Decisions/README.md", "Documentation/Decisions"),
        ("Documentation/Limits.md", "Documentation"), ("README.md", "README.md"),
    ])
    func `a folder is the first two parts of a path`(path: String, folder: String) {
        #expect(Self.folder(of: path) == folder)
    }

    /// Returns the numbers, from 1, of the lines with a hit.
    private static func hits(in prose: [String]) throws -> [Int] {
        // Several hits in one line count once.
        let text = SourceFile("prose.md", prose.joined(separator: "\n"))
        return Set(try text.lines(matching: ProseRule.anyPattern, in: \.text)).sorted()
    }

    private static func folder(of path: String) -> String {
        let folders = path.split(separator: "/").dropLast().prefix(2)
        return folders.isEmpty ? path : folders.joined(separator: "/")
    }
}
