// Swift's strings are equal if they are canonically equivalent. To find out, and to hash one, it
// sorts every run of combining marks, in time that grows with the square of the run's length: a
// megabyte of marks takes minutes. Text from outside is therefore compared and hashed as bytes, or
// its bytes and runs are bounded first.

extension StringProtocol {
    /// Whether both texts have the same UTF-8.
    ///
    /// Linear, unlike `==`, which normalizes both texts.
    package func hasBytes(of other: some StringProtocol) -> Bool {
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }
}

extension String {
    /// Adds the text's UTF-8 to a hash, in linear time.
    func hashBytes(into hasher: inout Hasher) {
        var text = self
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }

    /// Whether the text may name a member: normalizing it costs no more than its length.
    ///
    /// At most ``WireLimits/memberNameBytes``, and at most ``WireLimits/nameMarks`` combining marks
    /// in a row.
    package var isMemberName: Bool {
        utf8.count <= WireLimits.memberNameBytes && hasMarks(inRow: WireLimits.nameMarks)
    }

    /// Whether no run of combining marks is longer than so many; linear.
    package func hasMarks(inRow most: Int) -> Bool {
        // The first combining mark is U+0300, in UTF-8 CC 80.
        guard utf8.count > most, utf8.contains(where: { $0 >= 0xCC }) else { return true }
        var run = 0
        for scalar in unicodeScalars {
            run = scalar.isMark ? run + 1 : 0
            if run > most { return false }
        }
        return true
    }
}

extension Unicode.Scalar {
    /// Whether normalizing may move the scalar, or a part of it.
    fileprivate var isMark: Bool {
        guard value >= 0x300 else { return false }
        switch properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: return true
        default: return properties.canonicalCombiningClass != .notReordered
        }
    }
}
