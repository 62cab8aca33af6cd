import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("E-mail addresses", .bounded)
struct EmailAddressTests {
    @Test(arguments: [
        ("ana@example.org", "ana@example.org"),
        ("Ana.Maria+news@Example.ORG", "ana.maria+news@example.org"),
        ("o'brien@xn--bcher-kva.example", "o'brien@xn--bcher-kva.example"),
        ("a@b.co", "a@b.co"),
    ])
    func `an address is compared in lower case`(text: String, canonical: String) {
        #expect(EmailAddress(text)?.text == canonical)
    }

    // The dotless i and the Kelvin sign become ASCII when case is ignored, which has let attackers
    // take over accounts elsewhere.
    @Test(arguments: [
        "", "ana", "@example.org", "ana@", "ana@example", "ana@@example.org", "a na@example.org",
        ".ana@example.org", "ana.@example.org", "a..na@example.org", "ana@-example.org",
        "ana@example-.org", "ana@example..org", "ana@example.org.", "ana@127.0.0.1",
        "ana@[127.0.0.1]", "\"a b\"@example.org", "<ana@example.org>", "ana@example.org>",
        "ana@example.org\r\nRCPT TO:<eve@example.net>", "ana@example.org\0", "ana@example.org ",
        "ana@exampl\u{0131}.org", "\u{212A}ai@example.org", "ana@b\u{00FC}cher.example",
    ])
    func `a text of another form is no address`(text: String) {
        #expect(EmailAddress(text) == nil)
    }

    @Test func `parts that are too long are refused`() {
        let local = String(repeating: "a", count: 64)
        #expect(EmailAddress("\(local)@example.org") != nil)
        #expect(EmailAddress("\(local)a@example.org") == nil)
        #expect(EmailAddress("a@\(local).org") == nil)
        let domain = Array(repeating: String(repeating: "b", count: 60), count: 4)
        #expect(EmailAddress("aaaaaaaa@\(domain.joined(separator: ".")).org") == nil)
    }

    @Test func `a masked address shows one letter and the domain`() {
        #expect(EmailAddress("Ana@B.org")?.masked == "a•••@b.org")
        #expect(EmailAddress("a@b.org")?.masked == "a•••@b.org")
    }
}
