import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// FFmpeg itself, and a script in its place.
@Suite("FFmpeg", .bounded(.seconds(60)))
struct FFmpegTests {
    /// The program of this machine, if it has one.
    private static let installed = FFmpeg("ffmpeg")

    /// A video that grows brighter from its beginning to its end, with its index at the end, as
    /// phones write it.
    private func video(seconds: Int, in folder: URL) async throws -> [UInt8] {
        let file = folder.appending(path: "bright.mp4")
        let size = "color=black:size=320x240:rate=10:duration=\(seconds)"
        try await run([
            "-f", "lavfi", "-i", size,
            "-vf", "geq=lum='16+200*T/\(seconds)':cb=128:cr=128", "-c:v", "mpeg4", "-q:v", "2",
            file.path,
        ])
        return Array(try Data(contentsOf: file))
    }

    /// How bright a picture is, from 0 to 255.
    private func brightness(of picture: [UInt8], in folder: URL) async throws -> Int {
        let (file, raw) = (folder.appending(path: "a.jpg"), folder.appending(path: "a.gray"))
        try Data(picture).write(to: file)
        try await run([
            "-y", "-i", file.path, "-vf", "scale=1:1", "-f", "rawvideo", "-pix_fmt", "gray",
            raw.path,
        ])
        return Int(try #require(try Data(contentsOf: raw).first))
    }

    private func run(_ arguments: [String]) async throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["ffmpeg", "-v", "error", "-nostdin"] + arguments
        try process.run()
        try await eventually("ffmpeg to end") { !process.isRunning }
        #expect(process.terminationStatus == 0)
    }

    @Test(.requires(.ffmpeg, .ffprobe))
    func `pictures come from the middles of equal stretches, in order`() async throws {
        let ffmpeg = try #require(Self.installed)
        try await TemporaryFolder.with { folder in
            let video = try await video(seconds: 4, in: folder)
            let pictures = try await ffmpeg.pictures(video, "video/mp4", 4)
            #expect(pictures.count == 4)
            for (index, picture) in pictures.enumerated() {
                let expected = 16 + 200 * (2 * index + 1) / 8
                let seen = try await brightness(of: picture, in: folder)
                // Limited range is stretched to full range, and neighbours are 58 apart.
                let full = (expected - 16) * 255 / 219
                #expect(abs(seen - full) < 25, "\(index): \(seen), and not \(full)")
            }
        }
    }

    @Test(.requires(.ffmpeg, .ffprobe))
    func `a video with many faults is shown as far as it can be seen`() async throws {
        let ffmpeg = try #require(Self.installed)
        try await TemporaryFolder.with { folder in
            var video = try await video(seconds: 60, in: folder)
            // What is between the container's head and its index is damaged.
            for index in stride(from: 200, to: video.count * 3 / 4, by: 13) { video[index] ^= 0x55 }
            let pictures = try await ffmpeg.pictures(video, "video/mp4", 4)
            #expect((1...4).contains(pictures.count))
        }
    }

    @Test(
        .requires(.ffmpeg, .ffprobe),
        arguments: [("4096x2160", true), ("7680x4320", false)]
    )
    func `a film of 4K is read, and one of 8K is refused`(size: String, isRead: Bool) async throws {
        let ffmpeg = try #require(Self.installed)
        try await TemporaryFolder.with { folder in
            let file = folder.appending(path: "large.mp4")
            let source = "color=black:size=\(size):rate=1:duration=1"
            try await run(["-f", "lavfi", "-i", source, "-c:v", "mpeg4", file.path])
            let video = Array(try Data(contentsOf: file))
            do {
                let pictures = try await ffmpeg.pictures(video, "video/mp4", 1)
                #expect(isRead && pictures.count == 1)
            } catch FrameSampler.Failure.unreadable(let reason) {
                #expect(!isRead, "\(reason)")
            }
        }
    }

