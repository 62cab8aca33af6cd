import Foundation
import RegexBuilder
package import Testing

/// The table of requirements in an example's README.
package enum ReadmeTable {
    /// Expects a row for each number, whose test exists and prints the row's figure.
    ///
    /// - Parameters:
    ///   - letter: The letter before the number of a row, as in "T1".
    ///   - count: The number of rows.
    ///   - missing: The numbers whose requirements the example does not have.
    ///   - test: A file in the folder of the example's tests.
    ///   - location: The place of the failures.
    /// - Throws: An error of the file system, or for a row without a test.
    package static func check(
        _ letter: String,
        _ count: Int,
        without missing: Set<Int> = [],
        test: StaticString = #filePath,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let tests = URL(filePath: "\(test)").deletingLastPathComponent()
        let sources = try FileManager.default.contentsOfDirectory(atPath: tests.path)
            .filter { $0.hasSuffix(".swift") }
            .map { try String(contentsOf: tests.appending(path: $0), encoding: .utf8) }
        let page = tests.deletingLastPathComponent().appending(path: "README.md")
        let found = rows(of: letter, in: try String(contentsOf: page, encoding: .utf8))
        let numbers = (1...count).filter { !missing.contains($0) }
        #expect(
            found.map(\.row) == numbers.map { "\(letter)\($0)" },
            sourceLocation: location
        )
        for (row, test) in found {
            let head = "func `\(test)`("
            let source = try #require(
                sources.first { $0.contains(head) },
                "\(test)",
                sourceLocation: location
            )
            let body = source.components(separatedBy: head)[1].components(separatedBy: "@Test")[0]
            let prints = Regex {
                "printFigure("
                ZeroOrMore(.whitespace)
                "\"\(row)\""
            }
            #expect(body.contains(prints), "\(row)", sourceLocation: location)
        }
    }

    private static func rows(
        of letter: String,
        in page: String
    ) -> [(row: Substring, test: Substring)] {
        let row = Regex {
            Anchor.startOfLine
            "| "
            Capture {
                letter
                OneOrMore(.digit)
            }
            " | "
            Capture { OneOrMore(.any, .reluctant) }
            " | "
        }
        return page.matches(of: row).map { ($0.output.1, $0.output.2) }
    }
}
