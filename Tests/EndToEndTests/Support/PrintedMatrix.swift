import Foundation
import Sanguine
import Testing

/// The cells of a printed storage matrix, by name and column.
///
/// The tests read the text that a developer reads, so that no cell can say anything else.
struct PrintedMatrix: Sendable {
    /// A time that a cell shows.
    enum Life: Hashable, Sendable {
        /// Nothing is stored, or a stored value is never used without a fetch.
        case none
        case span(Duration)
        case midnight
        /// Until the session or the process ends.
        case session
        case forever
        /// Until this fact changes.
        case fact(String)

        init(_ cell: String) throws {
            let words = cell.split(separator: " ")
            switch cell {
            case "none", "never": self = .none
            case "until midnight": self = .midnight
            case "session": self = .session
            case "for ever": self = .forever
            case _ where cell.hasPrefix("until ") && cell.hasSuffix(" changes"):
                self = .fact(String(words[1]))
            default:
                let units = [
                    "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "days": 86_400_000,
                ]
                let number = try #require(words.first.flatMap { Int($0) }, "\(cell)")
                let unit = try #require(words.last.flatMap { units[String($0)] }, "\(cell)")
                self = .span(.milliseconds(number * unit))
            }
        }

        /// The time from a moment to the end; `nil` if no time ends it.
        func end(from now: Timestamp) -> Duration? {
            switch self {
            case .span(let duration): duration
            case .midnight: CalendarDay.nextMidnight(after: now, in: .gmt) - now
            case .none, .session, .forever, .fact: nil
            }
        }
    }

    private let cells: [String: [String: String]]

    /// Reads the first table of the text.
    init(_ matrix: StorageMatrix) throws {
        let table = try #require(matrix.description.components(separatedBy: "\n\n").first)
        let lines = table.components(separatedBy: "\n").map(Array.init)
        let header = try #require(lines.first)
        // A column begins after two spaces.
        let starts = header.indices.filter { index in
            let gap = header[..<index].suffix(2)
            return header[index] != " " && (index == 0 || Array(gap) == [" ", " "])
        }
        func split(_ line: [Character]) -> [String] {
            starts.indices.map { column in
                let end = column + 1 < starts.count ? starts[column + 1] : line.count
                guard starts[column] < min(end, line.count) else { return "" }
                return String(line[starts[column]..<min(end, line.count)])
                    .trimmingCharacters(in: .whitespaces)
            }
        }
        let names = split(header)
        var cells: [String: [String: String]] = [:]
        for line in lines.dropFirst() {
            let row = split(line)
            cells[row[0]] = Dictionary(zip(names, row)) { first, _ in first }
        }
        self.cells = cells
    }

    /// The names of the rows.
    var names: [String] { cells.keys.sorted() }

    /// Returns a cell.
    func cell(_ name: String, _ column: String) throws -> String {
        try #require(cells[name]?[column], "\(name), \(column)")
    }

    /// Returns the time in a cell.
    func life(_ name: String, _ column: String) throws -> Life {
        try Life(cell(name, column))
    }
}
