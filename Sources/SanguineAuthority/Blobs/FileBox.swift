/// A box of a file in the ISO base media file format (ISO/IEC 14496-12, section 4.2), as HEIC, MP4
/// and QuickTime are.
struct FileBox {
    /// Its type, if that can be read.
    let type: String
    /// Where its size stands, and behind it the type.
    let start: Int
    /// What is in it.
    let content: Range<Int>
}

extension [UInt8] {
    /// The boxes of a part of a file, in their order; none from the first one on that does not fit.
    func boxes(in range: Range<Int>, limit: Int = FileBox.limit) -> [FileBox] {
        var boxes: [FileBox] = []
        var offset = range.lowerBound
        while boxes.count < limit, let box = box(at: offset, end: range.upperBound) {
            boxes.append(box)
            offset = box.content.upperBound
        }
        return boxes
    }

    /// The boxes of a whole file, and where they end.
    ///
    /// The bytes after that are no box. `nil` if a box that a picture or film needs goes on past
    /// the end, or if there are too many.
    func topBoxes() -> (boxes: [FileBox], end: Int)? {
        let boxes = boxes(in: 0..<count)
        let end = boxes.last?.content.upperBound ?? 0
        guard box(at: end, end: count) == nil else { return nil }
        if let type = text(at: end + 4), FileBox.top.contains(type) { return nil }
        return (boxes, end)
    }

    /// The boxes of a box; `nil` if one does not fit, or if there are too many.
    ///
    /// Fewer bytes than a box has may follow the last one.
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

    /// Makes a box one that nobody reads, of the same length: nothing else moves.
    mutating func free(_ box: FileBox) {
        replaceSubrange(box.start + 4..<box.start + 8, with: Array("free".utf8))
        wipe(box.content)
    }

    mutating func wipe(_ range: Range<Int>) {
        for offset in range { self[offset] = 0 }
    }
}

extension FileBox {
    /// The boxes in one place that are looked at: 10,000.
    static let limit = 10_000

    /// The boxes at the top of a file that are known to describe nothing but pictures and sound.
    static let top: Set = [
        "ftyp", "styp", "meta", "moov", "moof", "mfra", "mdat", "idat", "sidx", "ssix", "pdin",
        "grpl", "free", "skip", "wide",
    ]

    /// The boxes that readers skip, which may hold anything.
    static let padding: Set = ["free", "skip", "wide"]

    /// The boxes in others that describe, and that no decoder needs.
    static let descriptions: Set = ["udta", "meta", "uuid", "cmov", "rmra"]
}
