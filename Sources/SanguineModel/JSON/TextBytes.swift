// Swift's strings are equal if they are canonically equivalent. Comparing or hashing one sorts
// every run of combining marks, in time quadratic in the length of the run: a megabyte of marks
// takes minutes. Untrusted text is therefore compared and hashed as bytes, or its length and runs
// are checked first.

extension StringProtocol {
    /// Returns whether both strings have the same UTF-8 bytes.
    ///
    /// Linear, unlike `==`, which normalizes both strings.
    package func hasBytes(of other: some StringProtocol) -> Bool {
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }
}

extension String {
    /// Hashes the string's UTF-8 bytes, in linear time.
    func hashBytes(into hasher: inout Hasher) {
        var text = self
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }

    /// Whether the string may be the name of a member, so that normalizing it takes linear time.
    ///
    /// It has at most ``WireLimits/memberNameBytes``, and at most ``WireLimits/nameMarks``
    /// consecutive combining marks.
    package var isMemberName: Bool {
        utf8.count <= WireLimits.memberNameBytes && hasMarks(inRow: WireLimits.nameMarks)
    }

    /// Returns whether no run of combining marks exceeds the given length, in linear time.
    package func hasMarks(inRow most: Int) -> Bool {
        guard utf8.count > most else { return true }
        // The first combining mark is U+0300, in UTF-8 CC 80.
        let mayHaveMarks =
            utf8.withContiguousStorageIfAvailable { bytes in
                !bytes.isASCII && bytes.contains { $0 >= 0xCC }
            } ?? true
        guard mayHaveMarks else { return true }
        var run = 0
        for scalar in unicodeScalars {
            run = scalar.isMark ? run + 1 : 0
            if run > most { return false }
        }
        return true
    }
}

extension Unicode.Scalar {
    /// Whether normalization may move the scalar, or a part of it.
    fileprivate var isMark: Bool {
        guard value >= 0x300 else { return false }
        switch properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: return true
        default: return properties.canonicalCombiningClass != .notReordered
        }
    }
}
