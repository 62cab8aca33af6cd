import Foundation
import Fuzz
import SanguineMedia
import SanguineModel
import SanguineTesting
import SystemZlib
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// Broken and hostile files in the code that all uploads pass: the readers of media, and libvips.
///
/// `make uploads` sends such files to a server for an hour, and measures its memory.
@Suite("Uploads: hostile files", .bounded(.seconds(300)))
struct UploadFuzzTests {
    private let account = Identifier(at: Timestamp(millisecondsSince1970: 0))
    private let images = ServerImages(folder: nil)

    private func store(_ file: [UInt8]) async throws(Problem) -> BlobContent {
        try await BlobContent(file, for: account, by: images)
    }

    private func refusal(_ file: [UInt8]) async -> Problem? {
        do throws(Problem) {
            _ = try await store(file)
            return nil
        } catch {
            return error
        }
    }

    /// Checks that a file is stored without its place and can be stored again, or is refused with
    /// a code that the protocol names.
    private func check(_ file: [UInt8], _ place: Comment) async {
        do throws(Problem) {
            let content = try await store(file)
            #expect(MediaType(of: content.bytes) == content.type, place)
            #expect((content.size != nil) == content.type.isImage, place)
            #expect(!content.bytes.contains(text: HostileFile.script), place)
            #expect(await refusal(content.bytes) == nil, place)
        } catch {
            #expect([400, 413, 415, 422].contains(error.status), place)
            #expect(error.detail.hasPrefix("Send "), place)
        }
    }

    /// Real images of all formats that are decoded.
    private func files(_ samples: SampleImages) async throws -> [(name: String, bytes: [UInt8])] {
        var files: [(name: String, bytes: [UInt8])] = []
        for (name, options) in [
            ("a.jpg", ""), ("progressive.jpg", "[interlace]"), ("a.png", ""),
            ("interlaced.png", "[interlace]"), ("a.webp", ""), ("lossless.webp", "[lossless]"),
            ("moving.webp", "[page-height=15]"), ("a.heic", ""),
        ] {
            files.append((name, try await samples.image(name, options: options)))
        }
        for sample in [SampleFile.mp4, .quickTime, .webm] {
            files.append((sample.rawValue, sample.bytes(filler: 200)))
        }
        return files
    }

    @Test(.requires(.vips), arguments: HostileFile.all)
    func `a hostile file is refused with its reason`(file: HostileFile) async throws {
        let problem = try #require(await refusal(file.bytes), "\(file.name)")
        #expect(problem.code.rawValue == file.code, "\(file.name)")
        #expect(problem.detail.hasPrefix("Send "), "\(file.name): \(problem.detail)")
    }

    @Test(.requires(.vips), arguments: UInt64(1)...3)
    func `a changed file is stored without traces, or refused with a reason`(
        seed: UInt64
    ) async throws {
        try await SampleImages.with { samples in
            let files = try await files(samples)
            for number in 0..<120 {
                let file = UploadCase(number, seed: seed, from: files)
                await check(file.bytes, "seed \(seed), case \(number): \(file.name)")
            }
        }
    }

    @Test(.requires(.vips))
    func `a file that is truncated anywhere is refused, or shows its complete part`()
        async throws
    {
        try await SampleImages.with { samples in
            for file in try await files(samples) {
                // Also each of the first and last bytes.
                let steps = stride(from: 0, to: file.bytes.count, by: max(1, file.bytes.count / 24))
                let ends = Array(0..<12) + (1...12).map { file.bytes.count - $0 }
                for count in Array(steps) + ends {
                    let part = Array(file.bytes.prefix(count))
                    await check(part, "\(file.name), \(count) bytes")
                }
            }
        }
    }

