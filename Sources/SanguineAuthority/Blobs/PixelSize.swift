/// The size of an image in pixels.
struct PixelSize: Hashable {
    let width: Int
    let height: Int

    /// Returns `nil` for an empty image, and for a side that exceeds 32 bits.
    init?(_ width: Int?, _ height: Int?) {
        guard let width, let height, width > 0, height > 0, width <= UInt32.max,
            height <= UInt32.max
        else { return nil }
        self.width = width
        self.height = height
    }
}
