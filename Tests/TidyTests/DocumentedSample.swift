import Foundation
import Testing

/// A fenced block of Swift in a Markdown file.
struct DocumentedSample: Sendable, CustomTestStringConvertible {
    let path: String
    /// The line of the opening fence, from 1.
    let line: Int
    /// The block without its fences and its common indentation.
    let code: [String]

    var testDescription: String { "\(path):\(line)" }

    /// Returns the blocks of a file that are marked ```` ```swift ````, in order.
    static func all(in file: SourceFile) -> [DocumentedSample] {
        var samples: [DocumentedSample] = []
        var opening: (line: Int, fence: Substring, isSwift: Bool)?
        var code: [String] = []
        for (index, line) in file.text.components(separatedBy: "\n").enumerated() {
            let trimmed = line.drop { $0 == " " }
            let fence = trimmed.prefix { $0 == "`" }
            if let start = opening {
                guard fence.count >= start.fence.count, fence.count == trimmed.count else {
                    code.append(line)
                    continue
                }
                if start.isSwift {
                    samples.append(Self(path: file.path, line: start.line, code: code.unindented))
                }
                opening = nil
            } else if fence.count >= 3 {
                let language = trimmed.dropFirst(fence.count).prefix { $0.isLetter }
                opening = (index + 1, fence, language.lowercased() == "swift")
                code = []
            }
        }
        return samples
    }

    /// Whether the block is the whole file.
    func isWhole(_ file: SourceFile) -> Bool { code.joined(separator: "\n") + "\n" == file.text }

    /// Whether the block occurs in the file, line by line, at one indentation.
    func occurs(in file: SourceFile) -> Bool {
        let lines = file.text.components(separatedBy: "\n")
        guard !code.isEmpty, lines.count >= code.count else { return false }
        return (0...(lines.count - code.count)).contains { start in
            Array(lines[start..<(start + code.count)]).unindented == code
        }
    }
}

extension [String] {
    /// The lines without their common indentation, which blank lines do not limit.
    fileprivate var unindented: [String] {
        let indentation = filter { !$0.allSatisfy(\.isWhitespace) }
            .map { $0.prefix { $0 == " " }.count }
            .min()
        return map { String($0.dropFirst(indentation ?? 0)) }
    }
}
