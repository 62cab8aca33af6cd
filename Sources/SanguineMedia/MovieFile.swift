/// MP4 and QuickTime.
enum MovieFile {
    /// Returns the video with its metadata overwritten.
    ///
    /// Only tracks of pictures and sound remain: see ``MovieTracks``.
    ///
    /// - Returns: The video; `nil` if it has no `moov` or `moof` box, if a box does not fit or is
    ///   nested too deeply, or if the samples of a track that is removed cannot be found.
    static func clean(_ file: [UInt8]) -> [UInt8]? {
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
                guard cleanMovie(box, of: &bytes, depth: 1) else { return nil }
            }
        }
        var tracks = MovieTracks(of: top, bytes: bytes.count)
        for movie in top where movie.type == "moov" {
            guard tracks.wipeOthers(in: movie, of: &bytes) else { return nil }
        }
        guard !tracks.areContinued(in: top, of: bytes) else { return nil }
        bytes.removeSubrange(end...)
        return bytes
    }

    /// Overwrites the metadata of a `moov` or `moof` box and its tracks; returns `false` if a box
    /// does not fit into its parent, or is nested too deeply.
    private static func cleanMovie(
        _ movie: FileBox,
        of file: inout [UInt8],
        depth: Int
    ) -> Bool {
        guard depth <= FileBox.depth, let boxes = file.children(in: movie.content) else {
            return false
        }
        for box in boxes {
            if FileBox.descriptions.contains(box.type) {
                file.free(box)
            } else if FileBox.padding.contains(box.type) {
                file.wipe(box.content)
            } else if box.type == "hdlr" {
                // The name of the handler follows the version, the flags and the type.
                file.wipe(box.content.dropFirst(24))
            } else if containers.contains(box.type) {
                guard cleanMovie(box, of: &file, depth: depth + 1) else { return false }
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
