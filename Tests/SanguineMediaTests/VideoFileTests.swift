import TestSupport
import Testing

@testable import SanguineMedia

/// Metadata in parts that players skip, and videos with wrong lengths.
@Suite("Videos: hidden metadata", .bounded)
struct VideoFileTests {
    private static let place = Array(SampleFile.place.utf8)

    /// Returns the video as it is stored; `nil` if it is refused.
    private func clean(_ file: [UInt8]) -> [UInt8]? {
        MediaType(of: file).flatMap { VideoFile.clean(file, as: $0) }
    }

    @Test(arguments: [SampleFile.mp4, .quickTime, .webm])
    func `a stored video has no place, and is unchanged when it is stored again`(
        sample: SampleFile
    ) throws {
        let stored = try #require(clean(sample.bytes()))
        #expect(!stored.contains(text: SampleFile.place))
        #expect(clean(stored) == stored)
    }

    @Test func `the parts of a movie keep their positions`() throws {
        for sample in [SampleFile.mp4, .quickTime] {
            let file = sample.bytes(filler: 3_000)
            let stored = try #require(clean(file))
            try #require(stored.count == file.count)
            let data = try #require(file.firstIndex(ofText: "mdat"))
            #expect(stored[data..<data + 3_004] == file[data..<data + 3_004])
        }
    }

    @Test func `an image is not taken for a video`() {
        for sample in SampleFile.allCases.filter(\.isImage) {
            #expect(clean(sample.bytes()) == nil)
        }
    }

    @Test(arguments: [SampleFile.mp4, .quickTime, .webm])
    func `a truncated video is refused`(sample: SampleFile) {
        #expect(clean(Array(sample.bytes(filler: 500).prefix(80))) == nil)
    }