    @Test(.requires(.ffmpeg, .ffprobe))
    func `what is no video is said to be none`() async throws {
        let ffmpeg = try #require(Self.installed)
        for bytes in [[], Array("#EXTM3U\nfile:///etc/hostname\n".utf8), SampleFile.mp4.bytes()] {
            await #expect(
                performing: {
                    try await ffmpeg.pictures(bytes, "video/mp4", 4)
                },
                throws: { error in
                    guard case .unreadable = error as? FrameSampler.Failure else { return false }
                    return true
                }
            )
        }
    }

    @Test(.requires(.ffmpeg, .ffprobe))
    func `a playlist that calls itself a video leads nowhere`() async throws {
        let ffmpeg = try #require(Self.installed)
        let asked = WatchedState(0)
        try await ScriptedUpstream.with({ _ in
            asked.withLock { $0 += 1 }
            return .bytes(ScriptedUpstream.json("{}"))
        }) { server in
            let address = "http://127.0.0.1:\(server.port)/a.ts"
            let playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n\(address)\n"
            for type in ["video/mp4", "video/quicktime", "video/webm"] {
                await #expect(throws: FrameSampler.Failure.self) {
                    try await ffmpeg.pictures(Array(playlist.utf8), type, 4)
                }
            }
            #expect(asked.value == 0)
        }
    }

    // MARK: - A script in its place

    /// Writes two programs into the folder.
    static func script(
        _ ffmpeg: String,
        probe: String = "echo 4.0",
        in folder: URL
    ) throws -> FFmpeg {
        for (name, text) in [("ffmpeg", ffmpeg), ("ffprobe", probe)] {
            let file = folder.appending(path: name)
            try Data("#!/bin/sh\n\(text)\n".utf8).write(to: file)
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o755],
                ofItemAtPath: file.path
            )
        }
        return try #require(FFmpeg(folder.appending(path: "ffmpeg").path))
    }

    /// A script that prints pictures as `printf` writes them.
    static let twoPictures = #"printf '\377\330a\377\331\377\330b\377\331'"#

    @Test func `it is given the video as its input, and nothing of the environment`() async throws {
        try await TemporaryFolder.with { folder in
            let seen = folder.appending(path: "seen").path
            let ffmpeg = try Self.script(
                "/bin/cat > \(seen); echo \"$HOME\" > \(seen).home; \(Self.twoPictures)",
                in: folder
            )
            let pictures = try await ffmpeg.pictures(Array("film".utf8), "video/mp4", 2)
            #expect(pictures.map { $0[2] } == Array("ab".utf8))
            #expect(try String(contentsOfFile: seen, encoding: .utf8) == "film")
            #expect(try String(contentsOfFile: seen + ".home", encoding: .utf8) == "\n")
        }
    }

    @Test func `a length that is not known is a picture a second`() async throws {
        try await TemporaryFolder.with { folder in
            let seen = folder.appending(path: "seen").path
            for (said, filter) in [
                ("N/A", "gte(t,selected_n)"), ("4.0", "gte(t,(selected_n+0.5)*4.0/2)"),
            ] {
                let ffmpeg = try Self.script(
                    "echo \"$@\" > \(seen); \(Self.twoPictures)",
                    probe: "echo \(said)",
                    in: folder
                )
                _ = try await ffmpeg.pictures([1], "video/webm", 2)
                let arguments = try String(contentsOfFile: seen, encoding: .utf8)
                #expect(arguments.contains("select='\(filter)',scale="))
                #expect(arguments.contains("-protocol_whitelist file -f matroska -i /dev/stdin"))
                // Of processor time, however long it is waited for.
                #expect(arguments.contains("-timelimit 20 "))
            }
        }
    }

    @Test func `a header that says more than there is costs no pictures`() async throws {
        try await TemporaryFolder.with { folder in
            let ffmpeg = try Self.script(
                "case \"$*\" in *36000*) ;; *) \(Self.twoPictures) ;; esac",
                probe: "echo 36000.0",
                in: folder
            )
            #expect(try await ffmpeg.pictures([1], "video/mp4", 2).count == 2)
        }
    }

    @Test func `its complaint is told, and more than it may say is not`() async throws {
        try await TemporaryFolder.with { folder in
            let ffmpeg = try Self.script("echo 'moov atom not found' >&2; exit 1", in: folder)
            await #expect(throws: FrameSampler.Failure.unreadable("moov atom not found\n")) {
                try await ffmpeg.pictures([1], "video/mp4", 2)
            }
            let endless = "while :; do \(Self.twoPictures); done"
            let loud = "while :; do echo a; done"
            for (said, probe) in [(endless, "echo 4"), (loud + " >&2", "echo 4"), ("", loud)] {
                let ffmpeg = try Self.script(said, probe: probe, in: folder)
                await #expect(
                    performing: { try await ffmpeg.pictures([1], "video/mp4", 2) },
                    throws: { error in
                        guard case .unreadable = error as? FrameSampler.Failure else {
                            return false
                        }
                        return true
                    }
                )
            }
        }
    }

    @Test func `it ends with the task that waits for it`() async throws {
        try await TemporaryFolder.with { folder in
            let seen = folder.appending(path: "seen")
            let ffmpeg = try Self.script("echo $$ > \(seen.path); exec /bin/sleep 600", in: folder)
            let call = Task { try await ffmpeg.pictures([1], "video/mp4", 2) }
            try await eventually("the program to run") {
                (try? Data(contentsOf: seen))?.last == UInt8(ascii: "\n")
            }
            let text = try String(contentsOf: seen, encoding: .utf8)
            let process = try #require(Int32(text.dropLast()))
            call.cancel()
            await #expect(throws: FrameSampler.Failure.cancelled) { try await call.finished() }
            try await eventually("the program to have ended") { kill(process, 0) != 0 }
        }
    }

    @Test func `a program that is not there is missed at the start`() throws {
        #expect(FFmpeg("ffmpeg", path: "/nowhere:/dev") == nil)
        #expect(FFmpeg("/nowhere/ffmpeg") == nil)
        var settings = ServerSettings()
        settings.video.ffmpeg = "/nowhere/ffmpeg"
        #expect(try settings.frameSampler().map(\.count) == nil)
        settings.upstreams = [
            UpstreamSetting(name: "a", url: "http://127.0.0.1:1", video: .frames)
        ]
        let error = #expect(throws: FFmpegMissing.self) { try settings.frameSampler() }
        #expect("\(try #require(error))".contains("Install FFmpeg"))
    }
}
