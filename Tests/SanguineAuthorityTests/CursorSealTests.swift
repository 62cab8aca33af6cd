import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Cursors", .bounded)
struct CursorSealTests {
    private let account = Identifier.numbered(1)
    private let seal = CursorSeal(keys: SigningKeys())

    private func cursor(_ number: Int64 = 1, list: String = "ledger") throws -> String {
        try seal.text(number, list: list, account: account)
    }

    private func refused(_ text: String, of account: Identifier? = nil) -> ProblemCode? {
        refusal { () throws(Problem) in
            try seal.number(text, list: "ledger", account: account ?? self.account)
        }?.code
    }

    @Test(arguments: [0, 1, Int64.max, -1])
    func `a cursor can be read in its own list`(number: Int64) throws {
        let text = try cursor(number)

        #expect(try seal.number(text, list: "ledger", account: account) == number)
    }

    @Test func `a cursor of another list or account is refused`() throws {
        #expect(refused(try cursor(list: "records")) == .malformedRequest)
        #expect(refused(try cursor(), of: .numbered(2)) == .malformedRequest)
    }

    @Test func `a cursor of another server is refused, and one with the same keys is accepted`()
        throws
    {
        let keys = SigningKeys()
        let text = try CursorSeal(keys: keys).text(7, list: "ledger", account: account)

        #expect(refused(text) == .malformedRequest)
        let restarted = CursorSeal(keys: keys)
        #expect(try restarted.number(text, list: "ledger", account: account) == 7)
    }

    @Test func `a cursor does not reveal its position, list or account, even by its length`()
        throws
    {
        let texts = try [1, 12_345, Int64.max].map { try cursor($0) }

        #expect(Set(texts.map(\.utf8.count)).count == 1)
        for (text, number) in zip(texts, ["1", "12345", "9223372036854775807"]) {
            let bytes = try #require(Base64URL.decode(text))
            let read = String(decoding: bytes, as: UTF8.self)
            for part in ["ledger", account.description, ":\(number)"] {
                #expect(!read.contains(part))
            }
        }
    }

    @Test func `equal positions have equal cursors, so that a response keeps its tag`() throws {
        #expect(try cursor(5) == cursor(5))
        #expect(try cursor(5) != cursor(6))
    }

    @Test func `a cursor with any byte changed is refused`() throws {
        let bytes = try #require(Base64URL.decode(try cursor()))
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 1
            #expect(refused(Base64URL.encode(changed)) == .malformedRequest, "byte \(index)")
        }
    }

    @Test(arguments: [
        "", "1", "!", "bGVkZ2Vy", String(repeating: "A", count: 257),
        String(repeating: "A", count: 4_000), Base64URL.encode("ledger::1".utf8),
        Base64URL.encode("ledger:00000000-0000-0000-0000-000000000001:1".utf8),
        Base64URL.encode([0xFF, 0xFE]), Base64URL.encode([UInt8](repeating: 0, count: 28)),
    ])
    func `text that is not a cursor is refused`(text: String) {
        #expect(refused(text) == .malformedRequest)
    }

    @Test func `pages follow each other without gaps or repetitions`() async throws {
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
            try await spend(100 + pages)  // A new entry at the top does not move the ones below.
        } while cursor != nil

        #expect(reasons == (1...49).reversed().map { "cup \($0)" } + ["welcome"])
        #expect(pages == 8)
    }

    private static let limits: [(Int?, Int)] = [
        (nil, 20), (0, 1), (-5, 1), (100, 100), (101, 100), (.max, 100),
    ]

    @Test(arguments: limits)
    func `a page has one to a hundred entries`(limit: Int?, count: Int) async throws {
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
