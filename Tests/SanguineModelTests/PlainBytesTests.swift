import SanguineTesting
import TestSupport
import Testing

@testable import SanguineModel

@Suite("Text, eight bytes at a time", .bounded)
struct PlainBytesTests {
    @Test(arguments: 0...UInt8.max)
    func `a byte is found in every position and at every length`(byte: UInt8) {
        let mustEscape = byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
        for count in 1...20 {
            for place in 0..<count {
                var bytes = [UInt8](repeating: UInt8(ascii: "a"), count: count)
                bytes[place] = byte
                bytes.withUnsafeBufferPointer { bytes in
                    #expect(bytes.isASCII == (byte < 0x80))
                    let end = bytes.endOfPlainText(from: 0)
                    #expect(end == (mustEscape ? place : count), "\(place) of \(count)")
                    #expect(bytes.endOfPlainText(from: place + 1) == count)
                }
            }
        }
    }

    @Test func `the next of several bytes is found`() {
        let text = Array("0123\"56789\u{1f}\\abcdefghé\"".utf8)
        text.withUnsafeBufferPointer { bytes in
            var found: [Int] = []
            var index = bytes.endOfPlainText(from: 0)
            while index < bytes.count {
                found.append(index)
                index = bytes.endOfPlainText(from: index + 1)
            }
            #expect(found == [4, 10, 11, 22])
        }
    }

    @Test(arguments: [UInt64](1...20))
    func `bytes are a string exactly if they are valid UTF-8`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        // The bytes of which sequences consist, whole and broken off.
        let bytes: [UInt8] = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xed, 0xef,
            0xbd, 0xf0, 0xf4, 0xf5, 0xff,
        ]
        for _ in 0..<2_000 {
            let count = Int.random(in: 0...8, using: &random)
            let some = (0..<count).map { _ in bytes.randomElement(using: &random) ?? 0 }
            let expected = String(validating: some, as: UTF8.self)
            #expect(some.withUnsafeBufferPointer { $0.text() } == expected, "\(some)")
        }
        let replaced = Array("é\u{fffd}\u{1f600}".utf8)
        #expect(replaced.withUnsafeBufferPointer { $0.text() } == "é\u{fffd}\u{1f600}")
    }

    @Test func `an empty string is plain ASCII`() {
        let empty = UnsafeBufferPointer<UInt8>(start: nil, count: 0)

        #expect(empty.isASCII)
        #expect(empty.endOfPlainText(from: 0) == 0)
    }
}
