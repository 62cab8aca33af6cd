import SanguineModel

/// The text of a report: titled sections of lines, bounded in rows, columns and bytes.
///
/// Control characters become spaces, so that a name cannot imitate a line of the report.
struct ReportText {
    /// The last line of a report that reached its largest size.
    static let end = "… the rest is left out\n"

    private var sections: [DebugReport.Section] = []
    private var reserved: Int?
    private let now: Timestamp

    /// - Parameter now: The time of the report, from which ages are computed.
    init(at now: Timestamp) { self.now = now }

    /// Begins a section.
    mutating func section(_ title: String) {
        sections.append(DebugReport.Section(title: Self.bounded(title)))
    }

    /// Begins a section whose lines are known at the end of the report.
    mutating func reserveSection(_ title: String) {
        section(title)
        reserved = sections.count - 1
    }

    /// Adds the lines of the reserved section.
    mutating func fillReserved(_ lines: [String]) {
        if let reserved { sections[reserved].lines = lines.map(Self.bounded) }
    }

    /// Adds a line to the section.
    mutating func add(_ line: String) {
        sections[sections.count - 1].lines.append(Self.bounded(line))
    }

    /// Adds lines to the section, up to ``MetricsLimits/reportRows``, and the number of the others.
    ///
    /// - Parameters:
    ///   - rows: The lines.
    ///   - count: The number of all lines, if `rows` are only the first of them.
    mutating func add(_ rows: some Collection<String>, of count: Int? = nil) {
        let shown = rows.prefix(MetricsLimits.reportRows)
        for row in shown { add(row) }
        let rest = (count ?? rows.count) - shown.count
        if rest > 0 { add("… and \(rest) more") }
    }

    /// Returns the time from the moment to the report, such as `5 min ago` or `in 30 s`.
    func age(_ moment: Timestamp) -> String {
        let age = now - moment
        return age < .zero ? "in \((moment - now).inReport)" : "\(age.inReport) ago"
    }

    /// The sections, truncated to ``MetricsLimits/reportBytes`` of text in total, and whether they
    /// were.
    var bounded: (sections: [DebugReport.Section], isCut: Bool) {
        var kept: [DebugReport.Section] = []
        var bytes = Self.end.utf8.count
        for section in sections {
            // A line feed, and the empty line between two sections.
            bytes += section.title.utf8.count + 2
            guard bytes <= MetricsLimits.reportBytes else { return (kept, true) }
            kept.append(DebugReport.Section(title: section.title))
            for line in section.lines {
                // Two spaces and a line feed.
                bytes += line.utf8.count + 3
                guard bytes <= MetricsLimits.reportBytes else { return (kept, true) }
                kept[kept.count - 1].lines.append(line)
            }
        }
        return (kept, false)
    }

    private static func bounded(_ line: String) -> String {
        var clean = String.UnicodeScalarView()
        for (column, scalar) in line.unicodeScalars.enumerated() {
            guard column < MetricsLimits.reportColumns else { return String(clean) + "…" }
            clean.append(scalar.breaksLines ? " " : scalar)
        }
        return String(clean)
    }
}

extension Unicode.Scalar {
    fileprivate var breaksLines: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}

extension Int {
    /// The number and the noun, such as `1 send` or `2 sends`.
    func counted(_ noun: String) -> String { self == 1 ? "1 \(noun)" : "\(self) \(noun)s" }
}

extension Duration {
    /// The duration in its largest whole unit, such as `5 min`.
    fileprivate var inReport: String {
        let seconds = components.seconds
        return switch seconds {
        case ..<60: "\(seconds) s"
        case ..<3_600: "\(seconds / 60) min"
        case ..<86_400: "\(seconds / 3_600) h"
        default: "\(seconds / 86_400) d"
        }
    }
}
