#if canImport(Subprocess)
import Foundation
import Subprocess

#if canImport(System)
import System
#else
import SystemPackage
#endif

/// FFmpeg, which reads a stranger's video in a process of its own.
///
/// The process has the bytes as its standard input, a file that nobody else can open, and
/// nothing else: no environment, no protocol but files, and only the container format that the
/// content's type names, so that a playlist is not followed to other addresses. It has one
/// thread, and ends with the task that waits for it. If this process is killed, nobody ends it
/// but the limit of its processor time, or the reader that its pictures no longer have.
struct FFmpeg: Sendable {
    /// Bytes of a picture at most.
    private static let pictureBytes = 1 << 20
    /// Pixels of a picture's longer side at most.
    private static let side = 1_024
    /// Bytes of what it says of a fault.
    private static let reportBytes = 4_096
    /// Pixels of a film's picture at most: 4,096 × 2,176, which is 4K in whole blocks.
    private static let filmPixels = 4_096 * 2_176
    /// Seconds of processor time that a film may take.
    private static let processorSeconds = 20
    /// FFmpeg's own bounds: bytes that it allocates at once, and pixels of a picture.
    private static let bounds = ["-max_alloc", "268435456", "-max_pixels", "\(filmPixels)"]

    private let ffmpeg: FilePath
    private let ffprobe: FilePath

    /// Finds the program, and `ffprobe` beside it; `nil` if one of the two is not there.
    ///
    /// - Parameters:
    ///   - program: A path, or a name that is looked for.
    ///   - path: Where names are looked for: folders, separated by colons.
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

    /// Takes pictures of a video.
    ///
    /// - Parameters:
    ///   - video: Its bytes.
    ///   - type: Its content type.
    ///   - count: How many pictures.
    /// - Returns: The pictures, oldest first: JPEG.
    /// - Throws: ``FrameSampler/Failure``.
    func pictures(
        _ video: [UInt8],
        _ type: String,
        _ count: Int
    ) async throws(FrameSampler.Failure) -> [[UInt8]] {
        guard let format = Self.formats[type] else { throw .unreadable("it is of type \(type)") }
        let file: UnnamedFile
        do {
            file = try UnnamedFile(video)
        } catch {
            throw .noProgram("no temporary file can be made: \(error)")
        }
        let input = ["-protocol_whitelist", "file", "-f", format, "-i", "/dev/stdin"]
        var question = ["-v", "error"] + Self.bounds + input
        question += ["-show_entries", "format=duration", "-of", "csv=p=0"]
        let length = try await run(ffprobe, question, file, limit: Self.reportBytes)
        let text = String(decoding: length, as: UTF8.self)
        let seconds = Double(text.trimmingCharacters(in: .whitespacesAndNewlines))
        let pictures = try await pictures(file, input, count, seconds)
        // The header may say more than there is.
        guard pictures.isEmpty, seconds != nil else { return pictures }
        return try await self.pictures(file, input, count, nil)
    }

    private func pictures(
        _ file: UnnamedFile,
        _ input: [String],
        _ count: Int,
        _ seconds: Double?
    ) async throws(FrameSampler.Failure) -> [[UInt8]] {
        // Of a damaged video each fault would be told, although pictures can be taken.
        var arguments = ["-v", "fatal", "-nostdin", "-threads", "1"]
        // Of processor time. It also ends an FFmpeg that outlives this process.
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

    /// One picture from the middle of each stretch; one a second of a video whose length is
    /// not known.
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
        do {
            let result = try await Subprocess.run(
                .path(program),
                arguments: Arguments(arguments),
                environment: .custom([:]),
                input: .fileDescriptor(try input.reader(), closeAfterSpawningProcess: true),
                output: .bytes(limit: limit),
                error: .string(limit: Self.reportBytes)
            )
            guard result.terminationStatus.isSuccess else {
                // It was ended with the task.
                try Task.checkCancellation()
                let complaint = String(result.standardError.prefix(200))
                throw FrameSampler.Failure.unreadable(
                    complaint.isEmpty ? "\(Self.name(program)) fails" : complaint
                )
            }
            return result.standardOutput
        } catch let failure as FrameSampler.Failure {
            throw failure
        } catch is CancellationError {
            throw .cancelled
        } catch {
            if Task.isCancelled { throw .cancelled }
            if (error as? SubprocessError)?.code == .outputLimitExceeded {
                throw .unreadable("\(Self.name(program)) says too much")
            }
            throw .noProgram("\(Self.name(program)): \(error)")
        }
    }

    private static func name(_ program: FilePath) -> String { program.lastComponent?.string ?? "" }

    private static func probe(_ ffmpeg: FilePath) -> FilePath {
        ffmpeg.removingLastComponent().appending("ffprobe")
    }

    private static func isProgram(_ path: FilePath) -> Bool {
        FileManager.default.isExecutableFile(atPath: path.string)
    }

    /// FFmpeg's names of the containers.
    private static let formats = [
        "video/mp4": "mov", "video/quicktime": "mov", "video/webm": "matroska",
    ]
}

/// A file without a name: it is gone with its last reader, also if the process is killed.
private final class UnnamedFile: Sendable {
    private let descriptor: FileDescriptor

    init(_ bytes: [UInt8]) throws {
        let folder = FileManager.default.temporaryDirectory
        let path = folder.appending(path: "sanguine-\(UUID().uuidString)").path
        descriptor = try FileDescriptor.open(
            FilePath(path),
            .readWrite,
            options: [.create, .exclusiveCreate, .closeOnExec],
            permissions: .ownerReadWrite
        )
        try FileManager.default.removeItem(atPath: path)
        try descriptor.writeAll(bytes)
    }

    deinit { try? descriptor.close() }

    /// Another descriptor of it, at its start.
    func reader() throws -> FileDescriptor {
        try descriptor.seek(offset: 0, from: .start)
        return try descriptor.duplicate()
    }
}
#endif
