import Fuzz
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineMedia

/// Random files: reading always ends, with a result within limits or none.
///
/// A failure names the sample, the seed and the round.
@Suite("Media: random changes", .bounded(.seconds(300)))
struct MediaFuzzTests {
    @Test(arguments: SampleFile.allCases, UInt64(1)...4)
    func `a changed file is read within the limits, or refused`(
        sample: SampleFile,
        seed: UInt64
    ) {
        var random = SplitMix64(seed: seed)
        for round in 0..<700 {
            var file = sample.bytes(filler: .random(in: 0..<60, using: &random))
            for _ in 0...Int.random(in: 0..<6, using: &random) {
                FileChange.change(&file, using: &random)
            }
            let place = Comment(rawValue: "\(sample), seed \(seed), round \(round)")
            check(file, place)
        }
    }

    private func check(_ file: [UInt8], _ place: Comment) {
        let type = MediaType(of: file)
        if let header = ImageHeader(file) {
            #expect(header.kind == type && header.kind.isImage, place)
            #expect(header.width > 0 && header.height > 0, place)
        }
        for kind in [MediaType.mp4, .webm] {
            guard let stored = VideoFile.clean(file, as: kind) else { continue }
            #expect(stored.count <= file.count, place)
            #expect(kind != type || MediaType(of: stored) == type, place)
        }
        for picture in JPEGSequence.pictures(in: file) {
            #expect(picture.starts(with: [0xFF, 0xD8]) && picture.count <= file.count, place)
        }
    }

    @Test(arguments: HostileFile.all)
    func `a hostile file is refused, or read within the limits`(file: HostileFile) {
        check(file.bytes, Comment(rawValue: file.name))
        let type = MediaType(of: file.bytes)
        #expect((type == nil || type == .gif) == (file.code == "unsupported_media_type"))
        if let type, !type.isImage { #expect(VideoFile.clean(file.bytes, as: type) == nil) }
    }
}
