import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Random files: cleaning always ends, with stored content or a refusal.
///
/// A failure names the sample and the seed.
@Suite("Files: random changes", .bounded(.seconds(300)))
struct BlobFuzzTests {
    @Test(arguments: SampleFile.allCases, UInt64(1)...4)
    func `a changed file is stored within the limits, or refused`(
        sample: SampleFile,
        seed: UInt64
    ) {
        var random = SplitMix64(seed: seed)
        for round in 0..<700 {
            var file = sample.bytes(filler: .random(in: 0..<60, using: &random))
            for _ in 0...Int.random(in: 0..<6, using: &random) { change(&file, using: &random) }
            let place = Comment(rawValue: "\(sample), seed \(seed), round \(round)")
            do throws(Problem) {
                let content = try BlobContent(file)
                #expect(content.bytes.count <= file.count + 64, place)
                let isImage = content.type.rawValue.hasPrefix("image/")
                #expect((content.size != nil) == isImage, place)
                #expect(content.size?.pixels ?? 0 <= WireLimits.blobPixels, place)
                // In other types, one part may claim to overlap another.
                guard [.jpeg, .png, .webp].contains(content.type) else { continue }
                let again = try BlobContent(content.bytes)
                #expect(again.bytes == content.bytes && again.size == content.size, place)
            } catch {
                #expect([400, 413, 415].contains(error.status), place)
            }
        }
    }

    private func change(_ file: inout [UInt8], using random: inout SplitMix64) {
        guard !file.isEmpty else { return }
        let place = Int.random(in: file.indices, using: &random)
        let extremes: [UInt8] = [0, 1, 0x7F, 0x80, 0xD8, 0xD9, 0xDA, 0xFE, 0xFF]
        switch Int.random(in: 0..<8, using: &random) {
        case 0: file.removeLast(file.count - place)
        case 1: file[place] = .random(in: .min ... .max, using: &random)
        case 2: file[place] = extremes[.random(in: extremes.indices, using: &random)]
        case 3: file.remove(at: place)
        case 4: file.insert(extremes[.random(in: extremes.indices, using: &random)], at: place)
        case 5:
            // A number of four bytes, with extreme values.
            for offset in place..<min(place + 4, file.count) {
                file[offset] = Bool.random(using: &random) ? 0xFF : 0
            }
        case 6:
            let end = Int.random(in: place...file.count, using: &random)
            file.insert(contentsOf: file[place..<end], at: place)
        default:
            let end = min(file.count, place + .random(in: 0..<12, using: &random))
            file.removeSubrange(place..<end)
        }
    }
}
