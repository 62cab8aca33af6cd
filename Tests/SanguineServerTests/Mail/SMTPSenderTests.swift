import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("SMTP", .bounded)
struct SMTPSenderTests {
    private let clock = ManualClock()

    private func sender(
        _ port: Int,
        _ security: SMTPConfiguration.Security = .starttls,
        user: String? = nil,
        trusting certificate: TestCertificate = .first
    ) throws -> SMTPSender {
        SMTPSender(
            configuration: SMTPConfiguration(
                host: "127.0.0.1",
                port: port,
                user: user,
                password: user == nil ? nil : Secret("pass word"),
                security: security,
                trustedCertificate: certificate.pem
            ),
            format: MailFormat(
                from: try #require(EmailAddress("no-reply@example.org")),
                name: "Readings"
            ),
            clock: clock
        )
    }

    private func mail(_ text: String = "Hello\n", to: String = "ana@example.org") -> OutgoingMail {
        OutgoingMail(
            id: "1",
            to: to,
            subject: "Code",
            text: text,
            date: Timestamp(millisecondsSince1970: 0)
        )
    }

    private func failure(_ sender: SMTPSender, _ mail: OutgoingMail? = nil) async -> MailFailure? {
        do throws(MailFailure) {
            try await sender.send(mail ?? self.mail())
            return nil
        } catch {
            return error
        }
    }

