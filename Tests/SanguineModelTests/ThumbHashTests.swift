import Foundation
import SanguineModel
import Testing

/// Placeholders in some 25 bytes, compared with those of the published implementation.
@Suite("ThumbHash")
struct ThumbHashTests {
    /// An image that follows from its size, and its placeholder from the published implementation.
    struct Vector: Sendable {
        let width: Int
        let height: Int
        let hasAlpha: Bool
        let base64: String

        var rgba: [UInt8] {
            var bytes: [UInt8] = []
            for y in 0..<height {
                for x in 0..<width {
                    bytes.append(UInt8((x * 7 + y * 3) % 256))
                    bytes.append(UInt8((x * x + y * 5) % 256))
                    bytes.append(UInt8((200 - x * 2 + y) & 255))
                    bytes.append(hasAlpha ? UInt8((x * 11 + y * 13) % 256) : 255)
                }
            }
            return bytes
        }
    }

    static let vectors = [
        Vector(width: 40, height: 30, hasAlpha: false, base64: "YvYJLY4JaHZFh5V3eHh3dwBId5CG"),
        Vector(width: 20, height: 32, hasAlpha: true, base64: "pPWFGwQYU2CYinhgZQldbFaHZ3hpdGA="),
        Vector(
            width: 100,
            height: 100,
            hasAlpha: false,
            base64: "oPcFPwJPVnWlmnpVZmZ4d3eHB6qVZY8E"
        ),
        Vector(width: 64, height: 9, hasAlpha: false, base64: "HwcKSYA5gEh2hneHUHcXgNo="),
        Vector(
            width: 30,
            height: 30,
            hasAlpha: true,
            base64: "JBaCJQYXMEcxacaYeGBnB3hGOYR3h6RAow=="
        ),
    ]

    @Test(arguments: vectors)
    func `an image has the placeholder of the published implementation`(vector: Vector) {
        let hash = ThumbHash(width: vector.width, height: vector.height, rgba: vector.rgba)
        #expect(hash?.base64 == vector.base64)
    }

    @Test func `a published placeholder has the published pixels`() throws {
        let hash = try #require(ThumbHash(base64: "1QcSHQRnh493V4dIh4eXh1h4kJUI"))
        let pixels = hash.pixels()
        #expect(pixels.width == 23 && pixels.height == 32)
        #expect(Array(pixels.rgba.prefix(8)) == [64, 77, 113, 255, 66, 79, 114, 255])
        #expect(Array(pixels.rgba.suffix(8)) == [0, 3, 38, 255, 0, 4, 39, 255])
        #expect(pixels.rgba.reduce(0) { $0 + Int($1) } == 375_116)
    }

    @Test func `a transparent placeholder has the published pixels`() throws {
        let hash = try #require(ThumbHash(base64: "YJqGPQw7sFlslqhFafSE+Q6oJ1h2iHB2Rw=="))
        let pixels = hash.pixels()
        #expect(pixels.width == 32 && pixels.height == 32)
        #expect(Array(pixels.rgba.prefix(8)) == [228, 75, 51, 0, 227, 76, 53, 0])
        #expect(pixels.rgba.reduce(0) { $0 + Int($1) } == 577_328)
    }

    @Test func `average color and aspect ratio are in the header`() throws {
        let hash = try #require(ThumbHash(base64: "YJqGPQw7sFlslqhFafSE+Q6oJ1h2iHB2Rw=="))
        let color = hash.averageColor
        #expect(abs(color.red - 0.759259) < 1e-5 && abs(color.green - 0.457671) < 1e-5)
        #expect(abs(color.blue - 0.306878) < 1e-5 && abs(color.opacity - 0.733333) < 1e-5)
        #expect(hash.aspectRatio == 1)
        let tall = try #require(ThumbHash(base64: "1QcSHQRnh493V4dIh4eXh1h4kJUI"))
        #expect(abs(tall.aspectRatio - 5.0 / 7) < 1e-9)
    }

    @Test func `a placeholder is Base64 in JSON`() throws {
        let hash = try #require(ThumbHash(base64: "1QcSHQRnh493V4dIh4eXh1h4kJUI"))
        let json = try JSONEncoder().encode([hash])
        #expect(String(decoding: json, as: UTF8.self) == "[\"1QcSHQRnh493V4dIh4eXh1h4kJUI\"]")
        #expect(try JSONDecoder().decode([ThumbHash].self, from: json) == [hash])
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([ThumbHash].self, from: Data("[\"hello\"]".utf8))
        }
    }

    @Test func `an image of one pixel has a placeholder of its color`() throws {
        let hash = try #require(ThumbHash(width: 1, height: 1, rgba: [255, 0, 0, 255]))
        let color = hash.averageColor
        #expect(color.red > 0.95 && color.green < 0.05 && color.blue < 0.05)
        #expect(hash.pixels().width == 32)
    }

    @Test func `pixels that do not fit the size are refused`() {
        #expect(ThumbHash(width: 2, height: 2, rgba: [0, 0, 0, 0]) == nil)
        #expect(ThumbHash(width: 0, height: 1, rgba: []) == nil)
        let wide = [UInt8](repeating: 0, count: 101 * 4)
        #expect(ThumbHash(width: 101, height: 1, rgba: wide) == nil)
    }

    @Test func `arbitrary bytes are a placeholder with pixels, or none`() {
        var state: UInt64 = 7
        func random() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state >> 33
        }
        var count = 0
        for _ in 0..<2_000 {
            let bytes = (0..<Int(random() % 34)).map { _ in UInt8(truncatingIfNeeded: random()) }
            guard let hash = ThumbHash(bytes: bytes) else { continue }
            count += 1
            let pixels = hash.pixels()
            #expect(pixels.rgba.count == pixels.width * pixels.height * 4)
            #expect(max(pixels.width, pixels.height) == 32 && hash.aspectRatio > 0)
            #expect(ThumbHash(base64: hash.base64) == hash)
        }
        #expect(count > 100, "Too few of the bytes were a placeholder.")
    }
}
