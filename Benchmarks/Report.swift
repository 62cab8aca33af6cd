import Foundation

/// A figure and a baseline that is measured in the same run, or one that was recorded in another
/// run.
///
/// A recorded baseline is printed without a ratio and without a target.
struct Figure: Codable {
    var name: String
    var value: Double
    var unit: String
    var baseline: String
    var baselineValue: Double
    /// `value` divided by `baselineValue`, or `nil` if that was recorded on another machine.
    var ratio: Double?
    /// The target of the ratio as text: `≥ 0.40`, `≤ 3`, or `–` if there is none.
    var aim: String
    var met: Bool

    /// Creates a rate, for which more is better.
    init(
        rate name: String,
        _ value: Double,
        unit: String,
        of baseline: String,
        _ base: Double,
        ratio: Double,
        atLeast aim: Double?
    ) {
        self.name = name
        self.value = value
        self.unit = unit
        self.baseline = baseline
        baselineValue = base
        self.ratio = ratio
        self.aim = aim.map { "≥ \(Self.short($0))" } ?? "–"
        met = aim.map { ratio >= $0 } ?? true
    }

    /// Creates a cost, for which less is better.
    init(
        cost name: String,
        _ value: Double,
        unit: String,
        of baseline: String,
        _ base: Double,
        atMost aim: Double?
    ) {
        self.name = name
        self.value = value
        self.unit = unit
        self.baseline = baseline
        baselineValue = base
        let ratio = value / base
        self.ratio = ratio
        self.aim = aim.map { "≤ \(Self.short($0))" } ?? "–"
        met = aim.map { ratio <= $0 } ?? true
    }

    /// Creates a cost with a figure recorded in another run, and so without a ratio and a target.
    ///
    /// - Parameters:
    ///   - name: The name of the figure.
    ///   - value: The measured cost.
    ///   - unit: The unit of both costs.
    ///   - peer: The name of the peer.
    ///   - recorded: The peer's cost, in a run before 22 November 2026 on another machine.
    init(cost name: String, _ value: Double, unit: String, beside peer: String, recorded: Double) {
        self.init(
            cost: name,
            value,
            unit: unit,
            of: "\(peer), recorded 2026-11-22 on another machine",
            recorded,
            atMost: nil
        )
        ratio = nil
    }

    /// Creates a rate with a figure recorded in another run, and so without a ratio and a target.
    ///
    /// - Parameters:
    ///   - name: The name of the figure.
    ///   - value: The measured rate.
    ///   - unit: The unit of both rates.
    ///   - peer: The name of the peer, with its hardware and source.
    ///   - recorded: The peer's rate.
    init(rate name: String, _ value: Double, unit: String, beside peer: String, recorded: Double) {
        self.init(
            rate: name,
            value,
            unit: unit,
            of: "\(peer), recorded",
            recorded,
            ratio: value / recorded,
            atLeast: nil
        )
        ratio = nil
    }

    static func short(_ number: Double) -> String {
        switch abs(number) {
        case 1_000...:
            number.formatted(
                .number.precision(.fractionLength(0)).locale(Locale(identifier: "en_US"))
            )
        case 10...:
            number.formatted(
                .number.precision(.fractionLength(1)).locale(Locale(identifier: "en_US"))
            )
        default:
            number.formatted(
                .number.precision(.fractionLength(2)).locale(Locale(identifier: "en_US"))
            )
        }
    }
}

/// The figures as a table for people and as JSON for programs.
struct Report {
    var figures: [Figure] = []
    /// Figures of others, printed below ours and never compared by a program.
    var peers: [String] = []

    func printTable() {
        let header = ["figure", "ours", "unit", "baseline", "its value", "ratio", "aim", "met"]
        let rows = figures.map { figure in
            [
                figure.name, Figure.short(figure.value), figure.unit, figure.baseline,
                Figure.short(figure.baselineValue), figure.ratio.map(Figure.short) ?? "–",
                figure.aim,
                figure.aim == "–" ? "" : figure.met ? "yes" : "no",
            ]
        }
        let widths = header.indices.map { column in
            ([header] + rows).map { $0[column].count }.max() ?? 0
        }
        for row in [header] + rows {
            let cells = zip(row, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            print(cells.joined(separator: "  "))
        }
        for peer in peers { print(peer) }
    }

    func write(to file: URL) throws {
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(),
            withIntermediateDirectories: true
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try encoder.encode(figures).write(to: file)
    }
}
