/// The header of Matroska files, of which WebM is one kind (RFC 8794, section 11).
enum EBMLHeader {
    static func isWebM(_ file: some FileBytes) -> Bool {
        guard file.has([0x1A, 0x45, 0xDF, 0xA3], at: 0) else { return false }
        guard let header = number(in: file, at: 4) else { return false }
        var offset = header.end
        let end = min(file.count, header.end + min(header.value, 4_096))
        while offset < end, let width = file.big(offset, 1).map(length), width <= 4,
            let name = file.big(offset, width), let size = number(in: file, at: offset + width)
        {
            guard size.value <= end - size.end else { return false }
            // DocType
            if name == 0x4282 { return size.value == 4 && file.has("webm", at: size.end) }
            offset = size.end + size.value
        }
        return false
    }

    /// The width of a number in bytes, by its first byte.
    static func length(_ first: Int) -> Int {
        UInt8(truncatingIfNeeded: first).leadingZeroBitCount + 1
    }

    private static func number(
        in file: some FileBytes,
        at offset: Int
    ) -> (value: Int, end: Int)? {
        guard let width = file.big(offset, 1).map(length), width <= 8,
            let number = file.big(offset, width)
        else { return nil }
        return (number & (1 << (7 * width) - 1), offset + width)
    }
}
