/// MP4 and QuickTime.
enum VideoFile {
    /// Returns the film with its descriptions overwritten, or `nil` if it has none of a film's
    /// parts.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        let top = file.boxes(in: 0..<file.count)
        guard top.contains(where: { $0.type == "moov" || $0.type == "moof" }) else { return nil }
        var bytes = file
        for box in top {
            // Beside the film there is no use in it.
            if !FileBox.top.contains(box.type) || box.type == "meta" {
                bytes.free(box)
            } else if box.type == "moov" || box.type == "moof" {
                cleanMovie(box, of: &bytes)
            }
        }
        return CleanedFile(bytes: bytes, size: nil)
    }

    /// Overwrites the descriptions of a film, or of a part of one, and of its tracks.
    static func cleanMovie(_ movie: FileBox, of file: inout [UInt8]) {
        for box in file.boxes(in: movie.content) {
            if FileBox.descriptions.contains(box.type) {
                file.free(box)
            } else if box.type == "trak" || box.type == "traf" {
                for part in file.boxes(in: box.content)
                where FileBox.descriptions.contains(part.type) {
                    file.free(part)
                }
            }
        }
    }
}
