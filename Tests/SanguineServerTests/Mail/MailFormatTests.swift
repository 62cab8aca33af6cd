import Foundation
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Format of e-mails", .bounded)
struct MailFormatTests {
    private func text(
        _ body: String = "Hello\n",
        subject: String = "Code",
        name: String = "Readings"
    ) throws -> String {
        let from = try #require(EmailAddress("no-reply@example.org"))
        return MailFormat(from: from, name: name).text(
            of: OutgoingMail(
                id: "0199f3c8-2f6b",
                to: "ana@example.org",
                subject: subject,
                text: body,
                date: Timestamp(millisecondsSince1970: 1_795_262_400_000)
            )
        )
    }

    @Test func `a message has the fields of RFC 5322 and MIME`() throws {
        #expect(
            try text().components(separatedBy: "\r\n") == [
                "Date: Sat, 21 Nov 2026 12:00:00 +0000",
                "From: \"Readings\" <no-reply@example.org>", "To: <ana@example.org>",
                "Subject: Code", "Message-ID: <0199f3c8-2f6b@example.org>",
                "Auto-Submitted: auto-generated", "MIME-Version: 1.0",
                "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: 7bit", "",
                "Hello", "",
            ]
        )
    }

    @Test(arguments: ["Code\r\nBcc: eve@example.net", "Code\nBcc: eve", "Code\u{2028}Bcc: eve"])
    func `a name or subject cannot add a field`(text: String) throws {
        let message = try self.text(subject: text, name: text)
        let header = message.components(separatedBy: "\r\n\r\n")[0]
        #expect(!header.components(separatedBy: "\r\n").contains { $0.hasPrefix("Bcc") })
        #expect(!header.replacing("\r\n", with: "").contains { $0.isNewline })
    }

    @Test func `quotation marks and backslashes in a name are escaped`() throws {
        #expect(try text(name: #"A "b" \c"#).contains(#"From: "A \"b\" \\c" <"#))
    }

    @Test func `a name that is not ASCII becomes encoded words`() throws {
        let name = String(repeating: "Kahve Falı ☕️ ", count: 5)
        let message = try text(subject: name, name: name)
        #expect(message.utf8.allSatisfy { $0 < 0x80 })
        let subject = try #require(message.firstMatch(of: #/Subject: ((?:.+\r\n )*.+)\r\n/#)).1
        var decoded: [UInt8] = []
        for word in subject.components(separatedBy: "\r\n ") {
            #expect(word.utf8.count <= 75)
            let content = word.dropFirst("=?UTF-8?B?".count).dropLast(2)
            decoded += try #require(Data(base64Encoded: String(content)))
        }
        #expect(String(decoding: decoded, as: UTF8.self) == name)
    }

    @Test(arguments: ["ağ", "é", "日本語", "☕️"])
    func `a line with encoded words has at most 76 characters`(text: String) throws {
        let name = String(repeating: text, count: 40)
        let message = try self.text(subject: name, name: name)
        let lines = message.components(separatedBy: "\r\n").filter { $0.contains("=?") }
        #expect(lines.count >= 4)
        #expect(lines.allSatisfy { $0.utf8.count <= 76 })
        #expect(message.contains("?=\r\n <no-reply@example.org>\r\n"))
    }

    @Test func `ASCII that looks like an encoded word is encoded`() throws {
        #expect(try !text(subject: "=?UTF-8?B?QQ==?=").contains("Subject: =?UTF-8?B?QQ==?="))
    }

    @Test func `a text that is not ASCII is sent in base64 with short lines`() throws {
        let body = String(repeating: "Şifreniz: 1234 5678 ", count: 40) + "\n"
        let message = try text(body)
        let parts = message.components(separatedBy: "\r\n\r\n")
        #expect(parts[0].contains("Content-Transfer-Encoding: base64"))
        let lines = parts[1].components(separatedBy: "\r\n")
        #expect(lines.allSatisfy { $0.utf8.count <= 76 })
        let data = try #require(Data(base64Encoded: lines.joined()))
        #expect(String(decoding: data, as: UTF8.self) + "\n" == body)
    }

    @Test(arguments: [
        (0, "Thu, 01 Jan 1970 00:00:00 +0000"),
        (951_782_399_999, "Mon, 28 Feb 2000 23:59:59 +0000"),
        (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 +0000"),
    ])
    func `a date is written in UTC`(milliseconds: Int64, text: String) {
        #expect(MailFormat.date(Timestamp(millisecondsSince1970: milliseconds)) == text)
    }

    @Test func `a folder gets each message once, for its owner only`() async throws {
        let from = try #require(EmailAddress("no-reply@example.org"))
        try await TemporaryFolder.with { folder in
            let mails = folder.appending(path: "mail")
            let sender = FolderMailSender(
                folder: mails,
                format: MailFormat(from: from, name: "Readings")
            )
            let mail = OutgoingMail(
                id: "0199f3c8",
                to: "ana@example.org",
                subject: "Code",
                text: "Hello\n",
                date: Timestamp(millisecondsSince1970: 0)
            )
            try await sender.send(mail)
            try await sender.send(mail)
            #expect(try FileManager.default.contentsOfDirectory(atPath: mails.path).count == 1)
            let file = mails.appending(path: "0199f3c8.eml").path
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
            let content = try String(contentsOfFile: file, encoding: .utf8)
            #expect(content.hasSuffix("\r\n\r\nHello\r\n"))
        }
    }

    @Test func `an id that is a path is refused`() async throws {
        let from = try #require(EmailAddress("no-reply@example.org"))
        let sender = FolderMailSender(
            folder: FileManager.default.temporaryDirectory,
            format: MailFormat(from: from, name: "Readings")
        )
        let mail = OutgoingMail(
            id: "../ana",
            to: "ana@example.org",
            subject: "",
            text: "",
            date: Timestamp(millisecondsSince1970: 0)
        )
        await #expect(throws: MailFailure.self) { try await sender.send(mail) }
    }
}
