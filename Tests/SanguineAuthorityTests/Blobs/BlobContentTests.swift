import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The detection of a file's type, and the content to store.
@Suite("Files: types and stored content", .bounded)
struct BlobContentTests {
    private func refusal(_ file: [UInt8]) -> Problem? {
        SanguineAuthorityTests.refusal { () throws(Problem) in try BlobContent(file) }
    }

    @Test(arguments: SampleFile.allCases)
    func `the content determines the type, and the size of an image`(sample: SampleFile) throws {
        let content = try BlobContent(sample.bytes(width: 1_234, height: 567))
        #expect(content.type.rawValue == sample.type)
        #expect(content.size == (sample.isImage ? PixelSize(1_234, 567) : nil))
    }

    @Test(arguments: SampleFile.allCases)
    func `no stored content reveals where the file was made`(sample: SampleFile) throws {
        let file = sample.bytes()
        let content = try BlobContent(file)
        #expect(!content.bytes.contains(text: SampleFile.place))
        #expect(!content.bytes.contains(text: "xmpmeta"))
    }

    @Test(arguments: SampleFile.allCases)
    func `stored content is unchanged when it is stored again`(sample: SampleFile) throws {
        let once = try BlobContent(sample.bytes())
        let twice = try BlobContent(once.bytes)
        #expect(twice.bytes == once.bytes)
        #expect(twice.size == once.size)
    }

    @Test(arguments: [SampleFile.jpeg, .png, .webp], 2...8)
    func `the orientation is kept`(sample: SampleFile, orientation: Int) throws {
        let stored = try BlobContent(sample.bytes(orientation: orientation)).bytes
        let tiff = try #require(stored.firstIndex(ofText: "MM\0*"))
        let found = try #require(ImageOrientation(tiff: tiff..<stored.count, of: stored))
        #expect(found.value == orientation)
    }

    @Test(arguments: [SampleFile.jpeg, .png, .webp])
    func `an image with the default orientation has no metadata`(sample: SampleFile) throws {
        let stored = try BlobContent(sample.bytes(orientation: 1)).bytes
        #expect(stored.firstIndex(ofText: "MM\0*") == nil)
        #expect(!stored.contains(text: "Exif") && !stored.contains(text: "EXIF"))
    }

    @Test func `a JPEG keeps its data, its colour profile and its tables`() throws {
        let file = SampleFile.jpeg.bytes(orientation: 1)
        let stored = try BlobContent(file).bytes
        let tables = try #require(file.firstIndex(ofText: "\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}"))
        let end = try #require(file[tables...].lastIndex(of: 0xD9))
        #expect(stored.suffix(end - tables + 1) == file[tables...end])
        #expect(stored.contains(text: "ICC_PROFILE") && stored.contains(text: "JFIF"))
    }

    @Test func `a truncated JPEG is stored with an end marker`() throws {
        let file = SampleFile.jpeg.bytes(filler: 100)
        let end = try #require(file.lastIndex(of: 0xD9))
        let stored = try BlobContent(Array(file[..<(end - 1)])).bytes
        #expect(stored.suffix(2) == [0xFF, 0xD9])
        #expect(stored == (try BlobContent(file).bytes))
    }

    @Test func `the parts of a HEIC or video file keep their positions`() throws {
        for sample in [SampleFile.heic, .mp4, .quickTime] {
            let file = sample.bytes(filler: 3_000)
            let stored = try BlobContent(file).bytes
            #expect(stored.count == file.count)
            let data = Array(file[file.firstIndex(ofText: "mdat").map { $0..<$0 + 3_004 } ?? 0..<0])
            #expect(data.count == 3_004)
            let place = try #require(stored.firstIndex(ofText: "mdat"))
            #expect(Array(stored[place..<place + 3_004]) == data)
        }
    }

    @Test(arguments: [
        [], [0xFF], Array("GIF89a".utf8), Array("%PDF-1.7".utf8), Array("<svg/>".utf8),
        SampleFile.box("ftyp", Array("avif\0\0\0\0avifmif1".utf8)),
        SampleFile.box("ftyp", Array("mif1\0\0\0\0mif1".utf8)),
        [0x1A, 0x45, 0xDF, 0xA3, 0x88, 0x42, 0x82, 0x85] + Array("matro".utf8),
    ])
    func `a file of another type is refused, with the accepted types`(file: [UInt8]) throws {
        let problem = try #require(refusal(file))
        #expect(problem.code == .unsupportedMediaType && problem.status == 415)
        for type in BlobType.allCases { #expect(problem.detail.contains(type.rawValue)) }
    }

    @Test(arguments: SampleFile.allCases.filter(\.isImage))
    func `an image with too many pixels is refused, with its size`(sample: SampleFile) throws {
        // The largest sides that VP8 and VP8L can store have 14 bits.
        let largest = try BlobContent(sample.bytes(width: 10_000, height: 5_000))
        #expect(largest.size?.pixels == WireLimits.blobPixels)
        let problem = try #require(refusal(sample.bytes(width: 10_001, height: 5_000)))
        #expect(problem.code == .bodyTooLarge && problem.status == 413)
        #expect(problem.detail.contains("10001 × 5000"))
    }

    @Test func `an image with a frame larger than its canvas is refused`() throws {
        var file = SampleFile.movingWebP.bytes(width: 100, height: 100)
        let canvas = try #require(file.firstIndex(ofText: "VP8X"))
        file[canvas + 12] = 50
        #expect(refusal(file)?.code == .malformedBody)
        let frame = SampleFile.segment(0xC0, [8, 0x7F, 0xFF, 0x7F, 0xFF, 1, 1, 0x11, 0])
        let jpeg = SampleFile.jpeg.bytes()
        let scan = try #require(jpeg.firstIndex { $0 == 0xDA })
        let two = Array(jpeg[..<(scan - 1)]) + frame + Array(jpeg[(scan - 1)...])
        #expect(refusal(two)?.code == .malformedBody)
    }

    @Test(arguments: SampleFile.allCases.filter { $0 != .jpeg })
    func `a truncated file is refused as incomplete`(sample: SampleFile) throws {
        let file = sample.bytes(filler: 500)
        let cut = Array(file.prefix(80))
        #expect(refusal(cut)?.code == .malformedBody)
    }

    @Test func `a HEIC file with too many extents is refused at once`() throws {
        var file = SampleFile.heic.bytes()
        let places = try #require(file.firstIndex(ofText: "iloc"))
        // Numbers of no bytes, and 65,535 extents of the first item.
        file.replaceSubrange(places + 8..<places + 10, with: [0, 0])
        file.replaceSubrange(places + 16..<places + 18, with: [0xFF, 0xFF])
        #expect(refusal(file)?.code == .malformedBody)
    }

    @Test func `an id is 64 digits, the hash of the stored content`() throws {
        let stored = try BlobContent(SampleFile.png.bytes()).bytes
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
