import TestSupport
import Testing

@testable import Sanguine

@Suite("Aligning a fresh page with the rows that are held", .bounded)
struct PageAlignmentTests {
    private func align(_ held: String, _ fresh: String) -> PageAlignment {
        PageAlignment(held: Array(held), fresh: Array(fresh), freshSet: Set(fresh))
    }

    @Test func `rows that were pushed down by new ones stay`() {
        #expect(align("abcdefgh", "xyab").reach == 2)
    }

    @Test func `a row that was deleted goes`() {
        let alignment = align("abcdefgh", "acde")
        #expect(alignment.reach == 5)
        #expect(alignment.hasLoss)
    }

    @Test func `a row that moved up does not take the rows above it along`() {
        #expect(align("abcdefgh", "gabc").reach == 3)
    }

    @Test func `a row that moved down within the page connects`() {
        #expect(align("abcdefgh", "bcad").reach == 4)
    }

    @Test func `one row that moved up from far below is no connection`() {
        #expect(align("abcdefgh", "gxyz").reach == nil)
    }

    @Test func `the first held row is one, and so are those under a deleted one`() {
        #expect(align("abcdefgh", "xyza").reach == 1)
        #expect(align("abcdefgh", "xbcd").reach == 4)
    }

    @Test func `a last row that is not held is no connection`() {
        #expect(align("abcde", "abcdf").reach == nil)
        #expect(align("abcdefgh", "abcx").reach == nil)
    }

    @Test func `a last row that may have come up is no connection`() {
        #expect(align("abcdefgh", "abce").reach == nil)
        #expect(align("abcdefgh", "abch").reach == nil)
        #expect(align("abcdefgh", "xbyd").reach == nil)
    }

    @Test func `a last row that has moved down is no connection`() {
        #expect(align("abcdefgh", "acdb").reach == nil)
        #expect(align("abcdefgh", "efghab").reach == nil)
    }

    @Test func `pages without a common row are not connected`() {
        #expect(align("abcd", "wxyz").reach == nil)
        #expect(align("", "wxyz").reach == nil)
    }
}
