import Foundation
import Testing

/// A file of the repository, or a sample of one.
struct SourceFile: Sendable, CustomTestStringConvertible {
    /// An exception from a rule, for one line.
    struct Exception: Hashable, Sendable {
        let rule: String
        let reason: String
        let line: Int
    }

    /// The path from the root of the repository, with slashes.
    let path: String
    let text: String
    /// The code, with literals and comments blanked, or the whole text of a file that is not Swift.
    let code: String
    /// The content of string literals, which is empty for a file that is not Swift.
    let literals: String
    /// The comments, or the whole text of a file that is not Swift.
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
    /// The module of the file, or `nil` without one.
    var target: String? {
        let folders = path.split(separator: "/").dropLast()
        switch folders.first {
        case "Benchmarks": return "Benchmarks"
        case "Tests" where path.hasPrefix(Self.consumer): return nil  // A separate package.
        case "Examples":
            let known = ImportTable.examples[folders.prefix(3).joined(separator: "/")]
            return known ?? folders.dropFirst().first.map(String.init)
        case "Sources", "Tests": return folders.dropFirst().first.map(String.init)
        default: return nil
        }
    }

    /// Returns the numbers, from 1, of the lines on which a match of the regular expression starts.
    ///
    /// `^` and `$` match at line ends.
    func lines(
        matching pattern: String,
        in part: any KeyPath<SourceFile, String> & Sendable
    ) throws -> [Int] {
        try matches(of: pattern, in: part).map(\.line)
    }

    /// Returns the matches of the regular expression: the line, and the first group or the whole
    /// match.
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

    /// Whether the line above contains only a comment.
    func hasComment(above line: Int) -> Bool {
        let index = line - 2
        guard index >= 0 else { return false }
        let code = self.code.components(separatedBy: "\n")[index]
        let comment = comments.components(separatedBy: "\n")[index]
        return code.allSatisfy(\.isWhitespace) && !comment.allSatisfy(\.isWhitespace)
    }
}