    @Test(.requires(.vips, .exiftool))
    func `a file of two types is stored as its first one, without the second`() async throws {
        try await SampleImages.with { samples in
            let page = Array("<!DOCTYPE html>\(HostileFile.script)".utf8)
            for (name, type) in [
                ("a.jpg", MediaType.jpeg), ("a.png", .png), ("a.webp", .webp), ("a.heic", .jpeg),
                ("moving.webp", .webp),
            ] {
                let options = name == "moving.webp" ? "[page-height=15]" : ""
                _ = try await samples.image(name, options: options)
                let script = "-XMP:Description=\(HostileFile.script)"
                let file = try await samples.addPlace(name, script)
                let content = try await store(file + page)
                #expect(content.type == type, "\(name)")
                #expect(!content.bytes.contains(text: "alert(1)"), "\(name)")
                #expect(!content.bytes.contains(text: SampleImages.place), "\(name)")
            }
        }
    }

    @Test(.requires(.vips), arguments: ["a.jpg", "a.png", "a.webp", "a.heic"])
    func `an image with the first bytes of another type is refused`(name: String) async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image(name)
            for sample in SampleFile.allCases where sample.type != MediaType(of: file)?.rawValue {
                let mixed = sample.bytes().prefix(12) + file.dropFirst(12)
                let problem = await refusal(Array(mixed))
                let codes: [ProblemCode?] = [.malformedBody, .unsupportedMediaType]
                #expect(codes.contains(problem?.code), "\(name) as \(sample)")
            }
        }
    }

    @Test(.requires(.vips), arguments: ["iCCP", "zTXt", "iTXt"])
    func `metadata that expands a thousand times is not kept`(chunk: String) async throws {
        try await SampleImages.with { samples in
            let file = try await samples.image("a.png")
            let zeros = try Self.deflated(zeros: 64 << 20)
            let name = Array("a\0".utf8) + (chunk == "iTXt" ? [1, 0, 0, 0] : [0])
            let bomb = SampleFile.chunk(chunk, name + zeros)
            // After the signature and the header.
            let header = 8 + 25
            let content = try await store(Array(file[..<header]) + bomb + Array(file[header...]))
            #expect(content.bytes.count < file.count + 4_096)
            #expect(content.size == PixelSize(40, 30))
        }
    }

    /// Returns zeros that are compressed to about a thousandth.
    private static func deflated(zeros count: Int) throws -> [UInt8] {
        var length = compressBound(uLong(count))
        var bytes = [UInt8](repeating: 0, count: Int(length))
        let zeros = [UInt8](repeating: 0, count: count)
        try #require(compress(&bytes, &length, zeros, uLong(count)) == Z_OK)
        return Array(bytes.prefix(Int(length)))
    }

    @Test(.requires(.vips))
    func `pixels and frames beyond the limits are refused by the header`() async throws {
        try await SampleImages.with { samples in
            for name in ["a.png", "a.jpg"] {
                try await samples.run("vips", "black", samples.path(name), "7100", "7100")
                let problem = await refusal(try samples.bytes(name))
                #expect(problem?.code == .bodyTooLarge && problem?.status == 413, "\(name)")
                #expect(problem?.detail.contains("7100 × 7100") == true, "\(name)")
            }
            // The size of a small photo is changed to 4 billion pixels.
            var flood = try await samples.image("flood.jpg")
            let frame = try #require(
                flood.indices.first { flood[$0...].starts(with: [0xFF, 0xC0]) }
            )
            flood.replaceSubrange(frame + 5..<frame + 9, with: [0xFA, 0xFA, 0xFA, 0xFA])
            #expect(await refusal(flood)?.detail.contains("64250 × 64250") == true)
            // An animation of 301 frames that differ, each of one line.
            let (noise, strip) = (samples.path("noise.v"), samples.path("strip.png"))
            try await samples.run("vips", "gaussnoise", noise, "8", "301", "--sigma", "60")
            try await samples.run("vips", "cast", noise, strip, "uchar")
            let moving = samples.path("moving.webp") + "[page-height=1,lossless]"
            try await samples.run("vips", "copy", strip, moving)
            let problem = await refusal(try samples.bytes("moving.webp"))
            #expect(problem?.code == .bodyTooLarge)
            #expect(problem?.detail.contains("301 frames") == true)
        }
    }
}
