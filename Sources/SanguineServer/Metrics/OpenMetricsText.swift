/// The rules of the OpenMetrics 1.0 text format.
///
/// Source: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
enum OpenMetricsText {
    /// The `Content-Type` of an exposition.
    static let contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    /// The maximum length of a label's value; longer ones are truncated to limit a series' size.
    static let labelValueCharacters = 128

    /// Returns a metric name of `[a-zA-Z_][a-zA-Z0-9_]*`: other characters become `_`.
    ///
    /// The format permits colons but reserves them for recording rules, so they become `_`, too.
    static func metricName(_ label: String) -> String {
        identifier(label)
    }

    /// Returns a label name; `le` and `quantile`, which are reserved, get a trailing `_`.
    static func labelName(_ label: String) -> String {
        let name = identifier(label)
        return name == "le" || name == "quantile" ? name + "_" : name
    }

    /// Returns the labels for the braces, sorted by name: `method="GET",route="/v1/balance"`.
    ///
    /// Sorting ensures that a set of labels always forms one series. If several labels have the
    /// same name, the first one is used.
    static func labels(_ dimensions: [(String, String)]) -> String {
        if dimensions.isEmpty { return "" }
        var pairs: [(name: String, value: String)] = []
        for (name, value) in dimensions {
            let name = labelName(name)
            guard !pairs.contains(where: { $0.name == name }) else { continue }
            pairs.append((name, value))
        }
        pairs.sort { $0.name < $1.name }
        var text = ""
        for pair in pairs {
            if !text.isEmpty { text += "," }
            text += pair.name
            text += "=\""
            appendEscaped(pair.value, to: &text)
            text += "\""
        }
        return text
    }

    /// Formats a number: `1.0`, `+Inf`, `-Inf`, `NaN`.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        return value.description
    }

    /// Appends the line of a sample.
    static func appendSample(
        _ name: String,
        labels: String,
        extraLabel: String = "",
        value: String,
        to text: inout String
    ) {
        text += name
        if !labels.isEmpty || !extraLabel.isEmpty {
            text += "{"
            text += labels
            if !labels.isEmpty && !extraLabel.isEmpty { text += "," }
            text += extraLabel
            text += "}"
        }
        text += " "
        text += value
        text += "\n"
    }

    private static func appendEscaped(_ value: String, to text: inout String) {
        for character in value.prefix(labelValueCharacters).unicodeScalars {
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(character)
            }
        }
    }

    private static func identifier(_ label: String) -> String {
        // Most labels are valid already, and this runs for each new metric.
        if isIdentifier(label) { return label }
        var name = String(label.unicodeScalars.map { isAllowed($0) ? Character($0) : "_" })
        if name.isEmpty || name.unicodeScalars.first.map(isDigit) == true { name = "_" + name }
        return name
    }

    private static func isIdentifier(_ label: String) -> Bool {
        guard let first = label.unicodeScalars.first, !isDigit(first) else { return false }
        return label.unicodeScalars.allSatisfy(isAllowed)
    }

    private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "_": true
        default: false
        }
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool {
        ("0"..."9").contains(scalar)
    }
}
