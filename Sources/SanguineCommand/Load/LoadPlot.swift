import Foundation

/// A plot over time as an inline SVG with a title and a description.
///
/// Lines differ in their strokes and not only in their colors.
struct LoadPlot {
    struct Line {
        var name: String
        /// Seconds and values, in the order of time.
        var points: [(Double, Double)]
    }

    private static let size = (width: 720.0, height: 240.0)
    private static let margin = (left: 64.0, right: 16.0, top: 36.0, bottom: 32.0)

    /// Identifies the plot on its page.
    let id: String
    let title: String
    let unit: String
    let lines: [Line]

    var svg: String {
        let all = lines.flatMap(\.points)
        guard !all.isEmpty else { return "" }
        let lastSecond = max(1, all.map(\.0).max() ?? 1)
        let top = Self.ceiling(all.map(\.1).max() ?? 1)
        func x(_ second: Double) -> Double {
            let width = Self.size.width - Self.margin.left - Self.margin.right
            return Self.margin.left + second / lastSecond * width
        }
        func y(_ value: Double) -> Double {
            let height = Self.size.height - Self.margin.top - Self.margin.bottom
            return Self.size.height - Self.margin.bottom - value / top * height
        }
        var parts: [String] = []
        for share in [0, 0.5, 1] {
            let (level, label) = (y(top * share), LoadText.number(top * share))
            parts.append(Self.rule(at: level))
            parts.append(Self.text(label, x: Self.margin.left - 8, y: level + 4, anchor: "end"))
            let second = lastSecond * share
            parts.append(
                Self.text(
                    "\(LoadText.number(second)) s",
                    x: x(second),
                    y: Self.size.height - 10,
                    anchor: share == 0 ? "start" : share == 1 ? "end" : "middle"
                )
            )
        }
        for (index, line) in lines.enumerated() {
            let points = line.points.map { "\(Self.short(x($0.0))),\(Self.short(y($0.1)))" }
            let legend = Self.margin.left + Double(index) * 140
            parts.append(
                """
                <polyline class="line l\(index)" points="\(points.joined(separator: " "))"/>
                <line class="line l\(index)" x1="\(legend)" y1="16" x2="\(legend + 28)" y2="16"/>
                """
            )
            parts.append(Self.text(line.name, x: legend + 34, y: 20, anchor: "start"))
        }
        return Self.frame(id: id, title: "\(title), \(unit)", description: description, parts)
    }

    /// The figures in words.
    private var description: String {
        lines.map { line in
            let values = line.points.map(\.1)
            guard let least = values.min(), let most = values.max(), let last = values.last else {
                return "\(line.name): no values."
            }
            return """
                \(line.name): from \(LoadText.number(least)) to \(LoadText.number(most)) \(unit), \
                at the end \(LoadText.number(last)).
                """
        }.joined(separator: " ")
    }

    /// Plots a histogram of durations as an inline SVG.
    ///
    /// - Parameters:
    ///   - id: Identifies the plot on its page.
    ///   - title: What was counted.
    ///   - bounds: The upper bounds in milliseconds, in ascending order.
    ///   - counts: The counts, one more than bounds.
    /// - Returns: The element, or an empty text without durations.
    static func bars(id: String, title: String, bounds: [Double], counts: [Int]) -> String {
        guard let most = counts.max(), most > 0 else { return "" }
        let names =
            bounds.map { "≤ \(Self.milliseconds($0))" }
            + ["> \(Self.milliseconds(bounds.last ?? 0))"]
        let width = (size.width - margin.left - margin.right) / Double(counts.count)
        let room = size.height - margin.top - margin.bottom
        var parts = [rule(at: size.height - margin.bottom)]
        for (index, count) in counts.enumerated() {
            let left = margin.left + Double(index) * width
            // One latency among many remains visible.
            let height = count == 0 ? 0 : max(2, Double(count) / Double(most) * room)
            let level = size.height - margin.bottom - height
            parts.append(
                """
                <rect class="bar" x="\(short(left + 2))" y="\(short(level))" \
                width="\(short(width - 4))" height="\(short(height))"/>
                """
            )
            let middle = left + width / 2
            if count > 0 { parts.append(text("\(count)", x: middle, y: level - 4)) }
            let label = index < bounds.count ? milliseconds(bounds[index]) : "more"
            parts.append(text(label, x: middle, y: size.height - 12))
        }
        let description = zip(names, counts).filter { $0.1 > 0 }
            .map { "\($0.0): \($0.1)" }.joined(separator: "; ")
        parts.append(text(title, x: margin.left, y: 20, anchor: "start"))
        return frame(id: id, title: title, description: description, parts)
    }

    // MARK: - Parts

    private static func frame(
        id: String,
        title: String,
        description: String,
        _ parts: [String]
    ) -> String {
        """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(size.width)) \
        \(Int(size.height))" role="img" aria-labelledby="\(id)-title \(id)-description">
        <title id="\(id)-title">\(LoadPage.escaped(title))</title>
        <desc id="\(id)-description">\(LoadPage.escaped(description))</desc>
        \(parts.joined(separator: "\n"))
        </svg>
        """
    }

    private static func rule(at level: Double) -> String {
        """
        <line class="grid" x1="\(margin.left)" y1="\(short(level))" \
        x2="\(size.width - margin.right)" y2="\(short(level))"/>
        """
    }

    private static func text(
        _ text: String,
        x: Double,
        y: Double,
        anchor: String = "middle"
    ) -> String {
        """
        <text x="\(short(x))" y="\(short(y))" text-anchor="\(anchor)">\
        \(LoadPage.escaped(text))</text>
        """
    }

    /// The next of 1, 2, 5, 10, … that is not smaller.
    static func ceiling(_ value: Double) -> Double {
        guard value > 0, value.isFinite else { return 1 }
        let power = pow(10, floor(log10(value)))
        return [1, 2, 5, 10].map { $0 * power }.first { $0 >= value } ?? 10 * power
    }

    private static func milliseconds(_ value: Double) -> String {
        value < 1_000 ? "\(value == 0.5 ? "0.5" : "\(Int(value))") ms" : "\(Int(value / 1_000)) s"
    }

    private static func short(_ value: Double) -> String { String(format: "%.1f", value) }
}
