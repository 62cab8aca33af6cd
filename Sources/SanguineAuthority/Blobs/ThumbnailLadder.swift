import SanguineModel

/// The choice among the fixed sizes of thumbnails, of which a few serve all requests.
enum ThumbnailLadder {
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
        let fitting = WireLimits.imageSides.last { side in
            side < longer && scaled(size.width, longer, side) <= width
                && scaled(size.height, longer, side) <= height
        }
        return .thumbnail(side: fitting ?? WireLimits.imageSides[0])
    }

    /// The length of a side in the thumbnail, rounded, and at least one pixel.
    private static func scaled(_ length: Int, _ longer: Int, _ side: Int) -> Int {
        max(1, (2 * length * side + longer) / (2 * longer))
    }
}
