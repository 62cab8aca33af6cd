import TestSupport
import Testing

/// The README's statements about the tests.
@Suite("README of Feed", .bounded)
struct ReadmeTests {
    @Test func `the README names the test of each row, and the test prints its figure`() throws {
        try ReadmeTable.check("K", 15)
    }
}
