import Foundation
import Testing

/// The part of the house style that a program can check, so that reviewers do not have to.
@Suite("Tidy", .timeLimit(.minutes(15)))
struct TidyTests {
    @Test(arguments: Rule.all)
    func `every file follows the rule`(rule: Rule) throws {
        let files = try Repository.files()
        try #require(files.count > 20, "The repository's files were not found.")
        for file in files {
            let lines = file.text.components(separatedBy: "\n")
            for line in try rule.brokenLines(in: file) {
                let text = lines[line - 1].trimmingCharacters(in: .whitespaces)
                Issue.record("\(rule.name): \(rule.remedy)\n\(file.path):\(line): \(text)")
            }
        }
    }

    @Test(arguments: Rule.all)
    func `the rule finds broken samples`(rule: Rule) throws {
        #expect(!rule.broken.isEmpty)
        for sample in rule.broken {
            #expect(try !rule.brokenLines(in: sample).isEmpty, "\(sample.path): \(sample.text)")
        }
    }

    @Test(arguments: Rule.all)
    func `the rule accepts clean samples`(rule: Rule) throws {
        #expect(!rule.clean.isEmpty)
        for sample in rule.clean {
            #expect(try rule.brokenLines(in: sample).isEmpty, "\(sample.path): \(sample.text)")
        }
    }

    @Test func `every rule has a unique name and a remedy`() {
        #expect(Set(Rule.all.map(\.name)).count == Rule.all.count)
        #expect(Rule.all.allSatisfy { $0.remedy.hasSuffix(".") })
    }

    @Test func `an exception applies only to its own line and rule`() throws {
        let rule = try #require(Rule.all.first { $0.name == "hidden-clock" })
        let file = SourceFile(
            "Sources/A/A.swift",
            """
            let a = Date()  // tidy: allow hidden-clock: the one place.
            let b = Date()
            let c = Date()  // tidy: allow silent-crash: another rule's.
            """
        )

        #expect(try rule.brokenLines(in: file) == [2, 3])
    }

    @Test func `a finding has the correct line`() throws {
        let rule = try #require(Rule.all.first { $0.name == "silent-crash" })
        let file = SourceFile("Sources/A/A.swift", "// ä\nlet a = \"\"\"\n  x!\n  \"\"\"\nb!\n")

        #expect(try rule.brokenLines(in: file) == [5])
    }
}
