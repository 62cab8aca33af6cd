#if os(macOS) || os(Linux)
import Foundation
import SanguineAuthority
import SanguineMedia

#if canImport(System)
import System
#else
import SystemPackage
#endif

/// Extracts frames of untrusted videos with FFmpeg in a separate process.
///
/// The process gets the video as its standard input, an unnamed file, and nothing else: no
/// environment and no protocols except files. Only the container format of the content type is
/// permitted, so that playlists cannot refer to other URLs. It uses one thread, with the processor
/// time that nothing else needs, and ends with the task that waits for it. If the server process is
/// killed, FFmpeg ends at the limit of its processor time, or when it writes to the closed pipe.
struct FFmpeg: Sendable {
    /// The maximum size of an image in bytes.
    private static let pictureBytes = 1 << 20
    /// The maximum length of an image's longer side in pixels.
    private static let side = 1_024
    /// The maximum size of an error message in bytes.
    private static let reportBytes = 4_096
    /// The maximum number of pixels in a video frame: 4,096 × 2,176, which is 4K in whole blocks.
    private static let filmPixels = 4_096 * 2_176
    /// The maximum processor time for a video in seconds.
    private static let processorSeconds = 20
    /// FFmpeg's own limits: bytes of an allocation, and pixels of a frame.
    private static let bounds = ["-max_alloc", "268435456", "-max_pixels", "\(filmPixels)"]

    private let ffmpeg: FilePath
    private let ffprobe: FilePath

    /// Finds the program, and `ffprobe` in the same folder; `nil` if either does not exist.
    ///
    /// - Parameters:
    ///   - program: A path, or a name to search for.
    ///   - path: The folders to search, separated by colons.
    init?(
        _ program: String,
        path: String = ProcessInfo.processInfo.environment["PATH"] ?? ""
    ) {
        let folders = path.split(separator: ":").map { FilePath(String($0)) }
        let name = FilePath(program)
        let candidates =
            program.contains("/") ? [name] : folders.map { $0.pushing(name) }
        let found = candidates.first { Self.isProgram($0) && Self.isProgram(Self.probe($0)) }
        guard let found else { return nil }
        ffmpeg = found
        ffprobe = Self.probe(found)
    }

    /// Extracts frames of a video.
    ///
    /// - Parameters:
    ///   - video: Its bytes.
    ///   - type: Its content type.
    ///   - count: The number of frames.
    /// - Returns: The frames as JPEG images, oldest first.
    /// - Throws: ``FrameSampler/Failure``.
    func pictures(
        _ video: [UInt8],
        _ type: String,
        _ count: Int
    ) async throws(FrameSampler.Failure) -> [[UInt8]] {
        guard let format = Self.formats[type] else { throw .unreadable("its type is \(type)") }
        let file: UnnamedFile
        do {
            file = try await LongWork.shared.perform(for: .video) { () throws(any Error) in
                try UnnamedFile(video)
            }
        } catch {
            throw .noProgram("no temporary file can be created: \(error)")
        }
        let input = ["-protocol_whitelist", "file", "-f", format, "-i", "/dev/stdin"]
        var question = ["-v", "error"] + Self.bounds + input
        question += ["-show_entries", "format=duration", "-of", "csv=p=0"]
        let length = try await run(ffprobe, question, file, limit: Self.reportBytes)
        let text = String(decoding: length, as: UTF8.self)
        let seconds = Double(text.trimmingCharacters(in: .whitespacesAndNewlines))
        let pictures = try await pictures(file, input, count, seconds)
        // The header may claim a longer duration than the video has.
        guard pictures.isEmpty, seconds != nil else { return pictures }
        return try await self.pictures(file, input, count, nil)
    }

