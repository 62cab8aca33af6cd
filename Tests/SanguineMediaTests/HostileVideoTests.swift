import SanguineTesting
import TestSupport
import Testing

@testable import SanguineMedia

/// Videos with wrong lengths, and files that would take long or much memory.
@Suite("Videos: hostile files", .bounded(.seconds(60)))
struct HostileVideoTests {
    private static let type = SampleFile.box("ftyp", Array("isom\0\0\0\0mp42".utf8))

    /// Returns a box with this content in each of some boxes.
    private static func nested(_ types: [String], _ content: [UInt8]) -> [UInt8] {
        types.reversed().reduce(content) { SampleFile.box($1, $0) }
    }

    /// A track of metadata with these tables.
    private static func track(
        id: Int = 2,
        sizes: [UInt8],
        chunks: [UInt8],
        runs: [UInt8]
    ) -> [UInt8] {
        let head = SampleFile.box("tkhd", 0.big(4) + 0.big(8) + id.big(4))
        let kind = SampleFile.box("hdlr", 0.big(8) + Array("meta".utf8) + 0.big(12))
        let tables =
            SampleFile.box("stsc", 0.big(4) + runs) + SampleFile.box("stsz", 0.big(4) + sizes)
            + SampleFile.box("stco", 0.big(4) + chunks)
        let media = kind + nested(["minf", "stbl"], tables)
        return SampleFile.box("trak", head + SampleFile.box("mdia", media))
    }

    @Test func `boxes that are nested 200,000 times are refused`() {
        // Each level needs eight bytes; the deepest boxes are the shortest.
        var movie = [UInt8]()
        let levels = 200_000
        movie.reserveCapacity(8 * levels)
        for level in 0..<levels {
            movie += (8 * (levels - level)).big(4)
            movie += Array((level == 0 ? "moov" : "trak").utf8)
        }
        #expect(VideoFile.clean(Self.type + movie, as: .mp4) == nil)
        let path = ["moov"] + [String](repeating: "trak", count: FileBox.depth)
        #expect(VideoFile.clean(Self.type + Self.nested(path, []), as: .mp4) == nil)
        let deepest = Self.nested(Array(path.dropLast()), [])
        #expect(VideoFile.clean(Self.type + deepest, as: .mp4) != nil)
    }

    @Test func `samples that are longer than the file together are refused`() throws {
        // Each of many chunks has one sample, and all of them are the same megabyte.
        let (count, length) = (200_000, 1 << 20)
        let data = SampleFile.box("mdat", [UInt8](repeating: 7, count: length))
        let place = (Self.type.count + 8).big(4)
        let sizes = 0.big(4) + count.big(4) + (0..<count).flatMap { _ in length.big(4) }
        let chunks = count.big(4) + (0..<count).flatMap { _ in place }
        let runs = 1.big(4) + 1.big(4) + 1.big(4) + 1.big(4)
        let track = Self.track(sizes: sizes, chunks: chunks, runs: runs)
        let file = Self.type + data + SampleFile.box("moov", track)
        #expect(VideoFile.clean(file, as: .mp4) == nil)
    }

    @Test func `millions of chunks without samples, among many parts, are read quickly`() throws {
        let parts = (0..<5_000).flatMap { _ in SampleFile.box("mdat", []) }
        let count = 500_000
        let places = (Self.type.count + 8).big(4)
        let chunks = count.big(4) + (0..<count).flatMap { _ in places }
        let runs = 1.big(4) + 1.big(4) + 0.big(4) + 1.big(4)
        let track = Self.track(sizes: 0.big(4) + 1.big(4) + 9.big(4), chunks: chunks, runs: runs)
        let file = Self.type + parts + SampleFile.box("moov", track)
        #expect(VideoFile.clean(file, as: .mp4) == nil)
    }

    @Test func `a table for more samples than the file has bytes is refused`() {
        for (size, count) in [(1, 0xFFFF_FFFF), (0, 0xFFFF_FFFF), (0xFFFF_FFFF, 2)] {
            let track = Self.track(
                sizes: size.big(4) + count.big(4),
                chunks: 1.big(4) + 0.big(4),
                runs: 1.big(4) + 1.big(4) + 1.big(4) + 1.big(4)
            )
            let file = Self.type + SampleFile.box("moov", track)
            #expect(VideoFile.clean(file, as: .mp4) == nil, "\(size) \(count)")
        }
    }

