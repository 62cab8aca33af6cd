import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// Files written by FFmpeg and libheif, as the server stores them.
@Suite("Stored videos and pictures", .bounded(.seconds(120)))
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
            let content = try BlobContent(bytes + Array(Self.place.utf8))
            #expect(!content.bytes.contains(text: Self.place))
            try Data(content.bytes).write(to: stored)
            let frames = ["-v", "error", "-nostdin", "-xerror", "-i"]
            let before = try await run("ffmpeg", frames + [file.path, "-f", "framemd5", "-"])
            let after = try await run("ffmpeg", frames + [stored.path, "-f", "framemd5", "-"])
            #expect(before == after && before.count > 1_000)
        }
    }

    @Test(.requires(.ffmpeg, .heifEnc, .heifConvert, .exiftool))
    func `a stored HEIC decodes as before and has no location`() async throws {
        try await TemporaryFolder.with { folder in
            let jpeg = folder.appending(path: "a.jpg").path
            let heic = folder.appending(path: "a.heic")
            let source = ["-f", "lavfi", "-i", "testsrc=size=160x120", "-frames:v", "1", jpeg]
            try await run("ffmpeg", ["-v", "error", "-nostdin"] + source)
            let gps = ["-GPSLatitude=52.52", "-GPSLatitudeRef=N", "-XMP:City=Berlin"]
            try await run("exiftool", gps + [jpeg])
            try await run("heif-enc", [jpeg, "-o", heic.path])
            let question = ["-G", "-a", "-GPSLatitude", "-City", "-n"]
            #expect(try await run("exiftool", question + [heic.path]).contains("52.52"))
            let content = try BlobContent(Array(try Data(contentsOf: heic)))
            let stored = folder.appending(path: "s.heic")
            try Data(content.bytes).write(to: stored)
            #expect(try await run("exiftool", question + [stored.path]).isEmpty)
            #expect(!content.bytes.contains(text: "Berlin"))
            var pictures: [Data] = []
            for file in [heic, stored] {
                let picture = file.path + ".png"
                try await run("heif-convert", [file.path, picture])
                let pixels = ["-v", "error", "-nostdin", "-i", picture, "-f", "rawvideo"]
                try await run("ffmpeg", pixels + [picture + ".raw"])
                pictures.append(try Data(contentsOf: URL(filePath: picture + ".raw")))
            }
            #expect(pictures[0] == pictures[1] && pictures[0].count > 10_000)
        }
    }
}
