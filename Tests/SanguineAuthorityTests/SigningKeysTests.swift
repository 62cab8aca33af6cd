import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Signing keys", .bounded)
struct SigningKeysTests {
    @Test func `keys can be read from their file and sign equally`() async throws {
        let keys = SigningKeys()
        let read = try #require(SigningKeys(encoded: keys.encoded))
        let clock = ManualClock()
        let identity = Identity(account: .numbered(1), session: .numbered(2))
        func tokens(_ keys: SigningKeys) -> AccessTokens {
            AccessTokens(keys: keys, settings: .init(), clock: clock) { _ in true }
        }
        let token = try await tokens(keys).issue(for: identity)

        #expect(read.keyID == keys.keyID)
        let verified = try await tokens(read).verify(token)
        #expect(verified == identity)
        let refresh = RefreshToken(session: .numbered(2), generation: 4).text(key: keys.refreshKey)
        #expect(RefreshToken(refresh, key: read.refreshKey)?.generation == 4)
    }

    @Test func `a key id is 16 hexadecimal digits, and new keys have a different id`() {
        let id = SigningKeys().keyID

        #expect(id.wholeMatch(of: #/[0-9a-f]{16}/#) != nil)
        #expect(SigningKeys().keyID != id)
    }

    @Test(arguments: [
        "", "{}", "null", "[]", "not JSON",
        #"{"version":1,"signingKey":"","refreshKey":""}"#,
        #"{"version":1,"signingKey":"AAAA","refreshKey":"AAAA"}"#,
    ])
    func `a file without keys is refused`(text: String) {
        #expect(SigningKeys(encoded: Data(text.utf8)) == nil)
    }

    @Test func `a truncated file, or one of another version, is refused`() {
        let data = SigningKeys().encoded
        for count in stride(from: 0, to: data.count, by: 7) {
            #expect(SigningKeys(encoded: data.prefix(count)) == nil)
        }
        let later = String(decoding: data, as: UTF8.self)
            .replacing(#""version":1"#, with: #""version":2"#)
        #expect(SigningKeys(encoded: Data(later.utf8)) == nil)
    }
}
