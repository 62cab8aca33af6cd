/// A Swift file split into code, string literals and comments.
///
/// Each part keeps the lines and columns (in bytes) of the whole, with spaces in all other places.
/// A rule therefore reads only its own part and reports the correct line: a word in a comment
/// breaks no rule about code, and a sample in a string literal breaks no rule.
///
/// Code keeps the quotes of literals. The letters of raw identifiers become `x`, because a test's
/// name is prose.
struct SwiftText: Hashable, Sendable {
    let code: String
    let literals: String
    let comments: String

    init(_ text: String) {
        var scanner = Scanner(text)
        scanner.scanCode(untilParenthesis: false)
        code = String(decoding: scanner.code, as: UTF8.self)
        literals = String(decoding: scanner.literals, as: UTF8.self)
        comments = String(decoding: scanner.comments, as: UTF8.self)
    }
}

extension SwiftText {
    /// One pass over the bytes, in which the parts keep the text's length and its line feeds.
    private struct Scanner {
        private enum Part {
            case code, literals, comments
        }

        /// An open string literal.
        private struct Literal {
            let hashes: Int
            let quotes: Int
        }

        private let bytes: [UInt8]
        private var position = 0
        private(set) var code: [UInt8]
        private(set) var literals: [UInt8]
        private(set) var comments: [UInt8]

        init(_ text: String) {
            bytes = Array(text.utf8)
            let blank = bytes.map { $0 == .lineFeed ? $0 : .space }
            (code, literals, comments) = (blank, blank, blank)
        }

        /// Scans code to the end, or to the parenthesis that closes an interpolation.
        mutating func scanCode(untilParenthesis: Bool) {
            var depth = 0
            while position < bytes.count {
                switch bytes[position] {
                case .slash where sees("//"): scanLineComment()
                case .slash where sees("/*"): scanBlockComment()
                case .slash, .hash, .quote:
                    if let literal = openingOfLiteral() {
                        scan(literal)
                    } else if let length = lengthOfRegex() {
                        move(length, to: .literals)
                    } else {
                        move(1, to: .code)
                    }
                case .backtick: scanRawIdentifier()
                case let byte:
                    if byte == .opening { depth += 1 }
                    if byte == .closing { depth -= 1 }
                    move(1, to: .code)
                    if untilParenthesis && depth < 0 { return }
                }
            }
        }

        private mutating func scanLineComment() {
            let end = bytes[position...].firstIndex(of: .lineFeed) ?? bytes.count
            move(end - position, to: .comments)
        }

        private mutating func scanBlockComment() {
            var depth = 0
            repeat {
                if sees("/*") {
                    depth += 1
                    move(2, to: .comments)
                } else if sees("*/") {
                    depth -= 1
                    move(2, to: .comments)
                } else {
                    move(1, to: .comments)
                }
            } while depth > 0 && position < bytes.count
        }

        private func openingOfLiteral() -> Literal? {
            var hashes = 0
            while byte(at: position + hashes) == .hash { hashes += 1 }
            guard byte(at: position + hashes) == .quote else { return nil }
            let isMultiline = sees("\"\"\"", at: position + hashes)
            return Literal(hashes: hashes, quotes: isMultiline ? 3 : 1)
        }

        private mutating func scan(_ literal: Literal) {
            let hashes = String(repeating: "#", count: literal.hashes)
            let closing = String(repeating: "\"", count: literal.quotes) + hashes
            move(closing.utf8.count, to: .code)
            while position < bytes.count {
                switch bytes[position] {
                case .quote where sees(closing):
                    move(closing.utf8.count, to: .code)
                    return
                case .lineFeed where literal.quotes == 1: return
                case .backslash where sees("\\" + hashes + "("):
                    move(literal.hashes + 2, to: .code)
                    scanCode(untilParenthesis: true)
                case .backslash where sees("\\" + hashes): move(literal.hashes + 2, to: .literals)
                default: move(1, to: .literals)
                }
            }
        }

        /// A slash starts a regex if a value may start there and another slash follows on the line.
        private func lengthOfRegex() -> Int? {
            if sees("#/") { return lengthUpTo("/#", from: position + 2) }
            guard sees("/"), let next = byte(at: position + 1), next != .space else { return nil }
            let before = bytes[..<position].last { $0 != .space }
            guard let before, "(,=:[{\n".utf8.contains(before) else { return nil }
            return lengthUpTo("/", from: position + 1)
        }

        private func lengthUpTo(_ closing: String, from start: Int) -> Int? {
            var index = start
            while let byte = byte(at: index), byte != .lineFeed {
                if sees(closing, at: index) { return index + closing.utf8.count - position }
                index += byte == .backslash ? 2 : 1
            }
            return nil
        }

        private mutating func scanRawIdentifier() {
            move(1, to: .code)
            while let byte = byte(at: position), byte != .lineFeed, byte != .backtick {
                code[position] = byte == .space ? byte : UInt8(ascii: "x")
                position += 1
            }
            if byte(at: position) == .backtick { move(1, to: .code) }
        }

        private func byte(at index: Int) -> UInt8? {
            index < bytes.count ? bytes[index] : nil
        }

        private func sees(_ text: String, at start: Int? = nil) -> Bool {
            bytes[min(start ?? position, bytes.count)...].starts(with: text.utf8)
        }

        private mutating func move(_ count: Int, to part: Part) {
            let end = min(position + count, bytes.count)
            switch part {
            case .code: code[position..<end] = bytes[position..<end]
            case .literals: literals[position..<end] = bytes[position..<end]
            case .comments: comments[position..<end] = bytes[position..<end]
            }
            position = end
        }
    }
}

extension UInt8 {
    fileprivate static let backslash = UInt8(ascii: "\\")
    fileprivate static let backtick = UInt8(ascii: "`")
    fileprivate static let closing = UInt8(ascii: ")")
    fileprivate static let hash = UInt8(ascii: "#")
    fileprivate static let lineFeed = UInt8(ascii: "\n")
    fileprivate static let opening = UInt8(ascii: "(")
    fileprivate static let quote = UInt8(ascii: "\"")
    fileprivate static let slash = UInt8(ascii: "/")
    fileprivate static let space = UInt8(ascii: " ")
}
