import Foundation
import SanguineAuthority
import SanguineImages
import SanguineModel
import SanguineServer

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#endif

/// Thumbnails of photos: their processor time next to `vipsthumbnail`, a burst on one thumbnail, and
/// the memory of eight at a time.
enum ImageBenchmarks {
    private static let photos = 12
    private static let side = 256
    private static let burst = 1_000
    private static let atOnce = 8
    /// The limit of the memory of the process, in MB.
    private static let memoryLimit = 200.0

    static func run() async throws -> [Figure] {
        guard let peer = tool("vipsthumbnail"), let vips = tool("vips") else {
            print("Images are not measured: install libvips-tools.")
            return []
        }
        let folder = try Folder()
        let files = try makePhotos(in: folder, vips)
        let memory = try await peakMegabytes { try await thumbnails(of: files, at: atOnce) }
        let ours = try await processorMilliseconds {
            try await thumbnails(of: files, at: 1)
        }
        let theirs = try await processorMilliseconds(ofChildren: true) {
            let output = folder.url.appending(path: "small-%s.jpg[Q=80]").path
            let options = ["--vips-concurrency=1", "-s", "\(side)", "-o", output]
            try run(peer, options + files.map(\.path))
        }
        return [
            Figure(
                cost: "distinct thumbnails of 6-megapixel photos",
                ours / Double(files.count),
                unit: "ms CPU",
                of: "vipsthumbnail",
                theirs / Double(files.count),
                atMost: 1.2
            ),
            Figure(
                cost: "a burst of \(burst) requests for one thumbnail, each",
                try await burstMilliseconds(files[0]),
                unit: "ms",
                of: "the limit of 1 ms",
                1,
                atMost: 1
            ),
            Figure(
                cost: "memory of the process with \(atOnce) thumbnails at a time",
                memory,
                unit: "MB",
                of: "the limit of \(Int(memoryLimit)) MB",
                memoryLimit,
                atMost: 1
            ),
        ]
    }

    /// Makes photos of 6 megapixels with some noise, which differ.
    private static func makePhotos(in folder: Folder, _ vips: URL) throws -> [URL] {
        func path(_ name: String) -> String { folder.url.appending(path: name).path }
        var files: [URL] = []
        for number in 1...photos {
            let file = path("photo-\(number).jpg")
            let seed = ["--mean", "128", "--sigma", "40", "--seed", "\(number)"]
            try run(vips, ["gaussnoise", path("noise.v"), "300", "200"] + seed)
            try run(vips, ["resize", path("noise.v"), path("large.v"), "10"])
            try run(vips, ["cast", path("large.v"), path("gray.v"), "uchar"])
            try run(vips, ["colourspace", path("gray.v"), file + "[Q=90]", "srgb"])
            files.append(URL(filePath: file))
        }
        return files
    }

    private static func thumbnails(of files: [URL], at width: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, file) in files.enumerated() {
                if number >= width { try await group.next() }
                group.addTask {
                    let bytes = Array(try Data(contentsOf: file))
                    let thumbnail = try await VipsImages.shared.thumbnail(
                        of: bytes,
                        as: .jpeg,
                        side: side,
                        for: .anonymous
                    )
                    guard thumbnail.facts.width == side else {
                        throw BenchmarkError.wrong("the thumbnail's size")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    /// Returns the wall time of a burst divided by its requests, the first of which scale the image.
    private static func burstMilliseconds(_ file: URL) async throws -> Double {
        let bytes = Array(try Data(contentsOf: file))
        let moment = Timestamp(millisecondsSince1970: 0)
        let row = BlobRow(
            account: Identifier(at: moment),
            id: BlobID(of: bytes),
            size: Int64(bytes.count),
            type: "image/jpeg",
            width: 3_000,
            height: 2_000,
            createdAt: moment
        )
        let images = ServerImages(folder: nil)
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<burst {
                group.addTask {
                    _ = try await images.thumbnail(of: row, side: side) {
                        () async throws(Problem) in bytes
                    }
                }
            }
            try await group.waitForAll()
        }
        return (ContinuousClock.now - start) / .milliseconds(1) / Double(burst)
    }

    /// Returns the processor time of a closure, of this process or of its children that have ended.
    private static func processorMilliseconds(
        ofChildren: Bool = false,
        _ body: () async throws -> Void
    ) async throws -> Double {
        func used() -> Double {
            var usage = rusage()
            let who = ofChildren ? RUSAGE_CHILDREN : RUSAGE_SELF
            #if canImport(Glibc)
            getrusage(__rusage_who_t(who.rawValue), &usage)
            #else
            getrusage(who, &usage)
            #endif
            let seconds = Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            let microseconds = Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
            return seconds * 1_000 + microseconds / 1_000
        }
        let before = used()
        try await body()
        return used() - before
    }

    /// Returns the most memory that the process has had in the meantime, where the system counts it.
    private static func peakMegabytes(_ body: () async throws -> Void) async throws -> Double {
        // 5 resets the high-water mark (proc_pid_clear_refs(5)).
        try? Data("5".utf8).write(to: URL(filePath: "/proc/self/clear_refs"))
        try await body()
        let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = text?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        guard let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first,
            let number = Double(kilobytes)
        else { throw BenchmarkError.wrong("the memory of the process, which is not counted") }
        return number * 1_024 / 1_000_000
    }

    private static func tool(_ name: String) -> URL? {
        let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":") ?? []
        return folders.map { URL(filePath: "\($0)/\(name)") }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }

    private static func run(_ tool: URL, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = tool
        process.arguments = arguments
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchmarkError.wrong("the end of \(tool.lastPathComponent)")
        }
    }
}
