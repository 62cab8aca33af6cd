import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Passwords", .bounded)
struct PasswordTests {
    private var cheap: PasswordCost {
        var cost = PasswordCost()
        cost.logRounds = 2
        return cost
    }

    @Test func `the stored text contains the cost and a salt, and no password`() throws {
        let hash = try PasswordHash(of: Array("correct horse".utf8), cost: cheap)
        let other = try PasswordHash(of: Array("correct horse".utf8), cost: cheap)
        #expect(hash.text.hasPrefix("$scrypt$ln=2,r=8,p=1$"))
        #expect(!hash.text.contains("horse"))
        #expect(hash.text != other.text)
    }

    @Test func `a hash that was read again matches its password only`() throws {
        let stored = try PasswordHash(of: Array("correct horse".utf8), cost: cheap).text
        let hash = try #require(PasswordHash(stored))
        #expect(try hash.matches(Array("correct horse".utf8)))
        #expect(try !hash.matches(Array("correct horsf".utf8)))
        #expect(try !hash.matches([]))
    }

    @Test func `the default cost takes 32 MiB`() {
        let cost = PasswordCost()
        #expect(128 << cost.logRounds * cost.blockSize == 32 << 20)
        #expect(cost.parallelism == 1 && cost.isBounded)
    }

    @Test(arguments: [
        "", "$scrypt$", "$argon2$ln=2,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAA",
        "$scrypt$ln=30,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=0,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=2,r=8,p=9$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "$scrypt$ln=2,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ])
    func `a text of another form or an unlimited cost is no hash`(text: String) {
        #expect(PasswordHash(text) == nil)
    }

    @Test func `canonically equivalent passwords are the same`() throws {
        let composed = try Password.new("caf\u{00E9} noir")
        let decomposed = try Password.new("cafe\u{0301} noir")
        #expect(composed == decomposed)
    }

    @Test(arguments: ["", "1234567", String(repeating: "a", count: 257)])
    func `a password of another length is refused`(text: String) {
        #expect(refusal { () throws(Problem) in try Password.new(text) }?.code == .invalidContent)
    }

    @Test(arguments: ["\0", "correct horse\0", "\0correct horse", "correct\0horse"])
    func `a password with a NUL is refused, also at a sign-in`(text: String) {
        for read in [Password.new, Password.bytes(of:)] {
            let problem = refusal { () throws(Problem) in try read(text) }
            #expect(problem?.code == .invalidContent)
            #expect(problem?.detail.contains("NUL") == true)
        }
    }

    @Test(arguments: ["12345678", String(repeating: "a", count: 256), "Äpfel für Otto"])
    func `a password of 8 to 256 characters is accepted`(text: String) {
        #expect(refusal { () throws(Problem) in try Password.new(text) } == nil)
    }

    @Test func `a character with many marks does not make a password unlimited`() {
        let text = "12345678" + String(repeating: "\u{0301}", count: 2_048)
        #expect(
            refusal { () throws(Problem) in try Password.bytes(of: text) }?.code == .invalidContent
        )
    }

    @Test func `more passwords than the limit are refused as overloaded`() async {
        let hasher = PasswordHasher(limit: 0)
        let refused = await problem { () throws(Problem) in
            try await hasher.hash([1], cost: cheap, address: nil)
        }
        #expect(refused?.code == .overloaded && refused?.retryAfter == 2)
        #expect(hasher.operations == 0)
    }
}
