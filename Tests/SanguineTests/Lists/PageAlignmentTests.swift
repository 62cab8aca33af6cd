import TestSupport
import Testing

@testable import Sanguine

@Suite("Aligning a fetched page with held rows", .bounded)
struct PageAlignmentTests {
    private func align(_ held: String, _ fresh: String) -> PageAlignment {
        PageAlignment(held: Array(held), fresh: Array(fresh), freshSet: Set(fresh))
    }

    @Test func `rows that new ones have pushed down stay`() {
        #expect(align("abcdefgh", "xyab").reach == 2)
    }

    @Test func `a deleted row is removed`() {
        let alignment = align("abcdefgh", "acde")
        #expect(alignment.reach == 5)
        #expect(alignment.hasLoss)
    }

    @Test func `a row that moved up does not remove the rows above it`() {
        #expect(align("abcdefgh", "gabc").reach == 3)
    }

    @Test func `a row that moved down within the page connects`() {
        #expect(align("abcdefgh", "bcad").reach == 4)
    }

    @Test func `a single row that moved up from far below does not connect`() {
        #expect(align("abcdefgh", "gxyz").reach == nil)
    }

    @Test func `the first held row connects, and so do those under a deleted one`() {
        #expect(align("abcdefgh", "xyza").reach == 1)
        #expect(align("abcdefgh", "xbcd").reach == 4)
    }

    @Test func `a last row that is not held does not connect`() {
        #expect(align("abcde", "abcdf").reach == nil)
        #expect(align("abcdefgh", "abcx").reach == nil)
    }

    @Test func `a last row that may have moved up does not connect`() {
        #expect(align("abcdefgh", "abce").reach == nil)
        #expect(align("abcdefgh", "abch").reach == nil)
        #expect(align("abcdefgh", "xbyd").reach == nil)
    }

    @Test func `a last row that has moved down does not connect`() {
        #expect(align("abcdefgh", "acdb").reach == nil)
        #expect(align("abcdefgh", "efghab").reach == nil)
    }

    @Test func `pages without a common row do not connect`() {
        #expect(align("abcd", "wxyz").reach == nil)
        #expect(align("", "wxyz").reach == nil)
    }
}
