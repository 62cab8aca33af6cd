import Foundation
import SanguineModel
import TestSupport
import Testing

/// Entries of a ledger as a client of any age decodes them.
@Suite("Ledger entries", .bounded)
struct LedgerEntryTests {
    private func page(_ kind: String) -> Data {
        Data(
            """
            {"items":[{"id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","kind":"\(kind)","amount":5,\
            "balanceAfter":105,"reason":"r","at":"2025-11-21T19:18:39.250Z"}],"hasMore":false}
            """
            .utf8
        )
    }

    private func decoded(_ kind: String) throws -> LedgerEntry.Kind? {
        try JSONDecoder().decode(ListPage<LedgerEntry>.self, from: page(kind)).items.first?.kind
    }

    @Test func `a page with an entry of an unknown kind is decoded`() throws {
        #expect(try decoded("cash_back") == .other("cash_back"))
        #expect(try decoded("merge_in") == .mergeIn)
    }

    @Test func `an unknown kind is encoded by its name`() throws {
        let text = String(decoding: try JSONEncoder().encode(["cash_back"]), as: UTF8.self)
        let kinds = [LedgerEntry.Kind.other("cash_back")]
        #expect(String(decoding: try JSONEncoder().encode(kinds), as: UTF8.self) == text)
    }

    @Test func `a quota without the plans that lift it is decoded`() throws {
        let json = """
            {"name":"readings","limit":3,"used":1,"resetsAt":"2025-11-21T19:18:39.250Z",\
            "unlimited":false}
            """
        #expect(try JSONDecoder().decode(Quota.self, from: Data(json.utf8)).lifts == nil)
    }
}
