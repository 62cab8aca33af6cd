import SanguineMedia
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The detection of a file's type, and the content to store.
@Suite("Files: types and stored content", .bounded)
struct BlobContentTests {
    private let account = Identifier(at: Timestamp(millisecondsSince1970: 0))

    private func content(_ file: [UInt8]) async throws(Problem) -> BlobContent {
        try await BlobContent(file, for: account, by: UnscaledImages())
    }

    private func refusal(_ file: [UInt8]) async -> Problem? {
        await problem { () async throws(Problem) in try await content(file) }
    }

    @Test(arguments: SampleFile.allCases)
    func `the content determines the type, and the size of an image`(
        sample: SampleFile
    ) async throws {
        let file = sample.bytes(width: 1_234, height: 567, orientation: 1)
        let content = try await content(file)
        #expect(content.type.rawValue == sample.type)
        #expect(content.size == (sample.isImage ? PixelSize(1_234, 567) : nil))
        // Without a decoder, images keep their metadata.
        #expect((content.bytes == file) == sample.isImage)
        #expect(sample.isImage || !content.bytes.contains(text: SampleFile.place))
    }

    @Test(arguments: [
        [], [0xFF], Array("GIF89a".utf8), Array("%PDF-1.7".utf8), Array("<svg/>".utf8),
        SampleFile.box("ftyp", Array("avif\0\0\0\0avifmif1".utf8)),
        SampleFile.box("ftyp", Array("mif1\0\0\0\0mif1".utf8)),
        [0x1A, 0x45, 0xDF, 0xA3, 0x88, 0x42, 0x82, 0x85] + Array("matro".utf8),
    ])
    func `a file of another type is refused, with the accepted types`(
        file: [UInt8]
    ) async throws {
        let problem = try #require(await refusal(file))
        #expect(problem.code == .unsupportedMediaType && problem.status == 415)
        for type in MediaType.accepted { #expect(problem.detail.contains(type.rawValue)) }
        #expect(MediaType.accepted.count == 7)
    }

    @Test(arguments: SampleFile.allCases.filter(\.isImage))
    func `an image with too many pixels is refused, with its size`(
        sample: SampleFile
    ) async throws {
        // The largest sides that VP8 and VP8L can store have 14 bits.
        let largest = try await content(sample.bytes(width: 10_000, height: 5_000, orientation: 1))
        #expect(largest.size == PixelSize(10_000, 5_000))
        let problem = try #require(
            await refusal(sample.bytes(width: 10_001, height: 5_000, orientation: 1))
        )
        #expect(problem.code == .bodyTooLarge && problem.status == 413)
        #expect(problem.detail.contains("10001 × 5000"))
    }

    @Test(arguments: [SampleFile.jpeg, .png, .heic, .mp4, .quickTime, .webm])
    func `a truncated file is refused as incomplete`(sample: SampleFile) async throws {
        let cut = Array(sample.bytes(filler: 500).prefix(sample == .png ? 20 : 80))
        #expect(await refusal(cut)?.code == .malformedBody)
    }

    @Test func `an id is 64 digits, the hash of the stored content`() async throws {
        let stored = try await content(SampleFile.png.bytes()).bytes
        let id = BlobID(of: stored)
        #expect(BlobID(id.description) == id && id.description.utf8.count == 64)
        #expect(
            BlobID(of: []).description
                == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        )
        let others = ["", "../../etc/passwd", id.description.uppercased(), id.description + "0"]
        for text in others { #expect(BlobID(text) == nil, "\(text)") }
    }
}
