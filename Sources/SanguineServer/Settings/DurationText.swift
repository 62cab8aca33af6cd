import SanguineModel

/// Converts durations to and from the form of settings: a whole number and a unit, such as `500ms`,
/// `30s`, `15m`, `48h`, `60d`.
enum DurationText {
    /// Milliseconds of each unit, the longest first.
    ///
    /// A day has 24 hours.
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Parses a duration; `nil` if the text is invalid or the duration exceeds a hundred years.
    static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int64(digits), digits.count <= 12,
            let unit = units.first(where: { $0.name == text.dropFirst(digits.count) }),
            number <= 3_155_760_000_000 / unit.milliseconds
        else { return nil }
        return .milliseconds(number * unit.milliseconds)
    }

    /// Formats a duration in the longest unit that divides it evenly.
    static func text(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMilliseconds
        let fit = units.first {
            milliseconds >= $0.milliseconds && milliseconds % $0.milliseconds == 0
        }
        guard let fit else { return "0s" }
        return "\(milliseconds / fit.milliseconds)\(fit.name)"
    }
}
