import Foundation
import SanguineMedia
import SanguineModel

#if canImport(ImageIO)
import CoreGraphics
import ImageIO
#endif

/// Decodes image files at the size at which they are shown.
protocol ImageDecoder: Sendable {
    /// Decodes the first frame of a file. Runs in the background.
    ///
    /// - Parameters:
    ///   - data: The file, whose header was read.
    ///   - header: Its type and size.
    ///   - side: The longest side of the result in pixels; 0 for that of the file. A smaller image
    ///     is not enlarged.
    /// - Returns: The image, or `nil` if the file is damaged.
    func decode(_ data: Data, _ header: ImageHeader, side: Int) -> DecodedImage?
}

extension ImageHeader {
    /// Returns the size of the image when it is decoded with a longest side.
    func size(side: Int) -> (width: Int, height: Int) {
        let longest = max(width, height)
        guard side > 0, longest > side else { return (width, height) }
        let scale = Double(side) / Double(longest)
        return (
            max(1, Int((Double(width) * scale).rounded())),
            max(1, Int((Double(height) * scale).rounded()))
        )
    }
}

#if canImport(ImageIO)
/// Decodes with ImageIO, which reads a large file in parts and never decodes it in full.
struct PlatformImageDecoder: ImageDecoder {
    func decode(_ data: Data, _ header: ImageHeader, side: Int) -> DecodedImage? {
        let options = [kCGImageSourceShouldCache: false] as CFDictionary
        guard let source = CGImageSourceCreateWithData(data as CFData, options),
            CGImageSourceGetStatus(source) == .statusComplete
        else { return nil }
        let longest = side > 0 ? min(side, max(header.width, header.height)) : 0
        let size = longest > 0 ? longest : max(header.width, header.height)
        let thumbnail =
            [
                kCGImageSourceCreateThumbnailFromImageAlways: true,
                kCGImageSourceCreateThumbnailWithTransform: true,
                kCGImageSourceShouldCacheImmediately: true,
                kCGImageSourceThumbnailMaxPixelSize: size,
            ] as CFDictionary
        guard let image = CGImageSourceCreateThumbnailAtIndex(source, 0, thumbnail) else {
            return nil
        }
        return DecodedImage(
            pixels: DecodedImage.Pixels(image: image),
            width: image.width,
            height: image.height,
            isAnimated: CGImageSourceGetCount(source) > 1 && header.isAnimated,
            cost: max(image.bytesPerRow * image.height, 1)
        )
    }
}
#else
/// Keeps the file as it is, for platforms without a decoder: its cost is its size.
struct PlatformImageDecoder: ImageDecoder {
    func decode(_ data: Data, _ header: ImageHeader, side: Int) -> DecodedImage? {
        DecodedImage(
            data: data,
            width: header.width,
            height: header.height,
            isAnimated: header.isAnimated,
            cost: data.count
        )
    }
}
#endif
