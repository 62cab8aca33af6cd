import Foundation
import SanguineMedia
import SanguineTesting
import TestSupport
import Testing

/// Files written by FFmpeg, as the server stores them.
@Suite("Stored videos", .bounded(.seconds(120)))
struct StoredFilmTests {
    private static let place = "+52.5200+013.4050/"

    @discardableResult
    private func run(_ program: String, _ arguments: [String]) async throws -> String {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        try process.run()
        try await eventually("\(program) has ended") { !process.isRunning }
        #expect(process.terminationStatus == 0, "\(program) \(arguments)")
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        return String(decoding: output, as: UTF8.self)
    }

    @Test(
        .requires(.ffmpeg),
        arguments: [
            ["a.mp4", "-c:v", "mpeg4"], ["b.mp4", "-c:v", "mpeg4", "-movflags", "+faststart"],
            ["c.mp4", "-c:v", "mpeg4", "-movflags", "frag_keyframe+empty_moov"],
            ["d.mov", "-c:v", "mpeg4", "-movflags", "use_metadata_tags"],
            ["e.webm", "-c:v", "libvpx"], ["f.webm", "-c:v", "libvpx", "-live", "1"],
        ]
    )
    func `a stored film plays as before and has no location`(
        encoding: [String]
    ) async throws {
        try await TemporaryFolder.with { folder in
            let (file, stored) = (folder.appending(path: encoding[0]), folder.appending(path: "s"))
            let source = "testsrc=size=160x120:rate=10:duration=2"
            try await run(
                "ffmpeg",
                [
                    "-v", "error", "-nostdin", "-f", "lavfi", "-i", source,
                    "-f", "lavfi", "-i", "sine=duration=2", "-c:a",
                    encoding[0].hasSuffix("webm") ? "libopus" : "aac",
                    "-metadata", "location=\(Self.place)", "-metadata", "title=\(Self.place)",
                    "-metadata:s:v:0", "title=\(Self.place)",
                ] + encoding.dropFirst() + [file.path]
            )
            let bytes = Array(try Data(contentsOf: file))
            #expect(bytes.contains(text: Self.place))
            // Cameras append locations in this way.
            let whole = bytes + Array(Self.place.utf8)
            let type = try #require(MediaType(of: whole))
            let cleaned = try #require(VideoFile.clean(whole, as: type))
            #expect(!cleaned.contains(text: Self.place))
            try Data(cleaned).write(to: stored)
            let frames = ["-v", "error", "-nostdin", "-xerror", "-i"]
            let before = try await run("ffmpeg", frames + [file.path, "-f", "framemd5", "-"])
            let after = try await run("ffmpeg", frames + [stored.path, "-f", "framemd5", "-"])
            #expect(before == after && before.count > 1_000)
        }
    }
}
