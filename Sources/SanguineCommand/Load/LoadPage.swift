import Foundation

/// The report of a run as one HTML file, which needs neither a network nor a script.
///
/// It is well-formed XML, so that any parser can read it. Every text is escaped.
enum LoadPage {
    static func html(of report: LoadReport) -> String {
        """
        <!DOCTYPE html>
        <html lang="en" xmlns="http://www.w3.org/1999/xhtml">
        <head>
        <meta charset="utf-8"/>
        <meta name="viewport" content="width=device-width, initial-scale=1"/>
        <title>Load test of \(escaped(report.server))</title>
        <style>\(style)</style>
        </head>
        <body>
        <h1>Load test of \(escaped(report.server))</h1>
        <p>\(escaped(summary(report)))</p>
        \(verdict(report))
        <h2>Steps</h2>
        \(table(report))
        \(failures(report))
        <h2>Over time</h2>
        \(overTime(report))
        <h2>Latencies by step</h2>
        \(histograms(report))
        \(server(report))
        <h2>Arguments</h2>
        <p><code>\(escaped(report.arguments.joined(separator: " ")))</code></p>
        <p>A latency begins when the request was intended to start, so it contains every wait. \
        Requests that timed out count with the time that they waited; other failures do not count. \
        Percentiles are rounded up by at most 1 %; the maximum is exact.</p>
        </body>
        </html>

        """
    }

    /// Escapes a text for content and attributes, and replaces characters that XML does not allow.
    static func escaped(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\t", "\n", "\r": result.unicodeScalars.append(scalar)
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{FFFE}", "\u{FFFF}":
                result += "\u{FFFD}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    private static func summary(_ report: LoadReport) -> String {
        """
        Began \(report.began), \(LoadText.number(report.seconds)) s\
        \(report.interrupted ? ", interrupted" : ""). \(report.arrived) of \(report.users) users, \
        \(report.liveConnectionsHeld) live connections, \(report.total.succeeded) successful \
        responses, \(report.total.failed) failures. Seed \(report.seed).
        """
    }

    private static func verdict(_ report: LoadReport) -> String {
        report.invalidBecause
            .map { "<p class=\"invalid\"><strong>Invalid.</strong> \(escaped($0))</p>" }
            .joined(separator: "\n")
    }

    private static func table(_ report: LoadReport) -> String {
        let head = ["step", "intended", "failed", "1/s", "p50 ms", "p90", "p95", "p99", "max"]
        let rows = (report.steps + [report.total]).map { step in
            let latency = step.latency
            let times = [latency?.p50, latency?.p90, latency?.p95, latency?.p99, latency?.max]
            let cells =
                ["\(step.intended)", "\(step.failed)", LoadText.number(step.perSecond)]
                + times.map { $0.map(LoadText.number) ?? "–" }
            return "<tr><th scope=\"row\">\(escaped(step.name))</th>"
                + cells.map { "<td>\($0)</td>" }.joined() + "</tr>"
        }
        return """
            <table><thead><tr>\(heads(head))</tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table>
            """
    }

    private static func heads(_ names: [String]) -> String {
        names.map { "<th scope=\"col\">\($0)</th>" }.joined()
    }

    private static func failures(_ report: LoadReport) -> String {
        guard !report.failures.isEmpty else { return "<p>No request failed.</p>" }
        let rows = report.failures.map { failure in
            """
            <tr><th scope="row">\(escaped(failure.step))</th><td>\(failure.count)</td>\
            <td class="text">\(escaped(failure.reason))</td>\
            <td class="text">\(escaped(failure.advice ?? ""))</td></tr>
            """
        }
        let head = ["step", "failed", "reason", "what to do"]
        return """
            <h2>Failures</h2>
            <table><thead><tr>\(heads(head))</tr></thead>
            <tbody>\(rows.joined(separator: "\n"))</tbody></table>
            """
    }

    private static func overTime(_ report: LoadReport) -> String {
        func line(_ name: String, _ value: (LoadReport.Window) -> Double?) -> LoadPlot.Line {
            let points = report.windows.compactMap { window in
                value(window).map { (Double(window.second), $0) }
            }
            return LoadPlot.Line(name: name, points: points)
        }
        let latency = LoadPlot(
            id: "latency",
            title: "Latency of requests by the time of their intended start",
            unit: "ms",
            lines: [
                line("p50") { $0.latency?.p50 }, line("p95") { $0.latency?.p95 },
                line("p99") { $0.latency?.p99 },
            ]
        )
        let throughput = LoadPlot(
            id: "throughput",
            title: "Requests per second",
            unit: "1/s",
            lines: [
                line("intended") { $0.intendedPerSecond },
                line("completed") { $0.completedPerSecond },
                line("failed") { $0.failedPerSecond },
            ]
        )
        return latency.svg + "\n" + throughput.svg
    }

    private static func histograms(_ report: LoadReport) -> String {
        report.steps.enumerated().map { index, step in
            LoadPlot.bars(
                id: "step-\(index)",
                title: "\(step.name): \(step.histogram.reduce(0, +)) latencies",
                bounds: LoadReport.bounds,
                counts: step.histogram
            )
        }.joined(separator: "\n")
    }

    private static func server(_ report: LoadReport) -> String {
        guard let facts = report.serverFacts else { return "" }
        let memory = facts.points.compactMap { point in
            point.memoryBytes.map { (point.second, $0 / 1e6) }
        }
        let live = facts.points.compactMap { point in
            point.liveConnections.map { (point.second, $0) }
        }
        let plots = [
            LoadPlot(
                id: "memory",
                title: "Resident memory of the server",
                unit: "MB",
                lines: [LoadPlot.Line(name: "memory", points: memory)]
            ),
            LoadPlot(
                id: "live",
                title: "Live connections of the server",
                unit: "connections",
                lines: [LoadPlot.Line(name: "live", points: live)]
            ),
        ]
        let each = facts.memoryBytesPerUser.map { "\(LoadText.number($0 / 1e3)) KB per user. " }
        let reads = facts.storageReadsPerList.map {
            "\(LoadText.number($0)) storage reads per list. "
        }
        let time = facts.processorTimePerResponse.map {
            "\(LoadText.number($0)) ms of processor time per response."
        }
        let text = [each, reads, time].compactMap(\.self).joined()
        return "<h2>Server</h2>\n<p>\(escaped(text))</p>\n"
            + plots.map(\.svg).joined(separator: "\n")
    }

    private static let style = """
        :root { color-scheme: light dark; --ink: #1c1c1e; --paper: #fff; --soft: #6b6b70; \
        --rule: #d8d8dc; --a: #0a63c9; --b: #b45309; --c: #c01d3f; }
        @media (prefers-color-scheme: dark) { :root { --ink: #f2f2f4; --paper: #161618; \
        --soft: #a5a5ab; --rule: #3a3a3e; --a: #6db3ff; --b: #f0a94b; --c: #ff7d95; } }
        body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); \
        max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
        table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
        th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid var(--rule); }
        th[scope=row], .text { text-align: left; }
        .invalid { border-left: .25rem solid var(--c); padding-left: .75rem; }
        svg { width: 100%; height: auto; margin: 1rem 0; }
        svg text { fill: var(--ink); font-size: 12px; }
        .grid { stroke: var(--rule); stroke-width: 1; }
        .line { fill: none; stroke-width: 2; }
        .l0 { stroke: var(--a); } .l1 { stroke: var(--b); stroke-dasharray: 6 3; }
        .l2 { stroke: var(--c); stroke-dasharray: 2 3; }
        .bar { fill: var(--a); }
        code { overflow-wrap: anywhere; }
        """
}
