import Foundation
import Testing

/// The tables of examples say how many lines a feature takes: these are counted.
@Suite("Tables of examples", .timeLimit(.minutes(15)))
struct ExampleTableTests {
    @Test func `the lines that an example's table gives are those of its types`() throws {
        let files = try Repository.files()
        var counted = 0
        for page in files where page.path.hasPrefix("Examples/") && page.path.hasSuffix("README.md")
        {
            let folder = page.path.dropLast("README.md".count)
            let sources = files.filter { $0.path.hasPrefix(folder) && $0.path.hasSuffix(".swift") }
            for row in page.text.components(separatedBy: "\n") {
                guard let (type, said) = Self.claim(row) else { continue }
                let found = sources.compactMap { Self.lines(of: type, in: $0.text) }.first
                #expect(found == said, "\(page.path): \(type) has \(found ?? 0) lines.")
                counted += 1
            }
        }
        #expect(counted >= 5)
    }

    /// The type and its lines in a row such as `| deletes | ``DeleteLog`` | 12 |`.
    private static func claim(_ row: String) -> (type: String, lines: Int)? {
        let cells = row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 3, let lines = Int(cells[2]), cells[1].hasPrefix("`"),
            cells[1].hasSuffix("`"), cells[1].dropFirst().dropLast().allSatisfy(\.isLetter)
        else { return nil }
        return (String(cells[1].dropFirst().dropLast()), lines)
    }

    /// Lines of code of a type at the file's outermost level, without empty ones and comments.
    private static func lines(of type: String, in text: String) -> Int? {
        let lines = text.components(separatedBy: "\n")
        let head = lines.firstIndex { line in
            ["struct", "class", "enum"].contains { kind in
                line.contains("\(kind) \(type):") || line.contains("\(kind) \(type) {")
            }
        }
        guard let head, let end = lines[head...].firstIndex(of: "}") else { return nil }
        return lines[head...end].map { $0.trimmingCharacters(in: .whitespaces) }
            .count { !$0.isEmpty && !$0.hasPrefix("//") }
    }
}
