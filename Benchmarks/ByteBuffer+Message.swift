import NIOCore

extension ByteBuffer {
    /// The length of the HTTP message that begins here, or `nil` while its head is incomplete.
    ///
    /// The head states the length of the body.
    var messageLength: Int? {
        withUnsafeReadableBytes { bytes -> Int? in
            var lineStart = 0
            var bodyLength = 0
            var index = 0
            while index + 1 < bytes.count {
                guard bytes[index] == 13, bytes[index + 1] == 10 else {
                    index += 1
                    continue
                }
                if index == lineStart { return index + 2 + bodyLength }
                if let length = Self.contentLength(bytes[lineStart..<index]) { bodyLength = length }
                index += 2
                lineStart = index
            }
            return nil
        }
    }

    private static let name = Array("content-length:".utf8)

    private static func contentLength(_ line: Slice<UnsafeRawBufferPointer>) -> Int? {
        guard line.count > name.count, zip(line, name).allSatisfy({ $0 | 0x20 == $1 | 0x20 })
        else { return nil }
        return line.dropFirst(name.count).reduce(0) { sum, byte in
            (48...57).contains(byte) ? sum * 10 + Int(byte - 48) : sum
        }
    }
}
