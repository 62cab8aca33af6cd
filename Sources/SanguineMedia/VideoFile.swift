/// Removes metadata about a video's origin.
package enum VideoFile {
    /// Returns the video as it is stored; `nil` if it is not a complete file of its type.
    ///
    /// Parts with metadata are overwritten in place, so that offsets stay valid, and bytes after
    /// the last part are cut off. The data inside the tracks of pictures and sound is not examined.
    ///
    /// The time is in proportion to the size of the file. The memory is that of one copy, and of a
    /// list of at most 10,000 boxes for each of eight levels.
    package static func clean(_ file: [UInt8], as type: MediaType) -> [UInt8]? {
        switch type {
        case .mp4, .quickTime: MovieFile.clean(file)
        case .webm: WebMFile.clean(file)
        case .jpeg, .png, .gif, .webp, .heic, .heif, .avif: nil
        }
    }
}
