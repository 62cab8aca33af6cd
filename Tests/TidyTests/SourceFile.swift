import Foundation
import Testing

/// A file of the repository, or a sample that stands for one.
struct SourceFile: Sendable, CustomTestStringConvertible {
    /// An exception that a file takes from a rule, for one line.
    struct Exception: Hashable, Sendable {
        let rule: String
        let reason: String
        let line: Int
    }

    /// The path from the root of the repository, with slashes.
    let path: String
    let text: String
    /// What is code, with literals and comments blanked; all of a file that is not Swift.
    let code: String
    /// What stands in string literals; nothing in a file that is not Swift.
    let literals: String
    /// What stands in comments; all of a file that is not Swift.
    let comments: String
    let exceptions: [Exception]

    private static let consumer = "Tests/ConsumerPackage/"

    var testDescription: String { path }

    init(_ path: String, _ text: String) {
        self.path = path
        self.text = text
        if path.hasSuffix(".swift") {
            let parts = SwiftText(text)
            (code, literals, comments) = (parts.code, parts.literals, parts.comments)
        } else {
            (code, literals, comments) = (text, "", text)
        }
        exceptions = Self.exceptions(in: comments)
    }

    private static func exceptions(in comments: String) -> [Exception] {
        comments.components(separatedBy: "\n").enumerated().compactMap { index, line in
            guard let start = line.range(of: "tidy: allow ")?.upperBound else { return nil }
            let words = line[start...].split(separator: ":", maxSplits: 1)
            guard let rule = words.first, rule.allSatisfy({ $0.isLetter || $0 == "-" }) else {
                return nil
            }
            let reason = words.count > 1 ? words[1].trimmingCharacters(in: .whitespaces) : ""
            return Exception(rule: String(rule), reason: reason, line: index + 1)
        }
    }
}

extension SourceFile {
    /// The module that the file belongs to, or `nil` if it belongs to none.
    var target: String? {
        let folders = path.split(separator: "/").dropLast()
        switch folders.first {
        case "Benchmarks": return "Benchmarks"
        case "Tests" where path.hasPrefix(Self.consumer): return nil  // A package of its own.
        case "Examples":
            let known = ImportTable.examples[folders.prefix(3).joined(separator: "/")]
            return known ?? folders.dropFirst().first.map(String.init)
        case "Sources", "Tests": return folders.dropFirst().first.map(String.init)
        default: return nil
        }
    }

    /// The numbers of the lines, from 1, on which a match of the regular expression starts.
    ///
    /// `^` and `$` match at line ends.
    func lines(
        matching pattern: String,
        in part: any KeyPath<SourceFile, String> & Sendable
    ) throws -> [Int] {
        try matches(of: pattern, in: part).map(\.line)
    }

    /// The matches of the regular expression: line, and the first group or the whole match.
    func matches(
        of pattern: String,
        in part: any KeyPath<SourceFile, String> & Sendable
    ) throws -> [(line: Int, text: String)] {
        let expression = try NSRegularExpression(pattern: pattern, options: .anchorsMatchLines)
        let text = self[keyPath: part]
        let found = expression.matches(in: text, range: NSRange(text.startIndex..., in: text))
        guard !found.isEmpty else { return [] }
        let lineFeeds = text.utf16.enumerated().filter { $0.element == 10 }.map(\.offset)
        return found.map { match in
            let group = match.numberOfRanges > 1 ? match.range(at: 1) : match.range
            let matched = Range(group, in: text).map { String(text[$0]) } ?? ""
            let line = 1 + lineFeeds.prefix { $0 < match.range.location }.count
            return (line, matched)
        }
    }

    /// Whether the line above is a comment and nothing else.
    func hasComment(above line: Int) -> Bool {
        let index = line - 2
        guard index >= 0 else { return false }
        let code = self.code.components(separatedBy: "\n")[index]
        let comment = comments.components(separatedBy: "\n")[index]
        return code.allSatisfy(\.isWhitespace) && !comment.allSatisfy(\.isWhitespace)
    }
}
