import SystemZlib

/// Compresses bytes into one gzip member (RFC 1952) with the system's zlib.
///
/// It uses zlib's fastest level, because clients decide how much processor time is spent on
/// compression. A compressor uses about 260 KiB.
///
/// Mutable state is confined to one task at a time; the type is not `Sendable`.
final class Gzip {
    private var output: [UInt8] = []
    // zlib's state contains the address of its stream, which must not move.
    private let stream: UnsafeMutablePointer<z_stream>
    private var hasFailed = false

    /// Creates a compressor, or `nil` if memory is insufficient.
    init?() {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let result = deflateInit2_(
            stream,
            Z_BEST_SPEED,
            Z_DEFLATED,
            15 + 16,  // The largest window, in a gzip member.
            8,
            Z_DEFAULT_STRATEGY,
            ZLIB_VERSION,
            CInt(MemoryLayout<z_stream>.size)
        )
        guard result == Z_OK else {
            stream.deallocate()
            return nil
        }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Compresses all bytes in one call; `nil` if zlib fails.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        guard let gzip = Gzip() else { return nil }
        gzip.write(bytes)
        return gzip.finish()
    }

    /// Compresses more bytes.
    func write(_ bytes: some Sequence<UInt8>) { deflate(Array(bytes), Z_NO_FLUSH) }

    /// Returns the complete member, after which nothing may be written; `nil` if zlib failed.
    func finish() -> [UInt8]? {
        deflate([], Z_FINISH)
        return hasFailed ? nil : output
    }

    private func deflate(_ bytes: [UInt8], _ flush: CInt) {
        var input = bytes
        input.withUnsafeMutableBufferPointer { input in
            stream.pointee.next_in = input.baseAddress
            stream.pointee.avail_in = UInt32(input.count)
            var hasRoom = false
            while !hasRoom, !hasFailed {
                let piece = [UInt8](unsafeUninitializedCapacity: 1 << 14) { room, count in
                    stream.pointee.next_out = room.baseAddress
                    stream.pointee.avail_out = UInt32(room.count)
                    let result = SystemZlib.deflate(stream, flush)
                    // Z_BUF_ERROR only means that there was nothing left to do.
                    hasFailed = result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR
                    count = room.count - Int(stream.pointee.avail_out)
                    hasRoom = stream.pointee.avail_out > 0
                }
                output += piece
            }
            stream.pointee.next_in = nil
            stream.pointee.next_out = nil
        }
    }
}
