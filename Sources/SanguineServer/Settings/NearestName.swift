/// Finds the most similar name, for suggestions in error messages.
public enum NearestName {
    /// Returns the name with the smallest edit distance, or `nil` if more than a third of the
    /// characters differ in every name.
    ///
    /// Case, `_` and `-` are ignored.
    public static func of(_ name: String, among names: some Sequence<String>) -> String? {
        let wanted = folded(name)
        let most = max(1, wanted.count / 3)
        var best: (name: String, distance: Int)?
        for candidate in names {
            let letters = folded(candidate)
            guard abs(letters.count - wanted.count) <= most else { continue }
            let distance = distance(wanted, letters)
            guard distance <= most, distance < best?.distance ?? .max else { continue }
            best = (candidate, distance)
        }
        return best?.name
    }

    private static func folded(_ name: String) -> [Character] {
        Array(name.lowercased().filter { $0 != "_" && $0 != "-" })
    }

    /// Returns the edit distance of two words; a swap of neighbours counts once (Damerau).
    static func distance(_ left: [Character], _ right: [Character]) -> Int {
        var rows = [Array(0...right.count)]
        for (i, letter) in left.enumerated() {
            var row = [i + 1]
            for (j, other) in right.enumerated() {
                var least = min(
                    row[j] + 1,
                    rows[i][j + 1] + 1,
                    rows[i][j] + (letter == other ? 0 : 1)
                )
                if i > 0, j > 0, letter == right[j - 1], left[i - 1] == other {
                    least = min(least, rows[i - 1][j - 1] + 1)
                }
                row.append(least)
            }
            rows.append(row)
        }
        return rows[left.count][right.count]
    }
}
