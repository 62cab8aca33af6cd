extension String {
    /// Returns whether the text has the given number of characters, and only displayable ones.
    ///
    /// Control characters are refused: some databases end a string at U+0000, and an entry of the
    /// ledger occupies one line. So are separators of lines, and overrides of the direction of
    /// writing, which make a terminal show another text. Characters with more parts than names and
    /// symbols need are refused too, because a single character may have any number of bytes.
    package func isPlainText(of characters: ClosedRange<Int>) -> Bool {
        utf8.count <= Self.bytesPerCharacter * characters.upperBound
            && hasMarks(inRow: WireLimits.nameMarks)
            && characters.contains(count)
            && !unicodeScalars.contains {
                $0.value < 0x20 || (0x7F...0x9F).contains($0.value)
                    || Self.layoutControls.contains($0.value)
            }
    }

    /// The separators of lines and paragraphs, and the embeddings and overrides of directions.
    ///
    /// Isolates and marks of directions are permitted: names in Arabic or Hebrew need them.
    private static var layoutControls: ClosedRange<UInt32> { 0x2028...0x202E }

    /// The number of bytes of a character, averaged over the longest string: an emoji with a skin
    /// tone has 8.
    private static var bytesPerCharacter: Int { 8 }
}