    @Test func `fragments are searched once for all movies`() {
        // A track without samples in each of many movies.
        let track = Self.track(
            sizes: 0.big(4) + 0.big(4),
            chunks: 0.big(4),
            runs: 0.big(4)
        )
        let movie = SampleFile.box("moov", track)
        let header = SampleFile.box("tfhd", 0.big(4) + 3.big(4))
        let fragments = (0..<5_000).flatMap { _ in
            Self.nested(["moof", "traf"], header)
        }
        let movies = (0..<4_000).flatMap { _ in movie }
        #expect(VideoFile.clean(Self.type + movies + fragments, as: .mp4) != nil)
        let other = Self.nested(["moof", "traf"], SampleFile.box("tfhd", 0.big(4) + 2.big(4)))
        #expect(VideoFile.clean(Self.type + movies + other, as: .mp4) == nil)
    }

    @Test(arguments: [UInt8(0), 1, 7])
    func `boxes of no length end the reading`(length: UInt8) {
        let zeros: [UInt8] = [0, 0, 0, length] + Array("trak".utf8)
        let many = [[UInt8]](repeating: zeros, count: 1_000).flatMap(\.self)
        // A length of 0 is that of the rest, so that all others are nested in the first one. A
        // length of 1 is followed by a longer number.
        #expect(VideoFile.clean(Self.type + SampleFile.box("moov", many), as: .mp4) == nil)
        let type = SampleFile.box("ftyp", Array("heic\0\0\0\0mif1heic".utf8))
        #expect(ImageHeader(type + SampleFile.box("meta", [0, 0, 0, 0] + many)) == nil)
        #expect(ImageHeader(type + many) == nil)
    }

    @Test func `a WebM file of a million elements is cleaned`() throws {
        let header = SampleFile.element(
            [0x1A, 0x45, 0xDF, 0xA3],
            [0x42, 0x82, 0x84] + Array("webm".utf8)
        )
        // Elements without content, which no player needs.
        let empty = [UInt8]((0..<1_000_000).flatMap { _ in [0x81, 0x80] as [UInt8] })
        let file = header + SampleFile.element([0x18, 0x53, 0x80, 0x67], empty)
        let cleaned = try #require(VideoFile.clean(file, as: .webm))
        #expect(cleaned.count == file.count && cleaned.suffix(2) == [0xEC, 0x80])
    }
}

/// Types by the first bytes.
@Suite("Media types", .bounded)
struct MediaTypeTests {
    @Test(arguments: SampleFile.allCases)
    func `the content determines the type`(sample: SampleFile) {
        #expect(MediaType(of: sample.bytes())?.rawValue == sample.type)
    }

    @Test(
        arguments: [
            ("avif", ["mif1", "heic"], .avif), ("mif1", ["avif"], .avif),
            ("mif1", ["mif1", "heic"], .heic), ("mif1", ["jpeg"], .heif),
            ("heix", ["mp42"], .heic), ("isom", ["heic"], .mp4), ("qt  ", ["mp42"], .quickTime),
            ("3gp4", ["3gp4"], nil), ("miaf", ["heic"], .heic),
        ] as [(String, [String], MediaType?)]
    )
    func `the brands determine the type`(major: String, others: [String], type: MediaType?) {
        let brands = Array((major + "\0\0\0\0" + others.joined()).utf8)
        #expect(MediaType(of: SampleFile.box("ftyp", brands)) == type)
    }

    @Test(arguments: [
        "", "GIF", "%PDF-1.7", "<svg/>", "<?xml version='1.0'?><svg/>", "II*\0", "MM\0*", "BM",
        "8BPS", "\0\0\u{1}\0", "RIFF\0\0\0\0AVI ", "#EXTM3U",
    ])
    func `other content has no type`(text: String) {
        #expect(MediaType(of: Array(text.utf8)) == nil)
    }
}

/// Consecutive pictures of FFmpeg.
@Suite("Motion JPEG", .bounded)
struct JPEGSequenceTests {
    @Test func `pictures are split at their ends, and an incomplete picture is dropped`() {
        let first: [UInt8] = [0xFF, 0xD8, 1, 0xFF, 0xD9]
        let other: [UInt8] = [0xFF, 0xD8, 0xFF, 0xE0, 0xFF, 0, 0xFF, 0xFF, 0xD9]
        let pictures = [first, other]
        #expect(JPEGSequence.pictures(in: first + other) == pictures)
        #expect(JPEGSequence.pictures(in: first + other + [0xFF, 0xD8, 1]) == pictures)
        #expect(JPEGSequence.pictures(in: [1, 2, 0xFF, 0xD9]) == [])
        #expect(JPEGSequence.pictures(in: []) == [])
    }
}
