/// WebP (RFC 9649).
enum WebPFile {
    private struct Chunk {
        let type: String
        let content: Range<Int>
        let whole: Range<Int>
    }

    /// Returns the image with the orientation as its only metadata, or `nil` if it cannot be read.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        guard let length = file.little(4, 4), length >= 4, length <= file.count - 8 else {
            return nil
        }
        var picture = Picture(file)
        guard let chunks = chunks(in: 12..<8 + length, of: file) else { return nil }
        for chunk in chunks {
            guard picture.addChunk(chunk) else { return nil }
        }
        return picture.finished
    }

    /// Returns the chunks in a range; `nil` if one of them does not fit.
    private static func chunks(in range: Range<Int>, of file: [UInt8]) -> [Chunk]? {
        var chunks: [Chunk] = []
        var offset = range.lowerBound
        while offset < range.upperBound {
            guard range.upperBound - offset >= 8, let length = file.little(offset + 4, 4),
                length <= range.upperBound - offset - 8
            else { return nil }
            let content = offset + 8..<offset + 8 + length
            // A padding byte follows content of an odd length.
            let end = min(range.upperBound, content.upperBound + length % 2)
            // A chunk without a readable name is dropped later.
            let type = file.text(at: offset) ?? ""
            chunks.append(Chunk(type: type, content: content, whole: offset..<end))
            offset = end
        }
        return chunks
    }

    private struct Picture {
        private let file: [UInt8]
        private var bytes: [UInt8]
        private var canvas: PixelSize?
        private var frame: PixelSize?
        /// The offset of the flags in `bytes`, if the file has them.
        private var flags: Int?
        private var orientation: ImageOrientation?

        init(_ file: [UInt8]) {
            self.file = file
            bytes = Array("RIFF\0\0\0\0WEBP".utf8)
            bytes.reserveCapacity(file.count)
        }

        private static let exifFlag: UInt8 = 0x08
        private static let xmpFlag: UInt8 = 0x04

        var finished: CleanedFile? {
            guard let size = canvas ?? frame, let frame, size.holds(frame) else { return nil }
            var bytes = bytes
            if let flags {
                bytes[flags] &= ~(Self.exifFlag | Self.xmpFlag)
                if let tiff = orientation?.tiff {
                    bytes[flags] |= Self.exifFlag
                    bytes += Array("EXIF".utf8) + tiff.count.little(4) + tiff
                }
            }
            bytes.replaceSubrange(4..<8, with: (bytes.count - 8).little(4))
            return CleanedFile(bytes: bytes, size: size)
        }

        /// - Returns: Whether the chunk can be read.
        mutating func addChunk(_ chunk: Chunk) -> Bool {
            switch chunk.type {
            case "VP8X":
                guard canvas == nil, chunk.content.count >= 10,
                    let size = size(at: chunk.content.lowerBound + 4)
                else { return false }
                canvas = size
                flags = bytes.count + 8
                add(chunk)
            case "VP8 ", "VP8L":
                guard recordFrameSize(bitstream(chunk)) else { return false }
                add(chunk)
            case "ANMF": return addFrame(chunk)
            case "ALPH", "ANIM", "ICCP": add(chunk)
            case "EXIF":
                let hasPrefix = file.has("Exif\0\0", at: chunk.content.lowerBound)
                let tiff = chunk.content.dropFirst(hasPrefix ? 6 : 0)
                orientation = orientation ?? ImageOrientation(tiff: tiff, of: file)
            default: break
            }
            return true
        }

        /// Adds a frame of an animation without its unknown chunks.
        private mutating func addFrame(_ chunk: Chunk) -> Bool {
            let head = 16
            guard chunk.content.count >= head,
                recordFrameSize(size(at: chunk.content.lowerBound + 6)),
                let parts = WebPFile.chunks(in: chunk.content.dropFirst(head), of: file)
            else { return false }
            var content = Array(file[chunk.content.prefix(head)])
            for part in parts {
                switch part.type {
                case "VP8 ", "VP8L":
                    guard recordFrameSize(bitstream(part)) else { return false }
                    content += whole(part)
                case "ALPH": content += whole(part)
                default: break
                }
            }
            bytes += Array("ANMF".utf8) + content.count.little(4) + content
            return true
        }

        private mutating func add(_ chunk: Chunk) { bytes += whole(chunk) }

        /// Returns the chunk with its padding byte, even if the file lacks it.
        private func whole(_ chunk: Chunk) -> [UInt8] {
            let bytes = Array(file[chunk.whole])
            return bytes.count % 2 == 0 ? bytes : bytes + [0]
        }

        /// Records the size of a frame; returns `false` if it is unknown or exceeds the canvas.
        private mutating func recordFrameSize(_ size: PixelSize?) -> Bool {
            guard let size else { return false }
            if let canvas, !canvas.holds(size) { return false }
            guard let known = frame else {
                frame = size
                return true
            }
            frame = PixelSize(max(known.width, size.width), max(known.height, size.height))
            return true
        }

        /// Reads two 24-bit numbers, each stored as its value minus one.
        private func size(at offset: Int) -> PixelSize? {
            PixelSize(
                file.little(offset, 3).map { $0 + 1 },
                file.little(offset + 3, 3).map { $0 + 1 }
            )
        }

        private func bitstream(_ chunk: Chunk) -> PixelSize? {
            let start = chunk.content.lowerBound
            guard chunk.content.count >= (chunk.type == "VP8L" ? 5 : 10) else { return nil }
            if chunk.type == "VP8L" {
                guard file[start] == 0x2F, let bits = file.little(start + 1, 4) else { return nil }
                return PixelSize(bits & 0x3FFF + 1, bits >> 14 & 0x3FFF + 1)
            }
            // A key frame (RFC 6386, section 9.1).
            guard file[start] & 1 == 0, file.big(start + 3, 3) == 0x9D_012A else { return nil }
            return PixelSize(
                file.little(start + 6, 2).map { $0 & 0x3FFF },
                file.little(start + 8, 2).map { $0 & 0x3FFF }
            )
        }
    }
}
