import SanguineModel

/// A file as it is stored: its type by its content, and nothing of where it was made.
///
/// Of JPEG, PNG and WebP only those parts are kept that the picture needs, and its orientation. Of
/// HEIC, MP4, QuickTime and WebM the parts that describe are overwritten where they stand, so that
/// nothing moves, and what follows the last part is cut off. What the tracks of a video hold is not
/// looked at.
///
/// Reading takes time in proportion to the file, and never more memory than a second one.
struct BlobContent {
    /// What is stored.
    let bytes: [UInt8]
    /// What it is.
    let type: BlobType
    /// The size of an image.
    let size: PixelSize?

    /// Reads a file.
    ///
    /// - Throws: in this order `unsupported_media_type`, naming what is taken, `malformed_body` for
    ///   a file that is not whole, and `body_too_large` for an image of too many pixels.
    init(_ file: [UInt8]) throws(Problem) {
        guard let type = BlobType(of: file) else { throw .unknownType }
        let cleaned: CleanedFile? =
            switch type {
            case .jpeg: JPEGFile.clean(file)
            case .png: PNGFile.clean(file)
            case .webp: WebPFile.clean(file)
            case .heic: HEICFile.clean(file)
            case .mp4, .quickTime: VideoFile.clean(file)
            case .webm: WebMFile.clean(file)
            }
        guard let cleaned else {
            throw Problem(
                .malformedBody,
                "Send a whole file: this one begins as \(type.rawValue), and cannot be read on."
            )
        }
        if let size = cleaned.size, size.pixels > WireLimits.blobPixels {
            throw Problem(
                .bodyTooLarge,
                """
                Send an image of at most \(WireLimits.blobPixels) pixels: this one has \
                \(size.width) × \(size.height).
                """
            )
        }
        self.type = type
        bytes = cleaned.bytes
        size = cleaned.size
    }
}

/// A file without what it says of where it was made.
struct CleanedFile {
    var bytes: [UInt8]
    /// `nil` for a video.
    var size: PixelSize?
}

extension Problem {
    fileprivate static var unknownType: Problem {
        let types = BlobType.allCases.map(\.rawValue).joined(separator: ", ")
        return Problem(
            .unsupportedMediaType,
            "Send a file of one of these types, which its content tells: \(types)."
        )
    }
}
