/// MP4 and QuickTime.
enum VideoFile {
    /// Returns the video with its metadata overwritten, or `nil` if it has no `moov` or `moof` box,
    /// if a box does not fit, or if the samples of a track that is removed cannot be found.
    ///
    /// Only tracks of pictures and sound remain: see ``MovieTracks``.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        guard let (top, end) = file.topBoxes(),
            top.contains(where: { $0.type == "moov" || $0.type == "moof" })
        else { return nil }
        var bytes = file
        for box in top {
            // A player needs no other box at the top.
            if !FileBox.top.contains(box.type) || box.type == "meta" {
                bytes.free(box)
            } else if FileBox.padding.contains(box.type) {
                bytes.wipe(box.content)
            } else if box.type == "moov" || box.type == "moof" {
                guard cleanMovie(box, of: &bytes) else { return nil }
            }
        }
        for movie in top where movie.type == "moov" {
            guard MovieTracks.wipeOthers(in: movie, among: top, of: &bytes) else { return nil }
        }
        bytes.removeSubrange(end...)
        return CleanedFile(bytes: bytes, size: nil)
    }

    /// Overwrites the metadata of a `moov` or `moof` box and its tracks; returns `false` if a box
    /// does not fit into its parent.
    static func cleanMovie(_ movie: FileBox, of file: inout [UInt8]) -> Bool {
        guard let boxes = file.children(in: movie.content) else { return false }
        for box in boxes {
            if FileBox.descriptions.contains(box.type) {
                file.free(box)
            } else if FileBox.padding.contains(box.type) {
                file.wipe(box.content)
            } else if box.type == "hdlr" {
                // The name of the handler follows the version, the flags and the type.
                file.wipe(box.content.dropFirst(24))
            } else if containers.contains(box.type) {
                guard cleanMovie(box, of: &file) else { return false }
            }
        }
        if let end = boxes.last?.content.upperBound { file.wipe(end..<movie.content.upperBound) }
        return true
    }

    /// The boxes of a video whose children are cleaned.
    private static let containers: Set = [
        "trak", "traf", "mdia", "minf", "stbl", "edts", "mvex", "dinf",
    ]
}
