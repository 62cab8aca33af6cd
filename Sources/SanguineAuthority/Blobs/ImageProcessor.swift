import SanguineMedia
public import SanguineModel

/// Cleans uploaded images and scales stored ones; the part of the authority that needs a decoder.
///
/// A server has one that uses libvips. Without one, as in tests, ``UnscaledImages`` is used.
public protocol ImageProcessor: Sendable {
    /// Returns an image as it is stored: without metadata about its origin.
    ///
    /// - Parameters:
    ///   - file: The uploaded bytes.
    ///   - type: The type that the first bytes indicate: JPEG, PNG, WebP or HEIC.
    ///   - account: The account that uploads it.
    /// - Returns: The image, which may have another type.
    /// - Throws: in this order `malformed_body` for an incomplete image, `unsupported_media_type`
    ///   for a coding that is not accepted, `body_too_large` for too many pixels or frames.
    func clean(
        _ file: [UInt8],
        type: String,
        for account: Identifier
    ) async throws(Problem) -> CleanedImage

    /// Returns a thumbnail of a stored image, made at most once and kept.
    ///
    /// - Parameters:
    ///   - image: The image.
    ///   - side: The maximum length of its longer side in pixels.
    ///   - file: Reads the stored bytes; only called if the thumbnail is not known.
    /// - Returns: The thumbnail.
    /// - Throws: `invalid_content` for an image that cannot be decoded, or a problem of `file`.
    func thumbnail(
        of image: BlobRow,
        side: Int,
        from file: @escaping @Sendable () async throws(Problem) -> [UInt8]
    ) async throws(Problem) -> Thumbnail

    /// Removes all thumbnails of a file, whose bytes were removed.
    func removeThumbnails(of id: BlobID) async
}

/// An image as it is stored.
public struct CleanedImage: Hashable, Sendable {
    /// Its bytes.
    public var bytes: [UInt8]
    /// Its media type.
    public var type: String
    /// Its width in pixels.
    public var width: Int
    /// Its height in pixels.
    public var height: Int
    /// Its placeholder; `nil` if none was computed.
    public var placeholder: ThumbHash?

    /// Creates an image.
    public init(
        bytes: [UInt8],
        type: String,
        width: Int,
        height: Int,
        placeholder: ThumbHash? = nil
    ) {
        (self.bytes, self.type) = (bytes, type)
        (self.width, self.height) = (width, height)
        self.placeholder = placeholder
    }
}

/// A scaled image.
public struct Thumbnail: Hashable, Sendable {
    /// Its bytes.
    public let bytes: [UInt8]
    /// Its media type.
    public let type: String

    /// Creates a thumbnail.
    public init(bytes: [UInt8], type: String) { (self.bytes, self.type) = (bytes, type) }
}

/// Stores images as they are, with their metadata, and returns them in their full size instead of
/// thumbnails.
///
/// This is for tests, which need no decoder: only the header of an image is read.
public struct UnscaledImages: ImageProcessor {
    /// Creates an instance.
    public init() {}

    /// Returns the image unchanged, if its header has the type and a size.
    public func clean(
        _ file: [UInt8],
        type: String,
        for account: Identifier
    ) async throws(Problem) -> CleanedImage {
        try await WireBody.perform(file.count, for: account) { () throws(Problem) in
            guard let header = ImageHeader(file), header.kind.rawValue == type else {
                throw .incomplete(type)
            }
            guard header.width <= WireLimits.blobPixels / header.height else {
                throw .tooManyPixels(header.width, header.height)
            }
            return CleanedImage(
                bytes: file,
                type: type,
                width: header.width,
                height: header.height
            )
        }
    }

    /// Returns the stored image, in its full size.
    public func thumbnail(
        of image: BlobRow,
        side: Int,
        from file: @escaping @Sendable () async throws(Problem) -> [UInt8]
    ) async throws(Problem) -> Thumbnail {
        Thumbnail(bytes: try await file(), type: image.type)
    }

    /// Does nothing, because no thumbnails are kept.
    public func removeThumbnails(of id: BlobID) async {}
}
