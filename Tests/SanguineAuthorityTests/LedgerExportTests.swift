import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Summaries and exports of the ledger.
@Suite("Summary and export of the ledger", .bounded)
struct LedgerExportTests {
    private let clock = ManualClock()

    private func authority() -> Authority {
        Authority(storage: MemoryStorage(), keys: SigningKeys(), clock: clock)
    }

    private func account(of authority: Authority) async throws -> Identifier {
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        return try await authority.guest(guest).signedIn.account.id
    }

    private func spend(
        _ amount: Int64,
        _ account: Identifier,
        _ authority: Authority
    ) async throws {
        let request = SpendRequest(amount: amount, reason: "tea")
        let key = "k\(amount)\(clock.now())"
        _ = try await authority.spend(account, Submission(key, request))
    }

    private func text(_ export: LedgerExport) async throws -> String {
        var bytes: [UInt8] = []
        while let next = try await export.next() { bytes += next }
        #expect(export.isComplete)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func `days are summed in the account's calendar, oldest first`() async throws {
        let authority = authority()
        let account = try await account(of: authority)
        try await spend(3, account, authority)
        clock.advance(by: .seconds(86_400))
        try await spend(4, account, authority)

        let query = try SummaryQuery(WireQuery([(name: "by", value: "day")]))
        let items = try await authority.summary(of: account, query).items
        #expect(items.map(\.granted) == [100, 0])
        #expect(items.map(\.charged) == [3, 4])
        #expect(items.map(\.entries) == [2, 1])
    }

    @Test func `a charge belongs to the function of its call, other spends to none`() {
        var sums = LedgerSums(by: .function, zone: .gmt)
        for (kind, reason, function) in [
            (LedgerEntry.Kind.capture, "ask", "ask" as String?), (.capture, "ask", nil),
            (.capture, "hold", nil), (.spend, "ask", nil), (.hold, "ask", nil),
        ] {
            sums.add(
                Transfer(
                    id: .numbered(1),
                    account: .numbered(2),
                    seq: 1,
                    kind: kind,
                    amount: 2,
                    availableAfter: 0,
                    heldAfter: 0,
                    reason: reason,
                    at: clock.now(),
                    function: function
                )
            )
        }

        #expect(sums.items.map(\.key) == ["ask", nil])
        #expect(sums.items.map(\.charged) == [4, 4])
    }

    @Test(arguments: ["", "Day", "reason"])
    func `a grouping that the ledger cannot answer is refused`(by: String) {
        let refusal = refusal { () throws(Problem) in
            try SummaryQuery(WireQuery([(name: "by", value: by)]))
        }
        #expect(refusal?.code == .malformedRequest)
        #expect(refusal?.detail.contains("function") == true)
    }

    @Test func `CSV quotes separators and disarms formulas`() {
        #expect(CSVText.field("tea") == "tea")
        #expect(CSVText.field("a,b") == "\"a,b\"")
        #expect(CSVText.field("say \"hi\"") == "\"say \"\"hi\"\"\"")
        #expect(CSVText.field("=1+1") == "'=1+1")
        // Spreadsheets split lines at semicolons, too (OWASP/www-community#443).
        #expect(CSVText.field("a;=1+1;-2;b") == "a;'=1+1;'-2;b")
        #expect(CSVText.field("a,b;@x") == "\"a,b;'@x\"")
        #expect(CSVText.field("\u{FF1D}1+1") == "'\u{FF1D}1+1")
        #expect(CSVText.field("a;b") == "a;b")
    }

    @Test func `an export has every entry once, over several pages`() async throws {
        let authority = authority()
        let account = try await account(of: authority)
        let gift = GrantRequest(amount: 1_000, reason: "gift")
        _ = try await authority.grant(account, Submission("gift", gift))
        for _ in 0..<LedgerExport.pageSize {
            try await spend(1, account, authority)
            clock.advance(by: .seconds(1))
        }

        let own = try await text(authority.export(of: account, as: .csv))
        let all = try await text(authority.exportLedger(as: .csv))
        let (ownLines, allLines) = (
            own.components(separatedBy: "\r\n"), all.components(separatedBy: "\r\n")
        )
        // The header, the two grants, the spends, and the text after the last line.
        #expect(ownLines.count == LedgerExport.pageSize + 4)
        #expect(ownLines.sorted() == allLines.sorted())
    }

    /// An account with 4 spent tokens, and a guest with 3 that was merged into it.
    private func mergedAccount(_ authority: Authority) async throws -> Identifier {
        var who: [Identity] = []
        for number in 0..<2 {
            let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
            let guest = GuestRequest(deviceId: "device-012345678\(number)", deviceSecret: secret)
            let session = try await authority.guest(guest).signedIn.session
            who.append(try await authority.tokens.verify(session.accessToken))
        }
        let email = "ana@example.org"
        _ = try await authority.register(.email(email), email: email, who[0])
        try await spend(4, who[0].account, authority)
        try await spend(3, who[1].account, authority)
        _ = try await authority.merge(who[1], into: who[0].account)
        return who[0].account
    }

    @Test func `a summary has what merged guests were granted and charged, and no merge`()
        async throws
    {
        let authority = authority()
        let account = try await mergedAccount(authority)
        let query = try SummaryQuery(WireQuery([(name: "by", value: "day")]))
        let items = try await authority.summary(of: account, query).items
        #expect(items.map(\.granted) == [200])
        #expect(items.map(\.charged) == [7])
        #expect(items.map(\.withdrawn) == [0])
    }

    @Test func `exports have the entries of merged guests`() async throws {
        let authority = authority()
        let account = try await mergedAccount(authority)
        let lines = try await text(authority.export(of: account, as: .csv))
        #expect(lines.components(separatedBy: ",spend,").count == 3)

        let export = AccountExport(of: account, from: authority)
        var bytes: [UInt8] = []
        while let next = try await export.next() { bytes += next }
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(text.components(separatedBy: "\"kind\":\"spend\"").count == 3)
    }

    @Test func `an event of an export is a CloudEvent with the entry`() async throws {
        let authority = authority()
        _ = try await account(of: authority)

        let line = try await text(authority.exportLedger(as: .cloudEvents))
        let event = try JSONDecoder().decode([String: JSONValue].self, from: Data(line.utf8))
        #expect(event["specversion"] == "1.0")
        #expect(event["type"] == "sanguine.ledger.grant")
        #expect(event["source"] == "/v1/ledger")
        guard case .object(let data) = event["data"] else {
            Issue.record("The event has no data: \(line)")
            return
        }
        #expect(data["amount"] == 100 && data["reason"] == "welcome")
    }

    @Test func `an export whose storage fails is not complete`() async throws {
        let export = LedgerExport(.csv) { _ throws(StorageError) in throw .closed }
        await #expect(throws: StorageError.closed) { try await export.next() }
        #expect(!export.isComplete)
    }

    @Test func `the format follows the Accept field`() {
        #expect(LedgerFormat(accept: "text/csv;q=0.9") == .csv)
        #expect(LedgerFormat(accept: "application/json, text/csv") == .csv)
        #expect(LedgerFormat(accept: nil) == .cloudEvents)
        #expect(LedgerFormat(accept: "*/*") == .cloudEvents)
    }
}
