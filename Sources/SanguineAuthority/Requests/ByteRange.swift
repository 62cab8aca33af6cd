/// The part of a file that a request asks for (RFC 9110, section 14).
enum ByteRange: Hashable {
    /// The whole file: no range is requested, its form is not known, or there are several.
    case whole
    /// The bytes at these offsets; never empty.
    case part(Range<Int>)
    /// The range begins after the end of the file.
    case unsatisfiable

    /// Reads the header fields of a request.
    ///
    /// A server may ignore a range, so one that is malformed, and several ranges, are answered with
    /// the whole file. A client could request many small ranges to make an answer expensive.
    ///
    /// - Parameters:
    ///   - range: The value of `Range`; `nil` for none.
    ///   - condition: The value of `If-Range`; `nil` for none. Only the strong tag of the file lets
    ///     the range apply.
    ///   - tag: The strong tag of the file.
    ///   - size: The size of the file in bytes.
    init(_ range: String?, if condition: String?, tag: String, size: Int) {
        self = .whole
        guard let range, condition.map({ Self.trimmed($0) == tag }) ?? true else { return }
        let parts = range.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, Self.trimmed(parts[0]).lowercased() == "bytes" else { return }
        // An empty element of a list does not count (RFC 9110, section 5.6.1).
        let ranges = parts[1].split(separator: ",").map { Self.trimmed($0) }
            .filter { !$0.isEmpty }
        guard ranges.count == 1, let only = Self.parse(ranges[0], size: size) else { return }
        self = only
    }

    private static func parse(_ text: Substring, size: Int) -> ByteRange? {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return nil }
        switch (ends[0].isEmpty, ends[1].isEmpty) {
        case (true, true): return nil
        case (true, false):
            guard let count = number(ends[1]) else { return nil }
            return count == 0 || size == 0 ? .unsatisfiable : .part(max(0, size - count)..<size)
        case (false, let isOpen):
            guard let first = number(ends[0]), let last = isOpen ? .max : number(ends[1]),
                first <= last
            else { return nil }
            return first < size ? .part(first..<min(last, size - 1) + 1) : .unsatisfiable
        }
    }

    /// Returns a number of decimal digits, at most `Int.max`; `nil` for other text.
    private static func number(_ text: Substring) -> Int? {
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return text.utf8.reduce(0) { number, digit in
            let (tens, isLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, isLarger) = tens.addingReportingOverflow(Int(digit - UInt8(ascii: "0")))
            return isLarge || isLarger ? .max : sum
        }
    }

    /// Returns the text without spaces and tabs around it.
    private static func trimmed(_ text: some StringProtocol) -> Substring {
        var text = Substring(text)
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
