import SanguineModel
import Testing

/// Epochs and positions in a feed on the wire.
@Suite("Wire: epochs")
struct EpochTests {
    @Test func `an epoch is 1 to 64 letters, digits, hyphens and underscores`() {
        for text in ["a", "0-_Z", String(repeating: "x", count: 64)] {
            #expect(Epoch(text)?.text == text)
        }
        for text in ["", "a.b", "a b", "é", "a\n", String(repeating: "x", count: 65)] {
            #expect(Epoch(text) == nil, "\(text)")
        }
        #expect(Epoch.random() != Epoch.random())
        #expect(Epoch(Epoch.random().text) != nil)
    }

    @Test func `a position is a number, optionally after an epoch`() {
        #expect(FeedMark("12") == FeedMark(number: 12))
        #expect(FeedMark("ab.12") == FeedMark(epoch: Epoch("ab"), number: 12))
        for text in ["", ".", "ab.", ".12", "a.b.1", "-1", "ab.-1", "x", "1.5x", "ab 1"] {
            #expect(FeedMark(text) == nil, "\(text)")
        }
        for text in ["12", "ab.12"] { #expect(FeedMark(text)?.description == text) }
    }
}
