/// Finds the lines of a YAML file that give a setting a value, for messages.
///
/// The parser of settings reports neither lines nor spellings. This reader knows mappings in blocks
/// and in braces on one line, which is enough to show both places of a name that stands twice.
struct SettingPlaces {
    private struct Level {
        let indent: Int
        let name: String
    }

    /// The lines of each name, beginning with 1.
    private var lines: [String: [Int]] = [:]

    /// Reads a file.
    init(in text: String) {
        var levels: [Level] = []
        let all = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, line) in all.enumerated() {
            let indent = line.prefix { $0 == " " }.count
            guard let (key, value) = Self.member(line.dropFirst(indent)) else { continue }
            levels.removeAll { $0.indent >= indent }
            let name = (levels.last.map { $0.name + "." } ?? "") + key
            if value.hasPrefix("{") {
                for part in value.dropFirst().split(whereSeparator: { ",{}".contains($0) }) {
                    guard let (inner, _) = Self.member(part.trimmingPrefix { $0 == " " }) else {
                        continue
                    }
                    lines["\(name).\(inner)", default: []].append(index + 1)
                }
            } else if value.isEmpty {
                levels.append(Level(indent: indent, name: name))
            } else {
                lines[name, default: []].append(index + 1)
            }
        }
    }

    /// Returns the key of a line and the text behind it, without a comment.
    private static func member(_ line: Substring) -> (key: String, value: Substring)? {
        let form = #/^(?:"([^"]*)"|'([^']*)'|([^:\s"'][^:]*?))\s*:(?:\s+|$)/#
        guard let first = line.first, first != "#", first != "-",
            let match = line.firstMatch(of: form)
        else { return nil }
        let key = match.output.1 ?? match.output.2 ?? match.output.3 ?? ""
        let value = line[match.range.upperBound...]
        return (String(key), value.hasPrefix("#") ? "" : value)
    }

    /// Returns the reason why a file is refused that gives the name two values.
    func reason(ofRepeated name: String) -> String {
        let places = (lines[name] ?? []).map(String.init)
        guard places.count > 1 else { return "'\(name)' stands in it twice: keep one of them." }
        return "'\(name)' stands in lines \(places.joined(separator: " and ")): keep one of them."
    }
}
