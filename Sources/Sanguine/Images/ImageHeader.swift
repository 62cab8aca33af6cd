import Foundation

/// The type, the size and the number of frames of an image, read from the beginning of its file.
///
/// It reads JPEG, PNG, GIF, WebP, HEIC and AVIF. No pixel is decoded, and no length in the file is
/// believed beyond its end.
struct ImageHeader: Hashable, Sendable {
    enum Kind: String, Sendable {
        case jpeg = "image/jpeg"
        case png = "image/png"
        case gif = "image/gif"
        case webp = "image/webp"
        case heic = "image/heic"
        case avif = "image/avif"
    }

    let kind: Kind
    /// The size in pixels, as it is shown: after the orientation is applied.
    let width: Int
    let height: Int
    /// Whether the file has more than one frame.
    var isAnimated = false

    /// Reads a file; `nil` if it is not an image of a known type, or has no size.
    init?(_ data: Data) {
        let file = ImageBytes(data)
        let found: ImageHeader? =
            if file.starts(with: [0xFF, 0xD8, 0xFF]) {
                Self.jpeg(file)
            } else if file.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
                Self.png(file)
            } else if file.has("GIF8", at: 0) {
                Self.gif(file)
            } else if file.has("RIFF", at: 0), file.has("WEBP", at: 8) {
                Self.webp(file)
            } else if file.has("ftyp", at: 4) {
                Self.boxes(file)
            } else {
                nil
            }
        guard let found, found.width > 0, found.height > 0 else { return nil }
        self = found
    }

    private init?(_ kind: Kind, _ width: Int?, _ height: Int?, isAnimated: Bool = false) {
        guard let width, let height else { return nil }
        (self.kind, self.width, self.height) = (kind, width, height)
        self.isAnimated = isAnimated
    }

    private static func png(_ file: ImageBytes) -> ImageHeader? {
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

    private static func gif(_ file: ImageBytes) -> ImageHeader? {
        guard let flags = file.big(10, 1) else { return nil }
        var offset = 13 + table(flags)
        var frames = 0
        // Skips blocks until the second frame (GIF89a, section 19 and following).
        while frames < 2, let block = file.big(offset, 1) {
            switch block {
            case 0x21: offset = file.endOfBlocks(after: offset + 2)
            case 0x2C:
                let local = file.big(offset + 9, 1)
                frames += local == nil ? 0 : 1
                offset = file.endOfBlocks(after: offset + 11 + table(local ?? 0))
            default: offset = .max / 2
            }
        }
        return ImageHeader(.gif, file.little(6, 2), file.little(8, 2), isAnimated: frames > 1)
    }

    /// The bytes of a color table with these flags.
    private static func table(_ flags: Int) -> Int {
        flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1)
    }

    private static func webp(_ file: ImageBytes) -> ImageHeader? {
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
    private static func jpeg(_ file: ImageBytes) -> ImageHeader? {
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
    private static func exif(_ file: ImageBytes, _ start: Int, end: Int) -> Bool? {
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
    private static func boxes(_ file: ImageBytes) -> ImageHeader? {
        let brands = Set(stride(from: 8, to: min(file.big(0, 4) ?? 0, 256), by: 4).map(file.text))
        let kind: Kind
        if !brands.isDisjoint(with: ["avif", "avis"]) {
            kind = .avif
        } else if !brands.isDisjoint(with: ["heic", "heix", "heim", "heis", "mif1", "msf1"]) {
            kind = .heic
        } else {
            return nil
        }
        guard let meta = file.box("meta", in: 0..<file.count),
            let properties = file.box("iprp", in: meta.dropFirst(4)),
            let container = file.box("ipco", in: properties)
        else { return nil }
        // The largest of the sizes is that of the whole picture, and the others are of its tiles
        // and thumbnails. A rotation of a quarter turn (`irot`, 1 or 3) applies to the picture.
        let sizes = file.boxes("ispe", in: container).compactMap { box -> (Int, Int)? in
            guard let width = file.big(box.lowerBound + 4, 4),
                let height = file.big(box.lowerBound + 8, 4)
            else { return nil }
            return (width, height)
        }
        guard let size = sizes.max(by: { $0.0 < $1.0 }) else { return nil }
        let turn = file.boxes("irot", in: container).first.flatMap { file.big($0.lowerBound, 1) }
        let isTurned = (turn ?? 0) & 1 == 1
        return ImageHeader(
            kind,
            isTurned ? size.1 : size.0,
            isTurned ? size.0 : size.1,
            isAnimated: brands.contains("msf1") || brands.contains("avis")
        )
    }
}

/// Reads numbers from a file; everything beyond its end is `nil`.
struct ImageBytes {
    private let data: Data
    private let start: Int

    init(_ data: Data) { (self.data, start) = (data, data.startIndex) }

    var count: Int { data.count }

    func starts(with bytes: [UInt8]) -> Bool { data.starts(with: bytes) }

    func big(_ offset: Int, _ width: Int) -> Int? {
        guard offset >= 0, offset <= count - width else { return nil }
        return (0..<width).reduce(0) { $0 << 8 | Int(data[start + offset + $1]) }
    }

    func little(_ offset: Int, _ width: Int) -> Int? {
        guard offset >= 0, offset <= count - width else { return nil }
        return (0..<width).reversed().reduce(0) { $0 << 8 | Int(data[start + offset + $1]) }
    }

    func has(_ text: String, at offset: Int) -> Bool {
        guard offset >= 0, offset <= count - text.utf8.count else { return false }
        return zip(text.utf8, data[(start + offset)...]).allSatisfy { $0 == $1 }
    }

    /// The four characters at an offset; empty beyond the end.
    func text(_ offset: Int) -> String {
        guard offset >= 0, offset <= count - 4 else { return "" }
        return String(decoding: data[(start + offset)..<(start + offset + 4)], as: UTF8.self)
    }

    /// Returns the offset behind a sequence of blocks, each with its length in its first byte.
    func endOfBlocks(after offset: Int) -> Int {
        var offset = offset
        while let length = big(offset, 1) {
            offset += 1 + length
            if length == 0 { break }
        }
        return offset
    }

    func box(_ type: String, in range: Range<Int>) -> Range<Int>? {
        boxes(type, in: range, limit: 1).first
    }

    /// Returns the contents of the boxes of a type (ISO/IEC 14496-12), in their order.
    func boxes(_ type: String, in range: Range<Int>, limit: Int = 256) -> [Range<Int>] {
        var found: [Range<Int>] = []
        var offset = range.lowerBound
        while found.count < limit, offset + 8 <= range.upperBound, let size = big(offset, 4) {
            // A size of 0 means that the box ends with the file; 1, that a large size follows.
            let room = range.upperBound - offset
            guard size == 0 || size >= 8 && size <= room else { break }
            let end = offset + (size == 0 ? room : size)
            if text(offset + 4) == type { found.append(offset + 8..<end) }
            offset = end
        }
        return found
    }
}
