/// Pictures that follow each other without anything between them, as motion JPEG has them.
enum JPEGSequence {
    /// Divides the bytes into pictures; a last one that is not whole is left out.
    ///
    /// Inside of a picture's data a byte of 255 is followed by zero (ITU-T T.81, section B.1.1.5),
    /// so that the marker of its end is found nowhere else.
    static func pictures(in bytes: [UInt8]) -> [[UInt8]] {
        var pictures: [[UInt8]] = []
        var start: Int?
        var index = 0
        while index + 1 < bytes.count {
            // Any number of bytes of 255 may stand before a marker.
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
