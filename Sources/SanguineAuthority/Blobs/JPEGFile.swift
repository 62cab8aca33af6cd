/// JPEG (ITU-T T.81, annex B), with the segments of JFIF, Exif, ICC and Adobe.
enum JPEGFile {
    /// Returns the image with the orientation as its only metadata, or `nil` if it cannot be read.
    ///
    /// Data after the end of the image, such as a second image or a video, is left out.
    static func clean(_ file: [UInt8]) -> CleanedFile? {
        var picture = Picture(file)
        var offset = 2
        while offset < file.count {
            guard let marker = marker(in: file, at: offset) else { return nil }
            offset = marker.end
            switch marker.code {
            case endOfImage: return picture.finished
            case 0x01, 0xD0...0xD7: continue
            case startOfImage: return nil
            default:
                guard let length = file.big(offset, 2), length >= 2, length <= file.count - offset
                else { return nil }
                guard picture.addSegment(marker.code, offset..<offset + length) else { return nil }
                offset += length
                guard marker.code == startOfScan else { continue }
                let end = endOfScan(in: file, from: offset)
                picture.readScan(offset..<end)
                offset = end
            }
        }
        // A truncated file shows the part that is there.
        return picture.finished
    }

    private static let startOfImage: UInt8 = 0xD8
    private static let endOfImage: UInt8 = 0xD9
    private static let startOfScan: UInt8 = 0xDA

    /// Reads the marker at an offset, which fill bytes may precede.
    private static func marker(in file: [UInt8], at offset: Int) -> (code: UInt8, end: Int)? {
        guard file[offset] == 0xFF else { return nil }
        var offset = offset
        while offset < file.count, file[offset] == 0xFF { offset += 1 }
        guard offset < file.count, file[offset] != 0 else { return nil }
        return (file[offset], offset + 1)
    }

    /// Returns the offset of the marker that ends the coded data.
    private static func endOfScan(in file: [UInt8], from start: Int) -> Int {
        var offset = start
        while let found = file[offset...].firstIndex(of: 0xFF), found + 1 < file.count {
            let code = file[found + 1]
            if code != 0, code != 0xFF, !(0xD0...0xD7).contains(code) { return found }
            offset = code == 0xFF ? found + 1 : found + 2
        }
        return file.count
    }

    /// The parts of the file that are read so far and kept.
    private struct Picture {
        private let file: [UInt8]
        private var bytes: [UInt8] = [0xFF, 0xD8]
        private var size: PixelSize?
        private var hasScan = false
        private var hasOrientation = false

        init(_ file: [UInt8]) {
            self.file = file
            bytes.reserveCapacity(file.count)
        }

        var finished: CleanedFile? {
            guard hasScan, let size else { return nil }
            return CleanedFile(bytes: bytes + [0xFF, 0xD9], size: size)
        }

        /// Adds a segment, which begins with its length in two bytes.
        ///
        /// - Returns: Whether the segment can be read.
        mutating func addSegment(_ code: UInt8, _ segment: Range<Int>) -> Bool {
            let start = segment.lowerBound + 2
            switch code {
            case 0xE0 where file.has("JFIF\0", at: start),
                0xE2 where file.has("ICC_PROFILE\0", at: start),
                0xEE where file.has("Adobe", at: start):
                break
            case 0xE1:
                readOrientation(start..<segment.upperBound)
                return true
            case 0xC4, 0xCC, 0xDA...0xDF: break
            case 0xC0...0xC3, 0xC5...0xC7, 0xC9...0xCB, 0xCD...0xCF:
                // A second frame could have another size.
                guard size == nil, segment.count >= 8,
                    let frame = PixelSize(file.big(start + 3, 2), file.big(start + 1, 2))
                else { return false }
                size = frame
            default: return true  // Comments, and the data of other programs.
            }
            bytes += [0xFF, code]
            bytes += file[segment]
            return true
        }

        mutating func readScan(_ data: Range<Int>) {
            bytes += file[data]
            hasScan = true
        }

        private mutating func readOrientation(_ content: Range<Int>) {
            guard !hasOrientation, file.has("Exif\0\0", at: content.lowerBound),
                content.count >= 6,
                let orientation = ImageOrientation(
                    tiff: content.dropFirst(6),
                    of: file
                )
            else { return }
            hasOrientation = true
            let exif = Array("Exif\0\0".utf8) + orientation.tiff
            bytes += [0xFF, 0xE1]
            bytes += (exif.count + 2).big(2)
            bytes += exif
        }
    }
}
