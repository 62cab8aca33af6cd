/// PNG (W3C Portable Network Graphics, third edition).
enum PNGFile {
    static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    /// The chunks that an image or animation needs, without those for text, time and Exif and the
    /// private ones of other programs.
    private static let kept: Set = [
        "IHDR", "PLTE", "IDAT", "tRNS", "cHRM", "gAMA", "iCCP", "sBIT", "sRGB", "cICP", "mDCV",
        "cLLI", "bKGD", "hIST", "pHYs", "sPLT", "acTL", "fcTL", "fdAT",
    ]

    /// Returns the image with the orientation as its only metadata, or `nil` if it cannot be read.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        var bytes = signature
        bytes.reserveCapacity(file.count)
        var size: PixelSize?
        var hasData = false
        var orientation: ImageOrientation?
        var offset = signature.count
        while let length = file.big(offset, 4), let type = file.text(at: offset + 4),
            length <= file.count - offset - 12
        {
            let content = offset + 8..<offset + 8 + length
            let chunk = offset..<content.upperBound + 4
            offset = chunk.upperBound
            switch type {
            case "IHDR":
                guard size == nil, length == 13 else { return nil }
                size = PixelSize(
                    file.big(content.lowerBound, 4),
                    file.big(content.lowerBound + 4, 4)
                )
                guard size != nil else { return nil }
            case "IDAT": hasData = true
            case "eXIf":
                orientation = orientation ?? ImageOrientation(tiff: content, of: file)
            case "IEND":
                guard hasData, let size else { return nil }
                if let orientation { bytes += self.chunk("eXIf", orientation.tiff) }
                return CleanedFile(bytes: bytes + self.chunk("IEND", []), size: size)
            default: break
            }
            // The header comes first and holds the size.
            guard size != nil else { return nil }
            if kept.contains(type) { bytes += file[chunk] }
        }
        return nil
    }

    private static func chunk(_ type: String, _ content: [UInt8]) -> [UInt8] {
        let checked = Array(type.utf8) + content
        return content.count.big(4) + checked + checksum(checked).big(4)
    }

    /// Computes the CRC-32 (annex D) bit by bit, as the input is short.
    private static func checksum(_ bytes: [UInt8]) -> Int {
        var register: UInt32 = .max
        for byte in bytes {
            register ^= UInt32(byte)
            for _ in 0..<8 {
                register = register & 1 == 0 ? register >> 1 : register >> 1 ^ 0xEDB8_8320
            }
        }
        return Int(~register)
    }
}
