import Testing

@testable import SanguineAuthority

/// The ranges of RFC 9110, section 14, for a file of 100 bytes.
@Suite("Byte ranges")
struct ByteRangeTests {
    private func range(_ text: String?, if condition: String? = nil, size: Int = 100) -> ByteRange {
        ByteRange(text, if: condition, tag: "\"tag\"", size: size)
    }

    @Test(arguments: [
        ("bytes=0-0", 0..<1), ("bytes=10-19", 10..<20), ("bytes=99-", 99..<100),
        ("bytes=0-", 0..<100), ("bytes=90-1000", 90..<100), ("bytes=-1", 99..<100),
        ("bytes=-1000", 0..<100), ("BYTES=1-2", 1..<3), ("bytes= 1-2 ,", 1..<3),
        ("bytes=0-99999999999999999999999", 0..<100),
        ("bytes=-99999999999999999999999", 0..<100),
    ])
    func `a single range is a part of the file`(text: String, part: Range<Int>) {
        #expect(range(text) == .part(part))
    }

    @Test(arguments: [
        nil, "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4", "bytes=1-2-3",
        "bytes=+1-2", "bytes=0x1-2", "items=0-1", "bytes=0-1,5-6", "bytes=1 - 2", "bytes=١-٢",
        "bytes:0-1",
    ])
    func `a malformed range, another unit and several ranges give the whole file`(text: String?) {
        #expect(range(text) == .whole)
    }

    @Test(arguments: [
        "bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999-",
    ])
    func `a range outside of the file cannot be satisfied`(text: String) {
        #expect(range(text) == .unsatisfiable)
    }

    @Test(arguments: ["bytes=0-", "bytes=-1", "bytes=0-0"])
    func `no range of an empty file can be satisfied`(text: String) {
        #expect(range(text, size: 0) == .unsatisfiable)
    }

    @Test(arguments: [
        ("\"tag\"", true), (" \"tag\"", true), ("W/\"tag\"", false), ("\"other\"", false),
        ("tag", false), ("*", false), ("\"tag\", \"other\"", false),
        ("Wed, 21 Oct 2015 07:28:00 GMT", false),
    ])
    func `the range applies only if the condition is the strong tag`(text: String, applies: Bool) {
        let expected: ByteRange = applies ? .part(0..<10) : .whole
        #expect(range("bytes=0-9", if: text) == expected)
    }
}
