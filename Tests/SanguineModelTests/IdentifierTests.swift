import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@Suite("Identifier", .bounded)
struct IdentifierTests {
    /// A random number generator of ones or zeros only.
    private struct Constant: RandomNumberGenerator {
        let bits: UInt64
        func next() -> UInt64 { bits }
    }

    @Test func `ids of later milliseconds sort later, as values and as text`() {
        var random = SplitMix64(seed: 1)
        let ids = (0..<1_000).map { step in
            Identifier(
                at: Timestamp(millisecondsSince1970: 1_763_752_719_250 + Int64(step)),
                using: &random
            )
        }

        #expect(ids == ids.sorted())
        #expect(ids.map(\.description) == ids.map(\.description).sorted())
    }

    @Test(arguments: [UInt64.min, .max, 0x5555_5555_5555_5555])
    func `version and variant are those of RFC 9562 for any random bits`(bits: UInt64) {
        var random = Constant(bits: bits)
        let id = Identifier(at: Timestamp(millisecondsSince1970: 1), using: &random)

        #expect(id.bytes[6] >> 4 == 7)
        #expect(id.bytes[8] >> 6 == 0b10)
    }

    @Test func `the first 48 bits are the milliseconds since 1970`() throws {
        var random = Constant(bits: .max)
        // The example of RFC 9562, appendix A.6: 2022-02-22T14:22:22-05:00.
        let moment = try #require(Timestamp("2022-02-22T14:22:22-05:00"))
        let id = Identifier(at: moment, using: &random)

        #expect(id.description.hasPrefix("017f22e2-79b0-7"))
    }

    @Test func `a time before 1970 counts as 1970`() {
        var random = Constant(bits: 0)
        let id = Identifier(at: Timestamp(millisecondsSince1970: .min), using: &random)

        #expect(id.description == "00000000-0000-7000-8000-000000000000")
    }

    @Test(arguments: UInt64(1)...20)
    func `an id survives a round trip through text and bytes`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        for _ in 0..<100 {
            let moment = Timestamp(
                millisecondsSince1970: .random(in: 0...0xFFFF_FFFF_FFFF, using: &random)
            )
            let id = Identifier(at: moment, using: &random)

            #expect(Identifier(id.description) == id)
            #expect(Identifier(id.description.uppercased()) == id)
            #expect(Identifier(bytes: id.bytes) == id)
            #expect(UUID(uuidString: id.description)?.uuidString.lowercased() == id.description)
        }
    }

    @Test func `a thousand ids of one millisecond are distinct`() {
        let moment = Timestamp(millisecondsSince1970: 1_763_752_719_250)

        #expect(Set((0..<1_000).map { _ in Identifier(at: moment) }).count == 1_000)
    }

    @Test(arguments: [
        "",
        "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6a",
        "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa0",
        "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6ag",
        "0199f3c82f6b7c1e9a543d2b8e07f6aa",
        "0199f3c8-2f6b-7c1e-9a543d2b8e07f6aa-",
        "{199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa}",
        " 0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6a",
        "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6a\u{FF41}",
        "------------------------------------",
    ])
    func `text that is not a UUID is refused`(text: String) {
        #expect(Identifier(text) == nil)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([Identifier].self, from: JSONEncoder().encode([text]))
        }
    }

    @Test(arguments: [0, 1, 15, 17, 32])
    func `any number of bytes other than 16 is refused`(count: Int) {
        #expect(Identifier(bytes: [UInt8](repeating: 7, count: count)) == nil)
    }

    @Test func `a slice of bytes is read from its own start`() {
        let id = Identifier(at: Timestamp(millisecondsSince1970: 1_763_752_719_250))
        let framed = [1, 2, 3] + id.bytes + [4]

        #expect(Identifier(bytes: framed[3..<19]) == id)
    }

    @Test func `an id is copied from raw bytes, and passed on as raw bytes`() {
        let id = Identifier(at: Timestamp(millisecondsSince1970: 1_795_262_400_000))
        #expect(id.withBytes { Array($0) } == id.bytes)
        // At an address that is not aligned for 64-bit numbers.
        ([7] + id.bytes + [7]).withUnsafeBytes { bytes in
            #expect(Identifier(copying: UnsafeRawBufferPointer(rebasing: bytes[1..<17])) == id)
            #expect(Identifier(copying: UnsafeRawBufferPointer(rebasing: bytes[1..<16])) == nil)
            #expect(Identifier(copying: bytes) == nil)
        }
    }
}
