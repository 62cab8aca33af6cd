import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineMedia

/// The type and the size of an image, without decoding it.
@Suite("Image header", .bounded)
struct ImageHeaderTests {
    @Test(arguments: [SampleFile.png, .webp, .lossyWebP, .losslessWebP, .movingWebP])
    func `the size is that of the file`(file: SampleFile) {
        let header = ImageHeader(Data(file.bytes(width: 40, height: 30)))
        #expect(header?.kind.rawValue == file.type)
        #expect(header?.width == 40 && header?.height == 30)
        #expect(header?.isAnimated == (file == .movingWebP))
    }

    @Test func `a photo that is turned has the size in which it is shown`() {
        let upright = ImageHeader(
            Data(SampleFile.jpeg.bytes(width: 40, height: 30, orientation: 1))
        )
        let turned = ImageHeader(Data(SampleFile.jpeg.bytes(width: 40, height: 30, orientation: 6)))
        #expect(upright?.width == 40 && upright?.height == 30)
        #expect(turned?.width == 30 && turned?.height == 40)
    }

    @Test func `a HEIC file has a size`() {
        let header = ImageHeader(Data(SampleFile.heic.bytes(width: 40, height: 30)))
        #expect(header?.kind == .heic)
        #expect([header?.width, header?.height].compactMap(\.self).sorted() == [30, 40])
    }

    @Test func `a GIF with two frames is animated`() {
        let colors: [UInt8] = [0, 0, 0, 255, 255, 255]
        let screen: [UInt8] = Array("GIF89a".utf8) + [4, 0, 3, 0, 0x80, 0, 0] + colors
        let frame: [UInt8] = [0x2C, 0, 0, 0, 0, 4, 0, 3, 0, 0, 2, 2, 0x4C, 1, 0]
        let still = ImageHeader(Data(screen + frame + [0x3B]))
        let moving = ImageHeader(Data(screen + frame + frame + [0x3B]))
        #expect(still?.width == 4 && still?.height == 3 && still?.isAnimated == false)
        #expect(moving?.isAnimated == true)
    }

    @Test(arguments: ["<svg xmlns='http://www.w3.org/2000/svg'/>", "", "GIF8", "hello", "RIFF"])
    func `other content is no image`(text: String) {
        #expect(ImageHeader(Data(text.utf8)) == nil)
    }

    @Test func `an image without pixels is none`() {
        #expect(ImageHeader(Data(SampleFile.png.bytes(width: 0, height: 10))) == nil)
    }

    @Test(arguments: SampleFile.allCases)
    func `cut and changed files are read without a fault`(file: SampleFile) {
        let bytes = file.bytes(filler: 40)
        for count in 0...bytes.count {
            if let header = ImageHeader(Data(bytes.prefix(count))) { #expect(header.width > 0) }
        }
        for seed in UInt64(1)...10 {
            var random = SplitMix64(seed: seed)
            for round in 0..<200 {
                var changed = bytes
                for _ in 0..<4 {
                    let place = Int.random(in: 0..<changed.count, using: &random)
                    changed[place] = UInt8.random(in: 0...255, using: &random)
                }
                guard let header = ImageHeader(Data(changed)) else { continue }
                #expect(header.width > 0 && header.height > 0, "seed \(seed), round \(round)")
            }
        }
    }

    @Test func `a slice of data is read from its own start`() {
        let data = Data([1, 2, 3]) + Data(SampleFile.png.bytes(width: 12, height: 34))
        #expect(ImageHeader(data.dropFirst(3))?.height == 34)
    }
}
