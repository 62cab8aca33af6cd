import SanguineMedia
package import SanguineModel

/// The content of a file as it is stored: its type is detected from its bytes, and data about its
/// origin is removed.
///
/// An image is cleaned by an ``ImageProcessor``. In MP4, QuickTime and WebM files the parts with
/// metadata are overwritten in place, so that offsets stay valid, and bytes after the last part are
/// cut off. The data inside the tracks of a video is not examined.
struct BlobContent {
    /// The bytes to store.
    let bytes: [UInt8]
    /// The type of the stored bytes.
    let type: MediaType
    /// The size of an image; `nil` for a video.
    let size: PixelSize?
    /// The placeholder of an image; `nil` for a video, and without a decoder.
    let placeholder: ThumbHash?

    /// Reads and cleans a file.
    ///
    /// - Throws: in this order `unsupported_media_type`, naming the accepted types,
    ///   `malformed_body` for an incomplete video, or the problem of the processor.
    init(
        _ file: [UInt8],
        for account: Identifier,
        by images: any ImageProcessor
    ) async throws(Problem) {
        guard let type = MediaType.accepted(file) else { throw .unknownType }
        guard type.isImage else {
            bytes = try await WireBody.perform(file.count, for: account) { () throws(Problem) in
                guard let bytes = VideoFile.clean(file, as: type) else {
                    throw .incomplete(type.rawValue)
                }
                return bytes
            }
            (self.type, size, placeholder) = (type, nil, nil)
            return
        }
        let image = try await images.clean(file, type: type.rawValue, for: account)
        guard let stored = MediaType(rawValue: image.type) else { throw .unknownType }
        self.type = stored
        bytes = image.bytes
        size = PixelSize(image.width, image.height)
        placeholder = image.placeholder
    }
}

extension MediaType {
    /// The types of files that are stored.
    static let accepted: [MediaType] = [.jpeg, .png, .webp, .heic, .mp4, .quickTime, .webm]

    /// Returns the type of a file that can be stored; `nil` for other content.
    static func accepted(_ file: [UInt8]) -> MediaType? {
        MediaType(of: file).flatMap { accepted.contains($0) ? $0 : nil }
    }
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
        let types = MediaType.accepted.map(\.rawValue).joined(separator: ", ")
        return Problem(
            .unsupportedMediaType,
            "Send a file whose content has one of these types: \(types)."
        )
    }
}
