import Foundation

/// The report of a run as text.
enum LoadText {
    static func lines(of report: LoadReport) -> [String] {
        var lines = table(of: report)
        lines.append("")
        lines.append(
            "\(report.arrived) of \(report.users) users, \(report.liveConnectionsHeld) live "
                + "connections, \(number(report.seconds)) s, seed \(report.seed)"
                + (report.interrupted ? ", interrupted" : "")
        )
        if let lag = report.generator.lag {
            lines.append(
                "the generator's lag: p50 \(number(lag.p50)), p99 \(number(lag.p99)), "
                    + "max \(number(lag.max)) ms"
            )
        }
        lines += server(report.serverFacts)
        for failure in report.failures {
            lines.append("failed: \(failure.count) × \(failure.step): \(failure.reason)")
            if let advice = failure.advice { lines.append("  \(advice)") }
        }
        for reason in report.invalidBecause { lines.append("INVALID: \(reason)") }
        return lines
    }

    private static func table(of report: LoadReport) -> [String] {
        let head = ["step", "intended", "failed", "1/s", "p50 ms", "p90", "p95", "p99", "max"]
        let rows = (report.steps + [report.total]).map { step in
            let latency = step.latency
            let times = [latency?.p50, latency?.p90, latency?.p95, latency?.p99, latency?.max]
            return [
                step.name, "\(step.intended)", "\(step.failed)", number(step.perSecond),
            ] + times.map { $0.map(number) ?? "–" }
        }
        let widths = head.indices.map { column in
            ([head] + rows).map { $0[column].count }.max() ?? 0
        }
        return ([head] + rows).map { row in
            zip(row, widths).enumerated().map { column, cell in
                let pad = String(repeating: " ", count: cell.1 - cell.0.count)
                return column == 0 ? cell.0 + pad : pad + cell.0
            }.joined(separator: "  ")
        }
    }

    private static func server(_ facts: LoadReport.Server?) -> [String] {
        guard let facts else { return ["the server's metrics could not be read; set '--admin'"] }
        var parts: [String] = []
        if let most = facts.memoryBytesMost, let each = facts.memoryBytesPerUser {
            parts.append("\(number(most / 1e6)) MB at most, \(number(each / 1e3)) KB per user")
        }
        if let reads = facts.storageReadsPerList {
            parts.append("\(number(reads)) storage reads per list")
        }
        if let time = facts.processorTimePerResponse {
            parts.append("\(number(time)) ms of processor time per response")
        }
        return parts.isEmpty ? [] : ["the server: " + parts.joined(separator: ", ")]
    }

    /// Formats a number with three significant digits or all of its whole part.
    static func number(_ value: Double) -> String {
        let digits = abs(value) >= 100 ? 0 : abs(value) >= 10 ? 1 : 2
        return String(format: "%.\(digits)f", value)
    }
}
