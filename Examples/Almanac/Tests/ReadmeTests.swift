import Foundation
import RegexBuilder
import TestSupport
import Testing

/// The README's statements about the tests.
@Suite("README of Almanac", .bounded)
struct ReadmeTests {
    @Test func `the README names the test of each row, and the test prints its figure`() throws {
        let folder = URL(filePath: #filePath).appending(path: "../..").standardized
        let tests = folder.appending(path: "Tests").path
        let sources = try FileManager.default.contentsOfDirectory(atPath: tests)
            .filter { $0.hasSuffix(".swift") }
            .map { try String(contentsOfFile: "\(tests)/\($0)", encoding: .utf8) }
        let readme = try String(contentsOf: folder.appending(path: "README.md"), encoding: .utf8)
        let row = Regex {
            Anchor.startOfLine
            "| "
            Capture {
                "C"
                OneOrMore(.digit)
            }
            " | "
            Capture { OneOrMore(.any, .reluctant) }
            " | "
        }

        let found = readme.matches(of: row).map { (row: $0.output.1, test: $0.output.2) }

        // C5 and C6 are about threads.
        #expect(found.map(\.row) == [1, 2, 3, 4, 7, 8, 9, 10].map { "C\($0)" })
        for (row, test) in found {
            let source = try #require(sources.first { $0.contains("func `\(test)`(") }, "\(test)")
            let after = source.components(separatedBy: "func `\(test)`(")[1]
            let body = after.components(separatedBy: "@Test")[0]
            let prints = Regex {
                "printFigure("
                ZeroOrMore(.whitespace)
                "\"\(row)\""
            }
            #expect(body.contains(prints), "\(row)")
        }
    }
}
