import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Cursor", .bounded)
struct CursorTests {
    private let account = Identifier.numbered(1)

    private func refused(_ text: String) -> ProblemCode? {
        refusal { () throws(Problem) in try Cursor(text, list: "ledger", account: account) }?.code
    }

    @Test(arguments: [0, 1, Int64.max, -1])
    func `a cursor reads back in its own list`(number: Int64) throws {
        let text = Cursor(number, list: "ledger", account: account).text

        #expect(try Cursor(text, list: "ledger", account: account).number == number)
    }

    @Test func `a cursor of another list or account is refused`() {
        #expect(refused(Cursor(1, list: "records", account: account).text) == .malformedRequest)
        #expect(refused(Cursor(1, list: "ledger", account: .numbered(2)).text) == .malformedRequest)
    }

    @Test(arguments: [
        "", "1", "!", "bGVkZ2Vy", String(repeating: "A", count: 257),
        Base64URL.encode("ledger::1".utf8), Base64URL.encode([0xFF, 0xFE]),
    ])
    func `text that is no cursor is refused`(text: String) {
        #expect(refused(text) == .malformedRequest)
    }

    @Test func `pages follow each other without gap or repeat`() async throws {
        let clock = ManualClock()
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            clock: clock
        )
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let id = try await authority.guest(guest).signedIn.account.id
        func spend(_ number: Int) async throws {
            let request = SpendRequest(amount: 1, reason: "cup \(number)")
            _ = try await authority.spend(id, Submission("k\(number)", request))
        }
        for number in 1...49 { try await spend(number) }

        var reasons: [String] = []
        var cursor: String?
        var pages = 0
        repeat {
            let page = try await authority.ledger(of: id, limit: 7, cursor: cursor)
            #expect(page.items.count <= 7 && page.hasMore == (page.nextCursor != nil))
            reasons += page.items.map(\.reason)
            cursor = page.nextCursor
            pages += 1
            try await spend(100 + pages)  // A line on top moves nothing below it.
        } while cursor != nil

        #expect(reasons == (1...49).reversed().map { "cup \($0)" } + ["welcome"])
        #expect(pages == 8)
    }

    private static let limits: [(Int?, Int)] = [
        (nil, 20), (0, 1), (-5, 1), (100, 100), (101, 100), (.max, 100),
    ]

    @Test(arguments: limits)
    func `a page has one to a hundred lines`(limit: Int?, count: Int) async throws {
        var settings = AuthoritySettings()
        settings.grant = 1_000
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: ManualClock()
        )
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let id = try await authority.guest(guest).signedIn.account.id
        for number in 1...120 {
            let request = SpendRequest(amount: 1, reason: "tea")
            _ = try await authority.spend(id, Submission("k\(number)", request))
        }

        #expect(try await authority.ledger(of: id, limit: limit).items.count == count)
    }
}
