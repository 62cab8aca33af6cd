/// Minimal files as cameras and programs write them, with a location in each description that
/// supports one.
package enum SampleFile: String, CaseIterable, Sendable {
    case jpeg, png, webp, lossyWebP, losslessWebP, movingWebP, heic, mp4, quickTime, webm

    /// The place where the picture was taken, which must not be in the stored file.
    package static let place = "52.5200N 13.4050E"

    /// The type indicated by the content.
    package var type: String {
        switch self {
        case .jpeg: "image/jpeg"
        case .png: "image/png"
        case .webp, .lossyWebP, .losslessWebP, .movingWebP: "image/webp"
        case .heic: "image/heic"
        case .mp4: "video/mp4"
        case .quickTime: "video/quicktime"
        case .webm: "video/webm"
        }
    }

    /// Whether its pixels are counted.
    package var isImage: Bool { type.hasPrefix("image/") }

    /// Returns the file.
    ///
    /// - Parameters:
    ///   - width: The width of an image. Default: 40.
    ///   - height: The height of an image. Default: 30.
    ///   - orientation: The EXIF orientation, 1 to 8. Default: 6.
    ///   - filler: The number of bytes of picture data. Default: 9. A JPEG and a PNG can be
    ///     decoded: a PNG of the default height grows to hold them.
    /// - Returns: The bytes of the file.
    package func bytes(
        width: Int = 40,
        height: Int = 30,
        orientation: Int = 6,
        filler: Int = 9
    ) -> [UInt8] {
        let tiff = Self.tiff(orientation)
        let data = (0..<filler).map { UInt8(truncatingIfNeeded: $0 % 251) }
        return switch self {
        case .jpeg: Self.jpeg(width, height, tiff, data)
        case .png: Self.png(width, height, tiff, data)
        case .webp: Self.webp(width, height, tiff, data)
        case .lossyWebP: Self.riff(Self.lossy(width, height, data))
        case .losslessWebP: Self.riff(Self.lossless(width, height, data))
        case .movingWebP: Self.movingWebP(width, height, data)
        case .heic: Self.heic(width, height, tiff, data)
        case .mp4: Self.film("isom", "mp42", data)
        case .quickTime: Self.film("qt  ", "qt  ", data)
        case .webm: Self.webm(data)
        }
    }

    // MARK: - Parts

    /// Returns the number in that many bytes, most significant byte first.
    package static func big(_ number: Int, _ width: Int) -> [UInt8] {
        little(number, width).reversed()
    }

    private static func little(_ number: Int, _ width: Int) -> [UInt8] {
        (0..<width).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) }

    private static var xmp: [UInt8] { text("<x:xmpmeta>\(place)</x:xmpmeta>") }

    /// Returns a TIFF structure with an orientation and a location.
    private static func tiff(_ orientation: Int) -> [UInt8] {
        let gps = text(place)
        var bytes = text("II") + little(42, 2) + little(8, 4) + little(2, 2)
        bytes += little(0x0112, 2) + little(3, 2) + little(1, 4) + little(orientation, 4)
        bytes += little(0x8825, 2) + little(2, 2) + little(gps.count, 4) + little(38, 4)
        return bytes + little(0, 4) + gps
    }

    // MARK: - JPEG

    /// Returns a segment of a JPEG file.
    package static func segment(_ code: UInt8, _ content: [UInt8]) -> [UInt8] {
        [0xFF, code] + big(content.count + 2, 2) + content
    }

    private static func jpeg(
        _ width: Int,
        _ height: Int,
        _ tiff: [UInt8],
        _ data: [UInt8]
    ) -> [UInt8] {
        var bytes: [UInt8] = [0xFF, 0xD8]
        bytes += segment(0xE0, text("JFIF\0") + [1, 2, 0, 0, 1, 0, 1, 0, 0])
        bytes += segment(0xE1, text("Exif\0\0") + tiff)
        bytes += segment(0xE1, text("http://ns.adobe.com/xap/1.0/\0") + xmp)
        bytes += segment(0xED, text("Photoshop 3.0\0\(place)"))
        bytes += segment(0xE2, text("ICC_PROFILE\0") + [1, 1, 7])
        bytes += segment(0xFE, text(place))
        bytes += segment(0xDB, [0] + [UInt8](repeating: 1, count: 64))
        bytes += segment(0xC0, [8] + big(height, 2) + big(width, 2) + [1, 1, 0x11, 0])
        // Tables with one code of one bit: no difference, and the end of a block.
        for table: UInt8 in [0, 0x10] {
            bytes += segment(0xC4, [table, 1] + [UInt8](repeating: 0, count: 16))
        }
        bytes += segment(0xDA, [1, 1, 0, 0, 63, 0])
        let blocks = (width + 7) / 8 * ((height + 7) / 8)
        bytes += [UInt8](repeating: 0, count: (2 * blocks + 7) / 8)
        // Coded data that contains sequences resembling markers.
        bytes += data.flatMap { $0 == 0xFF ? [0xFF, 0] : [$0] } + [0xFF, 0, 0xFF, 0xD3, 5]
        bytes += [0xFF, 0xD9]
        // Phones append films and second pictures in this way.
        return bytes + text(place)
    }

    // MARK: - PNG

    /// Returns a chunk of a PNG file.
    package static func chunk(_ type: String, _ content: [UInt8]) -> [UInt8] {
        let checked = text(type) + content
        return big(content.count, 4) + checked + big(checksum(checked), 4)
    }

    /// The CRC-32 of each byte (PNG, annex D).
    private static let checksums: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { sum, _ in sum & 1 == 0 ? sum >> 1 : sum >> 1 ^ 0xEDB8_8320 }
    }

    private static func checksum(_ bytes: [UInt8]) -> Int {
        var sum = UInt32.max
        for byte in bytes { sum = checksums[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] ^ sum >> 8 }
        return Int(~sum)
    }

    /// Returns a zlib stream of the bytes without compression (RFC 1950 and 1951).
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = [0x78, 0x01]
        for start in stride(from: 0, to: bytes.count, by: 65_535) {
            let part = bytes[start..<min(bytes.count, start + 65_535)]
            stream.append(part.endIndex == bytes.count ? 1 : 0)
            stream += little(part.count, 2) + little(~part.count, 2) + part
        }
        var (low, high) = (1, 0)
        for byte in bytes {
            low = (low + Int(byte)) % 65_521
            high = (high + low) % 65_521
        }
        return stream + big(high << 16 | low, 4)
    }

    /// Returns the rows of a gray image, each after its filter byte.
    private static func rows(_ data: [UInt8], width: Int, height: Int) -> [UInt8] {
        var rows: [UInt8] = []
        rows.reserveCapacity((width + 1) * height)
        // Not compressible, so that a stored image is as long.
        var random = UInt32(truncatingIfNeeded: data.count)
        for row in 0..<height {
            rows.append(0)
            for column in 0..<width {
                let index = row * width + column
                random = random &* 1_664_525 &+ 1_013_904_223
                rows.append(index < data.count ? UInt8(random >> 24) : 0)
            }
        }
        return rows
    }

    private static func png(
        _ width: Int,
        _ height: Int,
        _ tiff: [UInt8],
        _ data: [UInt8]
    ) -> [UInt8] {
        let isDefault = width == 40 && height == 30
        let height = isDefault ? max(height, (data.count + width) / (width + 1)) : height
        // Few bits for few bytes. A larger image is never decoded.
        let depth: UInt8 = data.count > 1_200 / 8 ? 8 : 1
        let rowBytes = depth == 8 ? width : (width + 7) / 8
        let isReal = isDefault || rowBytes * height <= 100_000
        var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        bytes += chunk("IHDR", big(width, 4) + big(height, 4) + [depth, 0, 0, 0, 0])
        bytes += chunk("sRGB", [0])
        bytes += chunk("eXIf", tiff)
        bytes += chunk("tEXt", text("Comment\0\(place)"))
        bytes += chunk("iTXt", text("XML:com.adobe.xmp\0\0\0\0\0") + xmp)
        bytes += chunk("zTXt", text(place)) + chunk("tIME", [7, 1, 1, 1, 1, 1, 1])
        bytes += chunk("prVt", text(place))
        bytes += chunk(
            "IDAT",
            isReal ? stored(rows(data, width: rowBytes, height: height)) : data
        )
        return bytes + chunk("IEND", []) + text(place)
    }

    // MARK: - WebP

    private static func part(_ type: String, _ content: [UInt8]) -> [UInt8] {
        text(type) + little(content.count, 4) + content + (content.count % 2 == 0 ? [] : [0])
    }

    private static func riff(_ content: [UInt8]) -> [UInt8] {
        text("RIFF") + little(content.count + 4, 4) + text("WEBP") + content
    }

    private static func lossy(_ width: Int, _ height: Int, _ data: [UInt8]) -> [UInt8] {
        let head: [UInt8] = [0x10, 0, 0, 0x9D, 0x01, 0x2A]
        return part("VP8 ", head + little(width, 2) + little(height, 2) + data)
    }

    private static func lossless(_ width: Int, _ height: Int, _ data: [UInt8]) -> [UInt8] {
        part("VP8L", [0x2F] + little(width - 1 | (height - 1) << 14, 4) + data)
    }

    private static func canvas(_ flags: UInt8, _ width: Int, _ height: Int) -> [UInt8] {
        part("VP8X", [flags, 0, 0, 0] + little(width - 1, 3) + little(height - 1, 3))
    }

    private static func webp(
        _ width: Int,
        _ height: Int,
        _ tiff: [UInt8],
        _ data: [UInt8]
    ) -> [UInt8] {
        var content = canvas(0x2C, width, height)
        content += part("ICCP", [1, 2, 3]) + lossy(width, height, data)
        content += part("EXIF", tiff) + part("XMP ", xmp) + part("PRVT", text(place))
        return riff(content) + text(place)
    }

    private static func movingWebP(_ width: Int, _ height: Int, _ data: [UInt8]) -> [UInt8] {
        let head = little(0, 6) + little(width - 1, 3) + little(height - 1, 3) + [1, 0, 0, 0]
        let frame = head + lossless(width, height, data) + part("PRVT", text(place))
        let content = canvas(0x02, width, height) + part("ANIM", [0, 0, 0, 0, 0, 0])
        return riff(content + part("ANMF", frame) + part("ANMF", frame))
    }

    // MARK: - Boxes

    /// Returns a box of a file in the ISO base media file format.
    package static func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
        big(content.count + 8, 4) + text(type) + content
    }

    private static func heic(
        _ width: Int,
        _ height: Int,
        _ tiff: [UInt8],
        _ data: [UInt8]
    ) -> [UInt8] {
        let exif = [0, 0, 0, 0] + tiff
        let type = box("ftyp", text("heic") + big(0, 4) + text("mif1heic"))
        func item(_ id: Int, _ type: String) -> [UInt8] {
            box("infe", [2, 0, 0, 0] + big(id, 2) + big(0, 2) + text(type) + [0])
        }
        func meta(_ start: Int) -> [UInt8] {
            let places = [(1, start, data.count), (2, start + data.count, exif.count)]
            var locations = big(0, 4) + big(0x4400, 2) + big(places.count, 2)
            for (id, offset, length) in places {
                locations += big(id, 2) + big(0, 2) + big(1, 2) + big(offset, 4) + big(length, 4)
            }
            let items = big(0, 4) + big(2, 2) + item(1, "hvc1") + item(2, "Exif")
            let thumbnail = box("ispe", big(0, 4) + big(4, 4) + big(3, 4))
            let whole = box("ispe", big(0, 4) + big(width, 4) + big(height, 4))
            let properties = box("iprp", box("ipco", thumbnail + whole))
            let content =
                box("skip", text(place)) + box("iinf", items) + box("iloc", locations) + properties
            return box("meta", big(0, 4) + content)
        }
        let start = type.count + meta(0).count + 8
        return type + meta(start) + box("mdat", data + exif) + box("mpvd", text(place))
            + box("free", text(place)) + box("meta", big(0, 4) + box("xml ", text(place)))
    }

    private static func film(_ major: String, _ other: String, _ data: [UInt8]) -> [UInt8] {
        // In real files the name begins with a © sign.
        let place = box(".xyz", text(Self.place))
        let track = box("tkhd", [1, 2, 3]) + box("udta", place) + box("mdia", [4])
        let hidden = box("free", text(Self.place)) + box("skip", text(Self.place))
        let movie = box("mvhd", [5, 6]) + box("trak", track + hidden) + box("udta", place) + hidden
        var bytes = box("ftyp", text(major) + big(512, 4) + text(other))
        bytes += box("mdat", data) + box("moov", movie + box("meta", text(Self.place)))
        return bytes + box("uuid", text(Self.place)) + box("free", text(Self.place))
    }

    private static func webm(_ data: [UInt8]) -> [UInt8] {
        let header: [UInt8] = [0x42, 0x86, 0x81, 1, 0x42, 0x82, 0x84] + text("webm")
        let hidden = element([0xEC], text(place))
        let info =
            element([0x2A, 0xD7, 0xB1], [0x0F, 0x42, 0x40]) + element([0x7B, 0xA9], text(place))
            + element([0x4D, 0x80], text(place))
        let track = element([0xD7], [1]) + element([0x53, 0x6E], text(place)) + hidden
        let cluster = element([0xE7], [0]) + element([0xA3], data) + hidden
        let content =
            element([0x15, 0x49, 0xA9, 0x66], info) + hidden
            + element([0x16, 0x54, 0xAE, 0x6B], element([0xAE], track))
            + element([0x1F, 0x43, 0xB6, 0x75], cluster)
            + element([0x12, 0x54, 0xC3, 0x67], text(place))
            + element([0x19, 0x41, 0xA4, 0x69], text(place))
        return element([0x1A, 0x45, 0xDF, 0xA3], header)
            + element([0x18, 0x53, 0x80, 0x67], content) + text(place)
    }

    /// Returns an element of a WebM file, whose size has four bytes.
    package static func element(_ name: [UInt8], _ content: [UInt8]) -> [UInt8] {
        name + big(0x1000_0000 | content.count, 4) + content
    }
}

extension [UInt8] {
    /// Whether it contains the text anywhere.
    package func contains(text: String) -> Bool { firstIndex(ofText: text) != nil }

    /// Returns the position of the text's first occurrence.
    package func firstIndex(ofText text: String) -> Int? {
        let wanted = Array(text.utf8)
        guard wanted.count <= count else { return nil }
        return (0...(count - wanted.count)).first { self[$0...].starts(with: wanted) }
    }
}