    @Test func `a message is sent with TLS after the greeting`() async throws {
        try await ScriptedMailServer.with { server, port in
            try await sender(port).send(mail())
            #expect(
                Array(server.commands.prefix(6)) == [
                    "EHLO [127.0.0.1]", "STARTTLS", "TLS EHLO [127.0.0.1]",
                    "TLS MAIL FROM:<no-reply@example.org>", "TLS RCPT TO:<ana@example.org>",
                    "TLS DATA",
                ]
            )
            #expect(server.content.contains("To: <ana@example.org>"))
            #expect(server.content.last == "Hello")
        }
    }

    @Test func `a server without STARTTLS gets neither the password nor the message`()
        async throws
    {
        try await ScriptedMailServer.with {
            $0.extensions = ["AUTH PLAIN"]
        } _: { server, port in
            let failed = try await failure(sender(port, user: "ana"))
            #expect(failed?.isPermanent == false)
            #expect(failed?.description.contains("STARTTLS") == true)
            #expect(server.commands == ["EHLO [127.0.0.1]"])
        }
    }

    @Test func `a server that refuses STARTTLS gets nothing`() async throws {
        try await ScriptedMailServer.with {
            $0.replies["STARTTLS"] = "454 no\r\n"
        } _: {
            server,
            port in
            let failed = try await failure(sender(port, user: "ana"))
            #expect(failed != nil)
            #expect(server.commands == ["EHLO [127.0.0.1]", "STARTTLS"])
        }
    }

    @Test func `a server with another certificate gets nothing`() async throws {
        try await ScriptedMailServer.with { server, port in
            let failed = try await failure(sender(port, user: "ana", trusting: .second))
            #expect(failed?.isPermanent == false)
            #expect(!server.commands.contains { $0.hasPrefix("TLS") })
        }
    }

    // CVE-2011-0411: what an attacker sends before TLS must not count as the server's reply.
    @Test func `replies that arrive before TLS begins are not read`() async throws {
        try await ScriptedMailServer.with {
            $0.injected = "250-forged\r\n250 AUTH LOGIN\r\n"
        } _: { server, port in
            let failed = try await failure(sender(port, user: "ana"))
            #expect(failed != nil)
            #expect(!server.commands.contains { $0.contains("AUTH") })
        }
    }

    @Test func `extensions that were offered without TLS are forgotten`() async throws {
        try await ScriptedMailServer.with {
            $0.extensions = ["STARTTLS", "AUTH PLAIN"]
            $0.extensionsWithTLS = ["SIZE 1000"]
        } _: { server, port in
            let failed = try await failure(sender(port, user: "ana"))
            #expect(failed?.description.contains("AUTH") == true)
            #expect(!server.commands.contains { $0.contains("AUTH") })
        }
    }

    @Test func `the user authenticates with PLAIN`() async throws {
        try await ScriptedMailServer.with { server, port in
            try await sender(port, user: "ana").send(mail())
            let text = Data("\0ana\0pass word".utf8).base64EncodedString()
            #expect(server.commands.contains("TLS AUTH PLAIN \(text)"))
        }
    }

    @Test func `the user authenticates with LOGIN if there is no PLAIN`() async throws {
        try await ScriptedMailServer.with {
            $0.extensionsWithTLS = ["AUTH LOGIN"]
        } _: {
            server,
            port in
            try await sender(port, user: "ana").send(mail())
            #expect(server.commands.contains("TLS AUTH LOGIN"))
            #expect(server.commands.contains("TLS \(Data("ana".utf8).base64EncodedString())"))
            #expect(server.commands.contains("TLS \(Data("pass word".utf8).base64EncodedString())"))
        }
    }

    @Test func `refused credentials may be accepted later, and are not in the reason`()
        async throws
    {
        try await ScriptedMailServer.with {
            $0.replies["AUTH"] = "535 pass word\r\n"
        } _: {
            _,
            port in
            let failed = try await failure(sender(port, user: "ana"))
            #expect(failed?.isPermanent == false)
            #expect(failed?.description == "The mail server answered 535 to AUTH.")
        }
    }

    @Test func `TLS can be switched off`() async throws {
        try await ScriptedMailServer.with { server, port in
            try await sender(port, .off).send(mail())
            #expect(server.commands.contains("RCPT TO:<ana@example.org>"))
            #expect(!server.commands.contains("STARTTLS"))
        }
    }

    @Test(arguments: [("550 <ana@example.org> unknown", true), ("451 later", false)])
    func `a refused recipient is final only if the server says so`(
        reply: String,
        isPermanent: Bool
    ) async throws {
        try await ScriptedMailServer.with {
            $0.replies["RCPT"] = reply + "\r\n"
        } _: { _, port in
            let failed = try await failure(sender(port))
            #expect(failed?.isPermanent == isPermanent)
            #expect(failed?.description.contains("ana") == false)
        }
    }

    @Test func `lines that begin with a dot arrive whole`() async throws {
        try await ScriptedMailServer.with { server, port in
            try await sender(port).send(mail("one\n.\n..two\n.three\n"))
            #expect(Array(server.content.suffix(4)) == ["one", "..", "...two", "..three"])
        }
    }

    @Test(arguments: ["a\rb\n", "a\r\nb\r\n", "a\nb"])
    func `every line ends with CRLF`(text: String) async throws {
        try await ScriptedMailServer.with { server, port in
            try await sender(port).send(mail(text))
            #expect(Array(server.content.suffix(2)) == ["a", "b"])
            #expect(!server.content.contains { $0.contains("<LF>") || $0.contains("\r") })
        }
    }

    @Test func `a recipient with a line break is refused without a connection`() async throws {
        try await ScriptedMailServer.with { server, port in
            let eve = mail(to: "ana@example.org>\r\nRCPT TO:<eve@example.net")
            let failed = try await failure(sender(port), eve)
            #expect(failed?.isPermanent == true)
            #expect(server.connections == 0)
        }
    }

    @Test func `a server that does not answer fails after a minute`() async throws {
        try await ScriptedMailServer.with {
            $0.silentOn = "RCPT"
        } _: { _, port in
            let sender = try sender(port)
            async let failed = failure(sender)
            try await clock.waitForSleepers(1)
            clock.advance(by: .seconds(60))
            #expect(await failed?.isPermanent == false)
        }
    }

    @Test(arguments: [
        "hello\r\n", "250-mail\r\n251 ready\r\n", "999 x\r\n", "22\r\n", "220_x\r\n",
    ])
    func `a greeting that is not SMTP is a failure`(greeting: String) async throws {
        try await ScriptedMailServer.with {
            $0.greeting = greeting
        } _: { _, port in
            let failed = try await failure(sender(port))
            #expect(failed?.isPermanent == false)
        }
    }

    @Test func `replies and their lines are limited`() {
        var parser = SMTPReplyParser()
        #expect(throws: SMTPReplyParser.Malformed.self) {
            _ = try parser.receive(Array(repeating: UInt8(ascii: "2"), count: 10_000))
        }
        var other = SMTPReplyParser()
        #expect(throws: SMTPReplyParser.Malformed.self) {
            for _ in 0..<1_000 { _ = try other.receive(Array("250-x\r\n".utf8)) }
        }
    }

    @Test func `replies are read from pieces of any size`() throws {
        let bytes = Array("250-one\r\n250-two\r\n250 three\r\n354\r\n".utf8)
        for size in 1...bytes.count {
            var parser = SMTPReplyParser()
            var replies: [SMTPReply] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                replies += try parser.receive(bytes[start..<min(start + size, bytes.count)])
            }
            #expect(replies.map(\.code) == [250, 354], "\(size)")
            #expect(replies.first?.lines == ["one", "two", "three"], "\(size)")
        }
    }
}
