/// The rotation and mirroring of an image for display: the only metadata that is kept.
struct ImageOrientation: Equatable {
    /// 2 to 8, as in Exif 2.32 (section 4.6.4, tag 0x0112).
    let value: Int

    /// The tag.
    private static let tag = 0x0112

    /// Reads the orientation from a TIFF structure; `nil` if it is absent or the default.
    init?(tiff range: Range<Int>, of file: [UInt8]) {
        let start = range.lowerBound
        let isLittle = file.has("II", at: start)
        guard isLittle || file.has("MM", at: start) else { return nil }
        func number(_ offset: Int, _ width: Int) -> Int? {
            guard offset <= range.upperBound - width else { return nil }
            return isLittle ? file.little(offset, width) : file.big(offset, width)
        }
        guard number(start + 2, 2) == 42, let directory = number(start + 4, 4),
            let count = number(start + directory, 2)
        else { return nil }
        for index in 0..<count {
            let entry = start + directory + 2 + 12 * index
            guard let tag = number(entry, 2) else { return nil }
            guard tag == Self.tag else { continue }
            guard number(entry + 2, 2) == 3, let value = number(entry + 8, 2),
                (2...8).contains(value)
            else { return nil }
            self.value = value
            return
        }
        return nil
    }

    /// A TIFF structure with this orientation as its only entry.
    var tiff: [UInt8] {
        var bytes = Array("MM".utf8)
        // The header, then a directory with one 16-bit entry and no next directory.
        for (number, width) in [
            (42, 2), (8, 4), (1, 2), (Self.tag, 2), (3, 2), (1, 4), (value, 2), (0, 2), (0, 4),
        ] {
            bytes += number.big(width)
        }
        return bytes
    }
}