    @Test(arguments: [SampleFile.mp4, .quickTime, .webm])
    func `bytes after the last part are cut off`(sample: SampleFile) throws {
        let whole = try #require(clean(sample.bytes()))
        for trailer in [Self.place, [0]] { #expect(clean(sample.bytes() + trailer) == whole) }
        // As a box, these zeros would extend to the end of the file.
        let padded = sample.bytes() + [UInt8](repeating: 0, count: 20) + Self.place
        #expect(try #require(clean(padded)).contains(text: SampleFile.place) == false)
    }

    @Test func `a box that exceeds its parent is refused`() {
        for inner in ["udta", "free", "trak"] {
            var lie = SampleFile.box(inner, Self.place)
            lie[3] += 40
            for path in [["moov"], ["moov", "trak"], ["moov", "trak", "mdia", "minf", "stbl"]] {
                let movie = path.reversed().reduce(lie) { SampleFile.box($1, $0) }
                let type = SampleFile.box("ftyp", Array("isom\0\0\0\0mp42".utf8))
                let after = SampleFile.box("free", [UInt8](repeating: 0, count: 100))
                #expect(clean(type + movie + after) == nil, "\(inner) \(path)")
            }
        }
    }

    @Test(arguments: ["mdat", "moov", "meta"])
    func `a video with a truncated last part is refused`(name: String) {
        var part = SampleFile.box(name, Self.place)
        part[3] += 1
        #expect(clean(SampleFile.mp4.bytes() + part) == nil)
    }

    @Test func `a file with too many boxes is refused`() {
        let padding = (0..<FileBox.limit).flatMap { _ in SampleFile.box("free", []) }
        let file = SampleFile.mp4.bytes() + padding + SampleFile.box("uuid", Self.place)
        #expect(clean(file) == nil)
    }

    @Test func `padding in a track and the name of a handler are overwritten`() throws {
        let type = [UInt8](repeating: 0, count: 8) + Array("vide".utf8)
        let handler = SampleFile.box("hdlr", type + [UInt8](repeating: 0, count: 12) + Self.place)
        let padding = SampleFile.box("skip", Self.place)
        let table = SampleFile.box("stbl", padding + SampleFile.box("stsd", [1, 2, 3]))
        let media = SampleFile.box("mdia", handler + SampleFile.box("minf", padding + table))
        let movie = SampleFile.box("moov", SampleFile.box("trak", media))
        let file = SampleFile.box("ftyp", Array("isom\0\0\0\0mp42".utf8)) + movie
        let stored = try #require(clean(file))
        #expect(!stored.contains(text: SampleFile.place))
        #expect(stored.count == file.count && stored.contains(text: "stsd\u{1}\u{2}\u{3}"))
    }

    /// A film whose second track has samples in two chunks between those of the first.
    private static func film(
        handler: String,
        offset: Int = 0,
        fragment: Bool = false
    ) -> [UInt8] {
        let type = SampleFile.box("ftyp", Array("isom\0\0\0\0mp42".utf8))
        let start = type.count + 8 + offset
        func track(_ id: Int, _ handler: String, _ chunks: [Int], _ sizes: [Int]) -> [UInt8] {
            let head = SampleFile.box("tkhd", [0, 0, 0, 7] + 0.big(8) + id.big(4))
            let kind = SampleFile.box("hdlr", 0.big(8) + Array(handler.utf8) + 0.big(12))
            let runs = SampleFile.box("stsc", 0.big(4) + 1.big(4) + 1.big(4) + 2.big(4) + 1.big(4))
            let lengths = SampleFile.box(
                "stsz",
                0.big(8) + sizes.count.big(4) + sizes.flatMap { $0.big(4) }
            )
            let places = SampleFile.box(
                "stco",
                0.big(4) + chunks.count.big(4) + chunks.flatMap { $0.big(4) }
            )
            let table = SampleFile.box("stbl", runs + lengths + places)
            return SampleFile.box(
                "trak",
                head + SampleFile.box("mdia", kind + SampleFile.box("minf", table))
            )
        }
        let data = SampleFile.box(
            "mdat",
            Array("PICTURE1".utf8) + place + place + place
                + Array("PICTURE2".utf8) + place
        )
        let length = place.count
        let second = [start + 8, start + 16 + 3 * length]
        let movie = SampleFile.box(
            "moov",
            track(1, "vide", [start, start + 8 + 3 * length], [4, 4, 4, 4])
                + track(2, handler, second, [length, 2 * length, length])
        )
        let header = SampleFile.box("tfhd", 0.big(4) + 2.big(4))
        let moof = SampleFile.box("moof", SampleFile.box("traf", header))
        return type + data + movie + (fragment ? moof : [])
    }

    @Test(arguments: ["meta", "data", "sbtl", "text"])
    func `the samples of a track without pictures or sound are overwritten`(
        handler: String
    ) throws {
        let file = Self.film(handler: handler)
        let stored = try #require(clean(file))
        #expect(stored.count == file.count && !stored.contains(text: SampleFile.place))
        #expect(stored.contains(text: "PICTURE1") && stored.contains(text: "PICTURE2"))
        #expect(clean(stored) == stored)
    }

    @Test func `a film is refused if the samples of such a track are not found`() throws {
        #expect(clean(Self.film(handler: "meta", offset: 1_000)) == nil)
        #expect(clean(Self.film(handler: "meta", fragment: true)) == nil)
        let sound = try #require(clean(Self.film(handler: "soun")))
        #expect(sound.contains(text: SampleFile.place))
    }

    @Test func `a WebM element that exceeds its parent is refused`() {
        let header = SampleFile.element(
            [0x1A, 0x45, 0xDF, 0xA3],
            [0x42, 0x82, 0x84] + Array("webm".utf8)
        )
        let lie = [0xEC, 0xBF] + Self.place
        let cluster = SampleFile.element([0x1F, 0x43, 0xB6, 0x75], lie)
        let segment = SampleFile.element([0x18, 0x53, 0x80, 0x67], cluster)
        #expect(clean(header + segment) == nil)
    }

    @Test func `a WebM file whose header loses an element is still one`() throws {
        let unknown = SampleFile.element([0x42, 0x99], Self.place)
        let type: [UInt8] = [0x42, 0x82, 0x84] + Array("webm".utf8)
        let header = SampleFile.element([0x1A, 0x45, 0xDF, 0xA3], unknown + type)
        let file = header + SampleFile.element([0x18, 0x53, 0x80, 0x67], [])
        let stored = try #require(clean(file))
        #expect(!stored.contains(text: SampleFile.place))
        #expect(MediaType(of: stored) == .webm && clean(stored) == stored)
    }

    @Test func `a live WebM recording of unknown size loses its tags`() throws {
        let header = SampleFile.element(
            [0x1A, 0x45, 0xDF, 0xA3],
            [0x42, 0x82, 0x84] + Array("webm".utf8)
        )
        let cluster = [0x1F, 0x43, 0xB6, 0x75, 0xFF] + SampleFile.element([0xE7], [0])
        let block = SampleFile.element([0xA3], [1, 2, 3, 4])
        let tags = SampleFile.element([0x12, 0x54, 0xC3, 0x67], Self.place)
        let film = cluster + block + tags + cluster + block + SampleFile.element([0xEC], Self.place)
        let file =
            header + [0x18, 0x53, 0x80, 0x67, 0x01] + [UInt8](repeating: 0xFF, count: 7) + film
        let stored = try #require(clean(file))
        #expect(stored.count == file.count && !stored.contains(text: SampleFile.place))
        #expect(stored.contains(text: "\u{1}\u{2}\u{3}\u{4}"))
    }
}
