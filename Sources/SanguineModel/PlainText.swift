extension String {
    /// Whether the text has so many characters and nothing that a reader could not see or bear.
    ///
    /// Control characters are out: some databases end a text at U+0000, and a line of the ledger is
    /// a line. So are characters that are built of more parts than names and signs need, because
    /// one character may be any number of bytes.
    package func isPlainText(of characters: ClosedRange<Int>) -> Bool {
        utf8.count <= Self.bytesPerCharacter * characters.upperBound
            && hasMarks(inRow: WireLimits.nameMarks)
            && characters.contains(count)
            && !unicodeScalars.contains { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }
    }

    /// Bytes of a character, on average over the longest text: an emoji with a skin tone has 8.
    private static var bytesPerCharacter: Int { 8 }
}
