#if os(macOS) || os(Linux)
import Foundation
import TestSupport
import Testing

@testable import SanguineServer

/// Copies of videos for FFmpeg.
@Suite("Unnamed files", .bounded)
struct UnnamedFileTests {
    @Test(arguments: [1, 1 << 16, 200_001])
    func `a video is copied in short system calls, and read from its start`(count: Int) throws {
        let video = (0..<count).map { UInt8(truncatingIfNeeded: $0 / 251) }
        var sizes: [Int] = []
        var descriptor: Int32 = -1
        let file = try UnnamedFile(video) { file, part in
            sizes.append(part.count)
            descriptor = file
            try FileHandle(fileDescriptor: file).write(contentsOf: Data(part))
        }
        #expect(sizes.allSatisfy { $0 <= 1 << 16 })
        for _ in 1...2 {
            _ = try file.reader()
            let read = try FileHandle(fileDescriptor: descriptor).readToEnd()
            #expect(read == Data(video))
        }
    }
}
#endif
