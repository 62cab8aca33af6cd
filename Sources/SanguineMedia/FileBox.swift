/// A box of a file in the ISO base media file format (ISO/IEC 14496-12, section 4.2), the format of
/// HEIC, AVIF, MP4 and QuickTime.
package struct FileBox {
    /// The type; empty if it is not printable ASCII.
    let type: String
    /// The offset of the box: its size, followed by the type.
    let start: Int
    /// The range of the box's content.
    let content: Range<Int>

    /// The maximum number of boxes that are read at one level: 10,000.
    package static let limit = 10_000
    /// The maximum depth of boxes in boxes that are read: 8.
    ///
    /// A video needs five: `moov`, `trak`, `mdia`, `minf`, `stbl`.
    package static let depth = 8

    /// The types of top-level boxes that carry images and sound, and no metadata on them.
    static let top: Set = [
        "ftyp", "styp", "meta", "moov", "moof", "mfra", "mdat", "idat", "sidx", "ssix", "pdin",
        "grpl", "free", "skip", "wide",
    ]

    /// The types of boxes that readers skip, and that may have any content.
    static let padding: Set = ["free", "skip", "wide"]

    /// The types of nested boxes that carry metadata, which no decoder needs.
    static let descriptions: Set = ["udta", "meta", "uuid", "cmov", "rmra"]
}

extension FileBytes {
    /// Returns the boxes in a range, in order, up to the first one that does not fit.
    func boxes(in range: Range<Int>, limit: Int = FileBox.limit) -> [FileBox] {
        var boxes: [FileBox] = []
        var offset = range.lowerBound
        while boxes.count < limit, let box = box(at: offset, end: range.upperBound) {
            boxes.append(box)
            offset = box.content.upperBound
        }
        return boxes
    }

    /// Returns the first box of a type in a range.
    func box(_ type: String, in range: Range<Int>) -> FileBox? {
        boxes(in: range).first { $0.type == type }
    }

    /// Returns the boxes of a whole file, and the offset at which they end.
    ///
    /// The bytes after that offset are not a box. Returns `nil` if a box of a known type extends
    /// past the end of the file, or if there are too many boxes.
    func topBoxes() -> (boxes: [FileBox], end: Int)? {
        let boxes = boxes(in: 0..<count)
        let end = boxes.last?.content.upperBound ?? 0
        guard box(at: end, end: count) == nil else { return nil }
        if let type = text(at: end + 4), FileBox.top.contains(type) { return nil }
        return (boxes, end)
    }

    /// Returns the boxes in a box; `nil` if one does not fit, or if there are too many.
    ///
    /// Up to seven bytes, too few for a box, may follow the last one.
    func children(in range: Range<Int>) -> [FileBox]? {
        let boxes = boxes(in: range)
        let end = boxes.last?.content.upperBound ?? range.lowerBound
        return range.upperBound - end < 8 ? boxes : nil
    }

    private func box(at start: Int, end: Int) -> FileBox? {
        guard end - start >= 8, var length = big(start, 4) else { return nil }
        var head = 8
        if length == 1 {
            guard let long = big(start + 8, 8) else { return nil }
            (length, head) = (long, 16)
        } else if length == 0 {
            length = end - start
        }
        guard length >= head, length <= end - start else { return nil }
        let content = start + head..<start + length
        return FileBox(type: text(at: start + 4) ?? "", start: start, content: content)
    }
}

extension [UInt8] {
    /// Turns a box into an unused one of the same length, so that no offset changes.
    mutating func free(_ box: FileBox) {
        replaceSubrange(box.start + 4..<box.start + 8, with: Array("free".utf8))
        wipe(box.content)
    }

    /// Overwrites bytes with zeros.
    mutating func wipe(_ range: Range<Int>) {
        for offset in range { self[offset] = 0 }
    }
}
