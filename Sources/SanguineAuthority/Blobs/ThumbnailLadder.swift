/// The fixed sizes of thumbnails, so that a few of them serve all requests.
///
/// A size is the maximum length of the longer side in pixels.
package enum ThumbnailLadder {
    /// The sizes, in ascending order.
    package static let sides = [
        32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048,
    ]

    /// The answer to a request for an image that fits.
    enum Choice: Equatable {
        /// The stored image fits.
        case original
        /// The thumbnail of this size fits.
        case thumbnail(side: Int)
    }

    /// Returns the largest image that fits into a box.
    ///
    /// - Parameters:
    ///   - size: The size of the stored image.
    ///   - width: The maximum width; `nil` for any.
    ///   - height: The maximum height; `nil` for any.
    /// - Returns: The choice; the smallest size if none fits.
    static func choose(_ size: PixelSize, width: Int?, height: Int?) -> Choice {
        let (width, height) = (width ?? .max, height ?? .max)
        if size.width <= width, size.height <= height { return .original }
        let longer = max(size.width, size.height)
        let fitting = sides.last { side in
            side < longer && scaled(size.width, longer, side) <= width
                && scaled(size.height, longer, side) <= height
        }
        return .thumbnail(side: fitting ?? sides[0])
    }

    /// The length of a side in the thumbnail, rounded, and at least one pixel.
    private static func scaled(_ length: Int, _ longer: Int, _ side: Int) -> Int {
        max(1, (2 * length * side + longer) / (2 * longer))
    }
}