    private func pictures(
        _ file: UnnamedFile,
        _ input: [String],
        _ count: Int,
        _ seconds: Double?
    ) async throws(FrameSampler.Failure) -> [[UInt8]] {
        // Only fatal errors: FFmpeg can extract frames of a damaged video despite many others.
        var arguments = ["-v", "fatal", "-nostdin", "-threads", "1"]
        // Processor time. The limit also ends an FFmpeg that outlives this process.
        arguments += ["-timelimit", "\(Self.processorSeconds)"]
        arguments += Self.bounds + input
        arguments += ["-map", "0:v:0", "-vf", Self.filter(count, seconds)]
        arguments += [
            "-fps_mode", "passthrough", "-frames:v", "\(count)", "-c:v", "mjpeg", "-q:v", "4",
        ]
        arguments += ["-f", "image2pipe", "pipe:1"]
        let bytes = try await run(ffmpeg, arguments, file, limit: count * Self.pictureBytes)
        return JPEGSequence.pictures(in: bytes)
    }

    /// Returns a filter for one frame from the middle of each range; one per second if the video's
    /// duration is unknown.
    private static func filter(_ count: Int, _ seconds: Double?) -> String {
        var place = "selected_n"
        if let seconds, seconds.isFinite, seconds > 0 {
            place = "(selected_n+0.5)*\(seconds)/\(count)"
        }
        let size = "scale=\(side):\(side):force_original_aspect_ratio=decrease"
        return "setpts=PTS-STARTPTS,select='gte(t,\(place))',\(size)"
    }

    private func run(
        _ program: FilePath,
        _ arguments: [String],
        _ input: UnnamedFile,
        limit: Int
    ) async throws(FrameSampler.Failure) -> [UInt8] {
        let ending: ChildProgram.Ending
        do {
            ending = try await ChildProgram.run(
                program.string,
                arguments,
                input: try input.reader(),
                outputLimit: limit,
                complaintLimit: Self.reportBytes
            )
        } catch is CancellationError {
            throw .cancelled
        } catch is ChildProgram.OutputTooLong {
            throw .unreadable("the output of \(Self.name(program)) is too long")
        } catch {
            throw .noProgram("\(Self.name(program)): \(error)")
        }
        guard ending.isSuccess else {
            let complaint = String(decoding: ending.complaint.prefix(200), as: UTF8.self)
            throw .unreadable(complaint.isEmpty ? "\(Self.name(program)) failed" : complaint)
        }
        return ending.output
    }

    private static func name(_ program: FilePath) -> String { program.lastComponent?.string ?? "" }

    private static func probe(_ ffmpeg: FilePath) -> FilePath {
        ffmpeg.removingLastComponent().appending("ffprobe")
    }

    private static func isProgram(_ path: FilePath) -> Bool {
        FileManager.default.isExecutableFile(atPath: path.string)
    }

    /// FFmpeg's names of the container formats.
    private static let formats = [
        "video/mp4": "mov", "video/quicktime": "mov", "video/webm": "matroska",
    ]
}

/// A file without a name, which is deleted with its last reader, even if the process is killed.
final class UnnamedFile: Sendable {
    private let descriptor: FileDescriptor

    /// Creates a file of these bytes.
    ///
    /// - Parameters:
    ///   - bytes: The bytes.
    ///   - write: Writes a part of at most ``LongWork/systemCallBytes`` to a descriptor.
    /// - Throws: An `Errno`, an error of Foundation, or the error of `write`.
    init(
        _ bytes: [UInt8],
        write: (Int32, ArraySlice<UInt8>) throws -> Void = {
            _ = try FileDescriptor(rawValue: $0).writeAll($1)
        }
    ) throws {
        let folder = FileManager.default.temporaryDirectory
        let path = folder.appending(path: "sanguine-\(UUID().uuidString)").path
        descriptor = try FileDescriptor.open(
            FilePath(path),
            .readWrite,
            options: [.create, .exclusiveCreate, .closeOnExec],
            permissions: .ownerReadWrite
        )
        try FileManager.default.removeItem(atPath: path)
        for start in stride(from: 0, to: bytes.count, by: LongWork.systemCallBytes) {
            let end = min(bytes.count, start + LongWork.systemCallBytes)
            try write(descriptor.rawValue, bytes[start..<end])
        }
    }

    deinit { try? descriptor.close() }

    /// Returns the descriptor of the file, at its start, for one reader at a time.
    func reader() throws -> FileDescriptor {
        try descriptor.seek(offset: 0, from: .start)
        return descriptor
    }
}
#endif
