/// MP4 and QuickTime.
enum VideoFile {
    /// Returns the film with its descriptions overwritten, or `nil` if it has none of a film's
    /// parts, or one that does not fit.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        guard let (top, end) = file.topBoxes(),
            top.contains(where: { $0.type == "moov" || $0.type == "moof" })
        else { return nil }
        var bytes = file
        for box in top {
            // Beside the film there is no use in it.
            if !FileBox.top.contains(box.type) || box.type == "meta" {
                bytes.free(box)
            } else if FileBox.padding.contains(box.type) {
                bytes.wipe(box.content)
            } else if box.type == "moov" || box.type == "moof" {
                guard cleanMovie(box, of: &bytes) else { return nil }
            }
        }
        bytes.removeSubrange(end...)
        return CleanedFile(bytes: bytes, size: nil)
    }

    /// Overwrites the descriptions of a film, or of a part of one, and of its tracks; `false` if a
    /// box does not fit into the one around it.
    static func cleanMovie(_ movie: FileBox, of file: inout [UInt8]) -> Bool {
        guard let boxes = file.children(in: movie.content) else { return false }
        for box in boxes {
            if FileBox.descriptions.contains(box.type) {
                file.free(box)
            } else if FileBox.padding.contains(box.type) {
                file.wipe(box.content)
            } else if box.type == "hdlr" {
                // Behind version, flags and what kind of handler it is stands a name.
                file.wipe(box.content.dropFirst(24))
            } else if containers.contains(box.type) {
                guard cleanMovie(box, of: &file) else { return false }
            }
        }
        if let end = boxes.last?.content.upperBound { file.wipe(end..<movie.content.upperBound) }
        return true
    }

    /// The boxes of a film whose own boxes are looked at.
    private static let containers: Set = [
        "trak", "traf", "mdia", "minf", "stbl", "edts", "mvex", "dinf",
    ]
}
