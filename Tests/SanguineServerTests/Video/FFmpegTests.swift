import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// FFmpeg itself, and a script that stands in for it.
@Suite("FFmpeg", .bounded(.seconds(60)))
struct FFmpegTests {
    /// The installed program, if any.
    private static let installed = FFmpeg("ffmpeg")

    /// A video that grows brighter over time, with its index at the end, as phones write it.
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

    /// The brightness of a picture, from 0 to 255.
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
        try await eventually("ffmpeg has ended") { !process.isRunning }
        #expect(process.terminationStatus == 0)
    }

    @Test(.requires(.ffmpeg, .ffprobe))
    func `pictures come from the middle of equal parts, in order`() async throws {
        let ffmpeg = try #require(Self.installed)
        try await TemporaryFolder.with { folder in
            let video = try await video(seconds: 4, in: folder)
            let pictures = try await ffmpeg.pictures(video, "video/mp4", 4)
            #expect(pictures.count == 4)
            for (index, picture) in pictures.enumerated() {
                let expected = 16 + 200 * (2 * index + 1) / 8
                let seen = try await brightness(of: picture, in: folder)
                // Limited range is converted to full range, and adjacent pictures differ by 58.
                let full = (expected - 16) * 255 / 219
                #expect(abs(seen - full) < 25, "\(index): \(seen), not \(full)")
            }
        }
    }

    @Test(.requires(.ffmpeg, .ffprobe))
    func `a damaged video yields the pictures that can be decoded`() async throws {
        let ffmpeg = try #require(Self.installed)
        try await TemporaryFolder.with { folder in
            var video = try await video(seconds: 60, in: folder)
            // Damages everything between the container's head and its index.
            for index in stride(from: 200, to: video.count * 3 / 4, by: 13) { video[index] ^= 0x55 }
            let pictures = try await ffmpeg.pictures(video, "video/mp4", 4)
            #expect((1...4).contains(pictures.count))
        }
    }

    @Test(
        .requires(.ffmpeg, .ffprobe),
        arguments: [("4096x2160", true), ("7680x4320", false)]
    )
    func `a 4K film is read, and an 8K film is refused`(size: String, isRead: Bool) async throws {
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
    func `bytes that are not a video are reported as unreadable`() async throws {
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
    func `a playlist disguised as a video is not followed`() async throws {
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

    // MARK: - With a script

    /// Writes the two programs to the folder.
    ///
    /// Another process writes them. If this one did, a child of another test could inherit the open
    /// file, and Linux would refuse to run the program ("text file busy").
    static func script(
        _ ffmpeg: String,
        probe: String = "echo 4.0",
        in folder: URL
    ) throws -> FFmpeg {
        for (name, text) in [("ffmpeg", ffmpeg), ("ffprobe", probe)] {
            let file = folder.appending(path: name)
            let draft = folder.appending(path: "\(name).draft")
            try Data("#!/bin/sh\n\(text)\n".utf8).write(to: draft)
            let end = DispatchSemaphore(value: 0)
            let install = try Process.run(
                URL(filePath: "/usr/bin/install"),
                arguments: ["-m", "755", draft.path, file.path],
                terminationHandler: { _ in end.signal() }
            )
            try #require(end.wait(timeout: .now() + 30) == .success, "the end of install")
            try #require(install.terminationStatus == 0)
        }
        return try #require(FFmpeg(folder.appending(path: "ffmpeg").path))
    }

    /// A script that prints two pictures with `printf`.
    static let twoPictures = #"printf '\377\330a\377\331\377\330b\377\331'"#

    @Test func `the program reads the video as its input, without the environment`() async throws {
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

    #if canImport(Glibc)
    @Test func `the programs only get processor time that nothing else needs`() async throws {
        try await TemporaryFolder.with { folder in
            // Field 41 of proc_pid_stat(5) is the policy, and 5 is `SCHED_IDLE`. The server sets it
            // right after the start, so the script looks for up to 30 seconds.
            let isIdle = """
                i=0
                until set -- $(/bin/cat /proc/self/stat); [ "${41}" = 5 ]; do
                    i=$((i + 1))
                    [ $i -lt 300 ] || exit 1
                    /bin/sleep 0.1
                done
                """
            let ffmpeg = try Self.script(
                "\(isIdle)\n\(Self.twoPictures)",
                probe: "\(isIdle)\necho 4.0",
                in: folder
            )
            #expect(try await ffmpeg.pictures([1], "video/mp4", 2).count == 2)
        }
    }
    #endif

    @Test func `a video of unknown length yields a picture per second`() async throws {
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
                // Limits the processor time, regardless of how long the program waits.
                #expect(arguments.contains("-timelimit 20 "))
            }
        }
    }

    @Test func `a header that overstates the length costs no pictures`() async throws {
        try await TemporaryFolder.with { folder in
            let ffmpeg = try Self.script(
                "case \"$*\" in *36000*) ;; *) \(Self.twoPictures) ;; esac",
                probe: "echo 36000.0",
                in: folder
            )
            #expect(try await ffmpeg.pictures([1], "video/mp4", 2).count == 2)
        }
    }

    @Test func `the program's complaint is reported, and endless output is cut off`() async throws {
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

    @Test func `the program ends with the task that waits for it`() async throws {
        try await TemporaryFolder.with { folder in
            let seen = folder.appending(path: "seen")
            let ffmpeg = try Self.script("echo $$ > \(seen.path); exec /bin/sleep 600", in: folder)
            let call = Task { try await ffmpeg.pictures([1], "video/mp4", 2) }
            try await eventually("the program is running") {
                (try? Data(contentsOf: seen))?.last == UInt8(ascii: "\n")
            }
            let text = try String(contentsOf: seen, encoding: .utf8)
            let process = try #require(Int32(text.dropLast()))
            call.cancel()
            await #expect(throws: FrameSampler.Failure.cancelled) { try await call.finished() }
            try await eventually("the program has ended") { kill(process, 0) != 0 }
        }
    }

    @Test func `a missing program is reported at the start`() throws {
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
