package import Foundation

/// The type, the size and the number of frames of an image, read from the beginning of its file.
///
/// It reads JPEG, PNG, GIF, WebP, HEIC and AVIF. No pixel is decoded, and no length in the file is
/// believed beyond its end. Clients without a decoder and the authority of tests need it: a server
/// reads images with libvips.
package struct ImageHeader: Hashable, Sendable {
    /// The type, which is that of an image.
    package let kind: MediaType
    /// The width in pixels, as it is shown: after the orientation of a JPEG or HEIC is applied.
    package let width: Int
    /// The height in pixels, as it is shown.
    package let height: Int
    /// Whether the file has more than one frame.
    package let isAnimated: Bool

    /// Reads a file; `nil` if it is not an image of a known type, or has no size.
    package init?(_ data: Data) {
        guard let header = data.withUnsafeBytes({ Self.read($0) }) else { return nil }
        self = header
    }

    /// Reads a file; `nil` if it is not an image of a known type, or has no size.
    package init?(_ file: [UInt8]) {
        guard let header = Self.read(file) else { return nil }
        self = header
    }

    private init?(_ kind: MediaType, _ width: Int?, _ height: Int?, isAnimated: Bool = false) {
        guard let width, let height, width > 0, height > 0 else { return nil }
        (self.kind, self.width, self.height) = (kind, width, height)
        self.isAnimated = isAnimated
    }

    private static func read(_ file: some FileBytes) -> ImageHeader? {
        guard let type = MediaType.detect(file) else { return nil }
        return switch type {
        case .jpeg: jpeg(file)
        case .png: png(file)
        case .gif: gif(file)
        case .webp: webp(file)
        case .heic, .heif, .avif: boxes(file, type)
        case .mp4, .quickTime, .webm: nil
        }
    }

    private static func png(_ file: some FileBytes) -> ImageHeader? {
        guard file.has("IHDR", at: 12) else { return nil }
        // An animation has a chunk `acTL` before the picture's data (APNG).
        var (offset, isAnimated) = (8, false)
        for _ in 0..<64 {
            guard let length = file.big(offset, 4), length >= 0, length <= file.count,
                !file.has("IDAT", at: offset + 4)
            else { break }
            if file.has("acTL", at: offset + 4) { isAnimated = file.big(offset + 8, 4) ?? 0 > 1 }
            offset += 12 + length
        }
        return ImageHeader(.png, file.big(16, 4), file.big(20, 4), isAnimated: isAnimated)
    }

    private static func gif(_ file: some FileBytes) -> ImageHeader? {
        guard let flags = file.big(10, 1) else { return nil }
        var offset = 13 + table(flags)
        var frames = 0
        // Skips blocks until the second frame (GIF89a, section 19 and following).
        while frames < 2, let block = file.big(offset, 1) {
            switch block {
            case 0x21: offset = endOfBlocks(of: file, after: offset + 2)
            case 0x2C:
                let local = file.big(offset + 9, 1)
                frames += local == nil ? 0 : 1
                offset = endOfBlocks(of: file, after: offset + 11 + table(local ?? 0))
            default: offset = .max / 2
            }
        }
        return ImageHeader(.gif, file.little(6, 2), file.little(8, 2), isAnimated: frames > 1)
    }

    /// Returns the offset behind a sequence of blocks, each with its length in its first byte.
    private static func endOfBlocks(of file: some FileBytes, after start: Int) -> Int {
        var offset = start
        while let length = file.big(offset, 1) {
            offset += 1 + length
            if length == 0 { break }
        }
        return offset
    }

    /// The bytes of a color table with these flags.
    private static func table(_ flags: Int) -> Int {
        flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1)
    }

    private static func webp(_ file: some FileBytes) -> ImageHeader? {
        if file.has("VP8X", at: 12), let flags = file.big(20, 1) {
            let (width, height) = (file.little(24, 3), file.little(27, 3))
            return ImageHeader(
                .webp,
                width.map { $0 + 1 },
                height.map { $0 + 1 },
                isAnimated: flags & 2 != 0
            )
        }
        if file.has("VP8L", at: 12), let bits = file.little(21, 4) {
            return ImageHeader(.webp, bits & 0x3FFF + 1, bits >> 14 & 0x3FFF + 1)
        }
        guard file.has("VP8 ", at: 12) else { return nil }
        let (width, height) = (file.little(26, 2), file.little(28, 2))
        return ImageHeader(.webp, width.map { $0 & 0x3FFF }, height.map { $0 & 0x3FFF })
    }
}

