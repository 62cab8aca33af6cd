/// Consecutive JPEG images without separators, as in motion JPEG.
package enum JPEGSequence {
    /// Splits the bytes into images; an incomplete last one is omitted.
    ///
    /// Within an image's data, the byte 255 is followed by zero (ITU-T T.81, section B.1.1.5), so
    /// that its end marker occurs nowhere else.
    package static func pictures(in bytes: [UInt8]) -> [[UInt8]] {
        var pictures: [[UInt8]] = []
        var start: Int?
        var index = 0
        while index + 1 < bytes.count {
            // Any number of bytes 255 may precede a marker.
            guard bytes[index] == 0xFF, bytes[index + 1] != 0xFF else {
                index += 1
                continue
            }
            switch (bytes[index + 1], start) {
            case (0xD8, nil): start = index
            case (0xD9, let first?):
                pictures.append(Array(bytes[first...(index + 1)]))
                start = nil
            default: break
            }
            index += 2
        }
        return pictures
    }
}
