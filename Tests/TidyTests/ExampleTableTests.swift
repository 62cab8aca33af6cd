import Foundation
import Testing

/// The line counts in the tables of examples are correct.
@Suite("Example tables", .timeLimit(.minutes(15)))
struct ExampleTableTests {
    /// The maximum number of lines in a feature of an app.
    private static let mostLines = 30

    @Test func `the line counts in an example's table are those of its types`() throws {
        let files = try Repository.files()
        var counted = 0
        for page in files where page.path.hasPrefix("Examples/") && page.path.hasSuffix("README.md")
        {
            let folder = page.path.dropLast("README.md".count)
            let sources = files.filter { $0.path.hasPrefix(folder) && $0.path.hasSuffix(".swift") }
            for row in page.text.components(separatedBy: "\n") {
                guard let (names, said) = Self.claim(row) else { continue }
                let found = names.map { name in
                    sources.compactMap { Self.lines(of: name, in: $0.text) }.first ?? 0
                }
                #expect(!found.contains(0), "\(page.path) names a missing declaration: \(row)")
                let sum = found.reduce(0, +)
                #expect(sum == said, "\(page.path): \(names) have \(sum) lines.")
                counted += 1
            }
        }
        #expect(counted >= 7)
    }

    @Test
    func `a feature of the habit tracker has at most 30 lines, and the README states the range`()
        throws
    {
        let files = try Repository.files()
        let page = try #require(files.first { $0.path == "Examples/Habits/README.md" })
        let claims = page.text.components(separatedBy: "\n").compactMap { Self.claim($0)?.lines }
        let least = try #require(claims.min())
        let most = try #require(claims.max())

        #expect(most <= Self.mostLines, "Split the feature, or make it simpler.")
        let readme = try #require(files.first { $0.path == "README.md" })
        #expect(readme.text.contains("\(least) to \(most) lines a feature"))
    }

    /// Returns the types and members of a row, and the line count that the row states.
    ///
    /// A row has the form `| delete a log | ``DeleteLog`` | 12 |`. Commas separate several names.
    private static func claim(_ row: String) -> (names: [String], lines: Int)? {
        let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 3, let lines = Int(cells[2]) else { return nil }
        let names = cells[1].components(separatedBy: ", ")
        guard names.allSatisfy({ $0.hasPrefix("`") && $0.hasSuffix("`") }) else { return nil }
        return (names.map { $0.trimmingCharacters(in: CharacterSet(charactersIn: "`")) }, lines)
    }

    /// Counts the lines of code of a top-level type or of a member, without blank lines and
    /// comments.
    private static func lines(of name: String, in text: String) -> Int? {
        let parts = name.components(separatedBy: ".")
        var lines = text.components(separatedBy: "\n")[...]
        let type = lines.firstIndex { line in
            ["struct", "class", "enum", "extension"].contains { kind in
                line.contains("\(kind) \(parts[0]):") || line.contains("\(kind) \(parts[0]) {")
            }
        }
        guard let type, let end = lines[type...].firstIndex(of: "}") else { return nil }
        lines = lines[type...end]
        if parts.count == 2 {
            let member = lines.firstIndex { line in
                line.contains("func \(parts[1])(") || line.contains("var \(parts[1]):")
            }
            guard let member else { return nil }
            let isOneLine = lines[member].hasSuffix("}")
            guard let end = isOneLine ? member : lines[member...].firstIndex(of: "    }") else {
                return nil
            }
            lines = lines[member...end]
        }
        return lines.map { $0.trimmingCharacters(in: .whitespaces) }
            .count { !$0.isEmpty && !$0.hasPrefix("//") }
    }
}
