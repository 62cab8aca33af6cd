/// Parses `Accept-Encoding` (RFC 9110, section 12.5.3).
enum AcceptedEncoding {
    /// Returns whether the lines of the field accept gzip: by name or `*`, with a weight above 0.
    static func takesGzip(_ lines: [String]) -> Bool {
        var named: Bool?
        var others = false
        for line in lines {
            for element in line.utf8.split(separator: UInt8(ascii: ",")) {
                let parts = element.split(separator: UInt8(ascii: ";")).map(trimmed)
                guard let coding = parts.first?.lowercased() else { continue }
                let isTaken = !parts.dropFirst().contains(where: isNothing)
                switch coding {
                case "gzip", "x-gzip": named = (named ?? false) || isTaken
                case "*": others = isTaken
                default: break
                }
            }
        }
        return named ?? others
    }

    /// Returns whether a parameter is the weight 0: `q=0`, `q=0.0`, `Q=0.000`.
    private static func isNothing(_ parameter: String) -> Bool {
        let pair = parameter.split(separator: "=", maxSplits: 1)
        guard pair.count == 2, pair[0].lowercased() == "q" else { return false }
        return pair[1].allSatisfy { $0 == "0" || $0 == "." }
    }

    private static func trimmed(_ part: Substring.UTF8View) -> String {
        var text = Substring(part).drop { $0 == " " || $0 == "\t" }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return String(text)
    }
}
