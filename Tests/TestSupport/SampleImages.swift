import Foundation
import SanguineTesting
import Testing

/// Real images, made by the command `vips` and by exiftool.
package struct SampleImages: Sendable {
    /// The place that the metadata contains.
    package static let place = "Alexanderplatz"

    private let folder: URL

    /// Creates the images in a folder for the duration of a test.
    package static func with(_ body: @Sendable (SampleImages) async throws -> Void) async throws {
        try await TemporaryFolder.with { folder in
            let samples = SampleImages(folder: folder)
            // A picture whose corners differ: left to right, and top to bottom.
            let path = samples.path
            try await samples.run("vips", "xyz", path("xy.v"), "40", "30")
            try await samples.run("vips", "linear", path("xy.v"), path("two.v"), "6 8", "0 0")
            try await samples.run("vips", "bandjoin_const", path("two.v"), path("three.v"), "60")
            try await samples.run("vips", "cast", path("three.v"), path("bytes.v"), "uchar")
            let output = [path("bytes.v"), path("colors.png"), "--interpretation", "srgb"]
            try await samples.run("vips", ["copy"] + output)
            try await body(samples)
        }
    }

    /// The path of a file in the folder.
    package func path(_ name: String) -> String { folder.appending(path: name).path }

    /// The bytes of a file.
    package func bytes(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: url(name))) }

    private func url(_ name: String) -> URL { folder.appending(path: name) }

    /// Writes a file of these bytes.
    package func write(_ bytes: [UInt8], _ name: String) throws {
        try Data(bytes).write(to: url(name))
    }

    /// Runs a program to its end, and returns its output.
    @discardableResult
    package func run(_ program: String, _ arguments: String...) async throws -> String {
        try await run(program, arguments)
    }

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

    /// Encodes the picture of 40 × 30 pixels.
    package func image(_ name: String, options: String = "") async throws -> [UInt8] {
        try await run("vips", "copy", path("colors.png"), path(name) + options)
        return try bytes(name)
    }

    /// Adds a location as Exif, XMP and IPTC, and a comment, as far as the format supports them.
    package func addPlace(_ name: String, _ tags: String...) async throws -> [UInt8] {
        let options = ["-q", "-m", "-overwrite_original", "-n"]
        let texts = ["-XMP:City=\(Self.place)", "-IPTC:City=\(Self.place)"]
        let comment = name.hasSuffix(".jpg") ? ["-Comment=\(Self.place)"] : []
        let place = ["-GPSLatitude=52.52", "-GPSLatitudeRef=N"] + texts + comment
        try await run("exiftool", options + place + tags + [path(name)])
        return try bytes(name)
    }
}
