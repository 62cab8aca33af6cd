import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The choice of a thumbnail, and requests for one in memory.
@Suite("Sizes of thumbnails", .bounded)
struct ThumbnailLadderTests {
    @Test(
        arguments: [
            (4_000, 3_000, 300, nil, 256), (4_000, 3_000, 256, 256, 256),
            (4_000, 3_000, 255, 255, 192), (4_000, 3_000, nil, 300, 384),
            (3_000, 4_000, nil, 300, 256), (4_000, 3_000, 3_999, nil, 3_072),
            (10_000, 100, 40, 40, 32), (100, 90, 99, nil, 96), (40, 20, 32, nil, 32),
        ] as [(Int, Int, Int?, Int?, Int)]
    )
    func `the largest thumbnail that fits is chosen`(
        width: Int,
        height: Int,
        maximumWidth: Int?,
        maximumHeight: Int?,
        side: Int
    ) throws {
        let size = try #require(PixelSize(width, height))
        let choice = ThumbnailLadder.choose(size, width: maximumWidth, height: maximumHeight)
        #expect(choice == .thumbnail(side: side))
    }

    @Test func `an image that fits is returned as it is stored`() throws {
        let size = try #require(PixelSize(100, 50))
        #expect(ThumbnailLadder.choose(size, width: 100, height: nil) == .original)
        #expect(ThumbnailLadder.choose(size, width: nil, height: 50) == .original)
        #expect(ThumbnailLadder.choose(size, width: 5_000, height: 5_000) == .original)
    }

    @Test func `a box needs a number of at least the smallest size`() throws {
        #expect(try ThumbnailBox(WireQuery()) == nil)
        let box = try ThumbnailBox(WireQuery([("w", "300")]))
        #expect(box?.width == 300 && box?.height == nil)
        for text in ["", "31", "-5", "x", "1e3"] {
            let refused = SanguineAuthorityTests.refusal { () throws(Problem) in
                try ThumbnailBox(WireQuery([("h", text)]))
            }
            #expect(refused?.code == .malformedRequest && refused?.status == 400, "\(text)")
        }
    }
}
