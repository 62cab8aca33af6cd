import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

/// The time for which unread calls are listed.
@Suite("Call book", .bounded)
struct OpenCallBookTests {
    private var book = OpenCallBook()
    private var now = Timestamp(millisecondsSince1970: 1_767_225_600_000)

    private mutating func begin(_ key: String) {
        book.began(
            OpenCall(key: key, function: "ask", begunAt: now, state: .running, isQueued: false)
        )
    }

    private func has(_ key: String) -> Bool { book[key] != nil }

    @Test(arguments: [Duration.hours(49), .hours(24 * 365), .hours(24 * 7), .hours(10)])
    func `a clock that jumps does not forget any key`(jump: Duration) {
        var test = Self()
        test.begin("first")
        test.now = test.now + jump
        test.begin("second")
        // The clock continues from there and is correct again at the end.
        for hour in 1...30 {
            test.now = test.now + .hours(1)
            test.begin("ahead \(hour)")
        }
        #expect(test.has("first"))
        test.now = test.now - jump
        test.begin("third")
        #expect(test.has("first") && test.has("second"))
    }

    @Test mutating func `a key is forgotten when the server no longer keeps the answer`() {
        begin("first")
        for hour in 1...60 {
            #expect(has("first"), "after \(hour) hours")
            now = now + .hours(1)
            begin("later \(hour)")
        }
        #expect(!has("first") && has("later 60"))
    }

    @Test mutating func `the time accumulates over restarts`() {
        begin("first")
        for hour in 1...60 {
            book = OpenCallBook(restoring: book.calls, kept: book.kept)
            now = now + .hours(1)
            begin("later \(hour)")
        }
        #expect(!has("first"))
    }
}
