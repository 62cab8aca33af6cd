import SanguineVips

/// Facts from the header of an image.
package struct ImageFacts: Hashable, Sendable {
    /// The width in pixels for display, with the orientation applied.
    package var width: Int
    /// The height in pixels for display, with the orientation applied.
    package var height: Int
    /// The number of frames; 1 for a still image.
    package var frames: Int
    /// The EXIF orientation, 1 to 8.
    package var orientation: Int
    /// Whether the image has transparency.
    package var hasAlpha: Bool
    /// Whether the decoder needs the whole image in memory.
    package var isWhole: Bool

    /// Creates the facts of an image that has no transparency and is decoded by lines.
    package init(width: Int, height: Int, frames: Int = 1, orientation: Int = 1) {
        (self.width, self.height) = (width, height)
        (self.frames, self.orientation) = (frames, orientation)
        (hasAlpha, isWhole) = (false, false)
    }

    init(_ facts: sanguine_facts) {
        width = Int(facts.width)
        height = Int(facts.height)
        frames = Int(facts.frames)
        orientation = Int(facts.orientation)
        hasAlpha = facts.has_alpha
        isWhole = facts.is_whole
    }

    /// The number of pixels of all frames.
    package var pixels: Int { width * height * frames }
}

/// An encoded image.
package struct EncodedImage: Sendable {
    /// Its bytes.
    package let bytes: [UInt8]
    /// Its format.
    package let format: ImageFormat
    /// Its facts.
    package let facts: ImageFacts
}

/// The pixels of a decoded image.
package struct ImagePixels: Hashable, Sendable {
    /// The width in pixels.
    package let width: Int
    /// The height in pixels.
    package let height: Int
    /// Red, green, blue and opacity of each pixel, 0 to 255, not premultiplied, row by row from the
    /// top.
    package let rgba: [UInt8]
}

/// The reason why an image was not examined, cleaned or scaled.
package enum ImageFailure: Error, Hashable, Sendable {
    /// The bytes are not a complete image of their format.
    case unreadable
    /// The coding is not accepted, such as AV1 in a HEIC file.
    case unsupported
    /// The image has too many pixels or frames.
    case tooLarge(ImageFacts)
    /// The time limit was exceeded.
    case timeout
    /// The task was cancelled.
    case cancelled
    /// libvips, or its decoder for the format, is not installed.
    case unavailable
}

/// The limits of one image.
package struct DecodingLimits: Hashable, Sendable {
    /// The maximum number of pixels of all frames together; 50,000,000 unless changed.
    package var pixels = 50_000_000
    /// The maximum number of frames; 300 unless changed.
    package var frames = 300
    /// The maximum time in progress, without the wait for a turn; 20 seconds unless changed.
    package var time: Duration = .seconds(20)

    /// Creates the default limits.
    package init() {}

    /// Whether an image may be decoded.
    package func allow(_ facts: ImageFacts) -> Bool {
        facts.frames <= frames && facts.pixels <= pixels
    }

    var bounds: sanguine_bounds {
        sanguine_bounds(
            pixels: Int64(clamping: pixels),
            frames: Int32(clamping: frames),
            milliseconds: time.components.seconds * 1_000
                + time.components.attoseconds / 1_000_000_000_000_000
        )
    }
}
