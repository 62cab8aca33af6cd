import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Index keys", .bounded)
struct IndexKeyTests {
    private func key(_ json: String) throws -> IndexKey {
        try #require(IndexKey(try JSONValue(written: Array(json.utf8))))
    }

    @Test(arguments: ["0", "-0", "0.0", "-0.0", "0e7", "-0.000e-7"])
    func `all zeros have one key, between the adjacent numbers`(zero: String) throws {
        #expect(try key(zero) == key("0"))
        for below in ["-1e-400", "-5e-324", "-1"] { #expect(try key(below) < key(zero)) }
        for above in ["1e-400", "5e-324", "1"] { #expect(try key(zero) < key(above)) }
    }
}
