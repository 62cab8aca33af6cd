package import SanguineModel

/// The content of a file as it is stored: its type is detected from its bytes, and data about its
/// origin is removed.
///
/// JPEG, PNG and WebP files keep only the parts that the picture needs, and its orientation. In
/// HEIC, MP4, QuickTime and WebM files the parts with metadata are overwritten in place, so that
/// offsets stay valid, and bytes after the last part are cut off. The data inside the tracks of a
/// video is not examined.
///
/// Cleaning takes time in proportion to the file, and memory for at most one copy of it.
struct BlobContent {
    /// The bytes to store.
    let bytes: [UInt8]
    /// The type that was detected from the bytes.
    let type: BlobType
    /// The size of an image; `nil` for a video.
    let size: PixelSize?
    /// The placeholder of an image; `nil` for a video, and without a decoder.
    let placeholder: ThumbHash?

    /// Reads and cleans a file.
    ///
    /// - Throws: in this order `unsupported_media_type`, naming the accepted types,
    ///   `malformed_body` for an incomplete file, `body_too_large` for an image of too many pixels.
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
        guard let cleaned else { throw .incomplete(type.rawValue) }
        if let size = cleaned.size, size.pixels > WireLimits.blobPixels {
            throw .tooManyPixels(size.width, size.height)
        }
        self.type = type
        bytes = cleaned.bytes
        size = cleaned.size
        placeholder = nil
    }

    /// Reads and cleans a file, an image by a decoder.
    ///
    /// - Throws: in this order `unsupported_media_type`, and the problem of the processor, or of
    ///   ``init(_:)``.
    init(
        _ file: [UInt8],
        for account: Identifier,
        by images: any ImageProcessor
    ) async throws(Problem) {
        guard let type = BlobType(of: file) else { throw .unknownType }
        guard type.isImage else {
            self = try await WireBody.perform(file.count, for: account) { () throws(Problem) in
                try BlobContent(file)
            }
            return
        }
        let image = try await images.clean(file, type: type.rawValue, for: account)
        guard let stored = BlobType(rawValue: image.type) else { throw .unknownType }
        self.type = stored
        bytes = image.bytes
        size = PixelSize(image.width, image.height)
        placeholder = image.placeholder
    }
}

/// A file without metadata about its origin.
struct CleanedFile {
    var bytes: [UInt8]
    /// `nil` for a video.
    var size: PixelSize?
}

extension Problem {
    /// The error for a file that is not a complete one of its type.
    package static func incomplete(_ type: String) -> Problem {
        Problem(
            .malformedBody,
            "Send a complete file: this one begins as \(type), but is not valid."
        )
    }

    /// The error for an image with too many pixels.
    package static func tooManyPixels(_ width: Int, _ height: Int) -> Problem {
        Problem(
            .bodyTooLarge,
            """
            Send an image of at most \(WireLimits.blobPixels) pixels: this one has \
            \(width) × \(height).
            """
        )
    }

    static var unknownType: Problem {
        let types = BlobType.allCases.map(\.rawValue).joined(separator: ", ")
        return Problem(
            .unsupportedMediaType,
            "Send a file whose content has one of these types: \(types)."
        )
    }
}
