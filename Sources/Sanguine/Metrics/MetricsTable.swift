extension MetricsSummary: CustomStringConvertible {
    /// A table with one line for each name.
    ///
    /// Names with durations over a second are marked with `!`.
    ///
    /// ```text
    ///   query   reads  hits  flights  in flight  retried  failed    p50    p90    p99    max  slow
    ///   feed    1,204  98 %       12          0        0       0  82 ms  90 ms  95 ms  95 ms     0
    /// ! people     10  40 %        6          1        2       1  90 ms  1.3 s  2.1 s  2.1 s     2
    /// ```
    public var description: String {
        var parts: [String] = []
        if !queries.isEmpty { parts.append(MetricsTable.text(of: queries, titled: "query")) }
        if !operations.isEmpty {
            parts.append(MetricsTable.text(of: operations, titled: "operation"))
        }
        if let images { parts.append("images\n\(images)") }
        return parts.isEmpty ? "Nothing has been measured yet." : parts.joined(separator: "\n\n")
    }
}

/// Formats the rows of a summary as aligned text.
private enum MetricsTable {
    private static let titles = [
        "reads", "hits", "flights", "in flight", "retried", "failed", "p50", "p90", "p99", "max",
        "slow",
    ]

    static func text(of rows: [MetricsSummary.Row], titled title: String) -> String {
        let lines = [["", title] + titles] + rows.map(cells)
        let widths = lines[0].indices.map { column in lines.map(\.[column].count).max() ?? 0 }
        return lines.map { line in
            zip(line, widths).enumerated().map { column, cell in
                let padding = String(repeating: " ", count: cell.1 - cell.0.count)
                // Marks and names are aligned left, numbers right.
                return column < 2 ? cell.0 + padding : padding + cell.0
            }
            .joined(separator: "  ")
        }
        .joined(separator: "\n")
    }

    private static func cells(of row: MetricsSummary.Row) -> [String] {
        let durations = row.durations.map { [$0.p50, $0.p90, $0.p99, $0.max].map(text) }
        return [
            row.slow > 0 ? "!" : "",
            row.name,
            text(row.reads),
            row.hitRate.map { "\(Int(($0 * 100).rounded())) %" } ?? "–",
            text(row.flights),
            text(row.inFlight),
            text(row.retries),
            text(row.failures),
        ] + (durations ?? ["–", "–", "–", "–"]) + [text(row.slow)]
    }

    private static func text(_ count: Int) -> String {
        let digits = Array(String(count))
        return digits.indices.reduce(into: "") { text, index in
            if index > 0 && (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digits[index])
        }
    }

    private static func text(_ duration: Duration) -> String {
        let microseconds = duration.microseconds
        return switch microseconds {
        case ..<1_000: "\(microseconds) µs"
        case ..<1_000_000: "\(microseconds / 1_000) ms"
        default: "\(microseconds / 1_000_000).\(microseconds % 1_000_000 / 100_000) s"
        }
    }
}