// MARK: - JPEG

extension ImageHeader {
    private static func jpeg(_ file: some FileBytes) -> ImageHeader? {
        var (offset, isTurned) = (2, false)
        while let marker = file.big(offset, 2), marker >= 0xFF00 {
            if marker == 0xFFFF {
                offset += 1  // A filler byte.
                continue
            }
            guard let length = file.big(offset + 2, 2), length >= 2 else { return nil }
            let code = marker & 0xFF
            if code == 0xE1, let turned = exif(file, offset + 4, end: offset + 2 + length) {
                isTurned = turned
            }
            let isFrame = (0xC0...0xCF).contains(code) && ![0xC4, 0xC8, 0xCC].contains(code)
            if isFrame {
                let (height, width) = (file.big(offset + 5, 2), file.big(offset + 7, 2))
                return ImageHeader(.jpeg, isTurned ? height : width, isTurned ? width : height)
            }
            guard code != 0xD9, code != 0xDA else { return nil }
            offset += 2 + length
        }
        return nil
    }

    /// Returns whether the orientation in a segment swaps width and height; `nil` if it has none.
    private static func exif(_ file: some FileBytes, _ start: Int, end: Int) -> Bool? {
        guard file.has("Exif", at: start) else { return nil }
        let tiff = start + 6
        let isLittle = file.has("II", at: tiff)
        func number(_ offset: Int, _ width: Int) -> Int? {
            guard offset >= tiff, offset + width <= end else { return nil }
            return isLittle ? file.little(offset, width) : file.big(offset, width)
        }
        guard let first = number(tiff + 4, 4), first >= 0, first <= file.count,
            let count = number(tiff + first, 2)
        else { return nil }
        for index in 0..<min(count, 64) {
            let entry = tiff + first + 2 + 12 * index
            guard let tag = number(entry, 2) else { return nil }
            if tag == 0x0112 { return number(entry + 8, 2).map { $0 >= 5 && $0 <= 8 } }
        }
        return nil
    }
}

// MARK: - HEIC and AVIF

extension ImageHeader {
    private static func boxes(_ file: some FileBytes, _ type: MediaType) -> ImageHeader? {
        guard let meta = file.box("meta", in: 0..<file.count),
            // The content starts with a version and flags.
            let properties = file.box("iprp", in: meta.content.dropFirst(4)),
            let container = file.box("ipco", in: properties.content)
        else { return nil }
        let boxes = file.boxes(in: container.content)
        // The largest of the sizes is that of the whole picture, and the others are of its tiles
        // and thumbnails. A rotation of a quarter turn (`irot`, 1 or 3) applies to the picture.
        let sizes = boxes.filter { $0.type == "ispe" }.compactMap { box -> (Int, Int)? in
            let start = box.content.lowerBound
            guard box.content.count >= 12, let width = file.big(start + 4, 4),
                let height = file.big(start + 8, 4)
            else { return nil }
            return (width, height)
        }
        guard let size = sizes.max(by: { $0.0 < $1.0 }) else { return nil }
        let rotation = boxes.first { $0.type == "irot" && !$0.content.isEmpty }
        let turn = rotation.flatMap { file.big($0.content.lowerBound, 1) } ?? 0
        let isTurned = turn & 1 == 1
        return ImageHeader(
            type,
            isTurned ? size.1 : size.0,
            isTurned ? size.0 : size.1,
            // The major brand of a sequence.
            isAnimated: ["msf1", "avis", "hevc"].contains(file.text(at: 8) ?? "")
        )
    }
}
