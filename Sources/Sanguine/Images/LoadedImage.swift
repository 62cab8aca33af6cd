public import Foundation

#if canImport(ImageIO)
public import CoreGraphics
#endif

/// An image that can be shown.
public struct LoadedImage: Sendable {
    /// Where an image came from.
    public enum Origin: String, Hashable, Codable, Sendable {
        /// It was decoded and in memory.
        case memory
        /// Its file was on disk.
        case disk
        /// Its file was loaded from its host.
        case network
    }

    let picture: DecodedImage
    /// The key of the image in memory.
    let key: ImageKey
    /// Whether a larger version of the image is being loaded.
    public let isThumbnail: Bool
    /// Where the image came from.
    public let origin: Origin
    /// The width in pixels, as decoded.
    public var width: Int { picture.width }
    /// The height in pixels, as decoded.
    public var height: Int { picture.height }
    /// Whether the file has more than one frame; ``LoadedImage`` is the first one.
    ///
    /// Only one frame is decoded and counted, so that a list of animated images takes no more memory
    /// than one of photos.
    public var isAnimated: Bool { picture.isAnimated }
    /// The cost in memory, in bytes.
    public var cost: Int { picture.cost }

    #if canImport(ImageIO)
    /// The decoded pixels.
    public var cgImage: CGImage? { picture.pixels?.image }
    #endif

    /// The bytes of the file, where images are not decoded; `nil` on Apple's platforms.
    public var data: Data? { picture.data }
}

extension LoadedImage: Equatable {
    /// Two images are equal if they have the same key, the same content and the same role.
    public static func == (lhs: LoadedImage, rhs: LoadedImage) -> Bool {
        lhs.key == rhs.key && lhs.isThumbnail == rhs.isThumbnail && lhs.picture == rhs.picture
    }
}

/// An image in the form in which it stays in memory.
struct DecodedImage: Sendable, Equatable {
    #if canImport(ImageIO)
    /// The decoded pixels.
    // Unchecked: a CGImage is immutable, and may be used from any thread.
    struct Pixels: @unchecked Sendable, Equatable {
        let image: CGImage

        static func == (lhs: Pixels, rhs: Pixels) -> Bool { lhs.image === rhs.image }
    }

    var pixels: Pixels?
    #endif
    /// The bytes of the file, if they are not decoded.
    var data: Data?
    var width: Int
    var height: Int
    var isAnimated = false
    var cost: Int
}
