import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("E-mail addresses and passwords over HTTP", .bounded(.seconds(60)))
struct EmailRouteTests {
    private let ana = #"{"email":"ana@example.org","password":"correct horse"}"#

    /// A sender that records the messages.
    private final class Mailbox: MailSender {
        private let received = Mutex<[OutgoingMail]>([])

        var mails: [OutgoingMail] { received.withLock { $0 } }

        func send(_ mail: OutgoingMail) async throws(MailFailure) {
            received.withLock { $0.append(mail) }
        }
    }

    /// Returns the code of a message with the text, whether it was sent or still waits.
    private func code(
        _ mailbox: Mailbox,
        _ server: LiveServer,
        _ text: String
    ) async throws -> String {
        let waiting = try await server.authority.dueMail(limit: 100).due
        let mail = (waiting + mailbox.mails).first { $0.text.contains(text) }
        let found = try #require(mail?.text.firstMatch(of: #/(\d{4}) (\d{4})/#))
        return String(found.1 + found.2)
    }

    @Test func `a guest registers, signs in elsewhere, and resets the password`() async throws {
        let mailbox = Mailbox()
        try await LiveServer.with {
            $0.mail = mailbox
        } _: { server in
            let guest = try await server.guest()
            let started = try await guest.post("/v1/accounts/upgrade", ana, key: nil)
            #expect(started.status == 202)
            let verification = try started.decode(VerificationStarted.self).verification
            #expect(verification.sentTo == "a•••@example.org")

            let body = #"{"code":"\#(try await code(mailbox, server, "to register"))"}"#
            let verified = try await guest.post("/v1/accounts/verify", body, key: nil)
            #expect(verified.status == 200 && verified.head == 3)
            let account = try verified.decode(SignedIn.self).account
            #expect(account.id == guest.account.id && account.kind == .registered)
            #expect(try await guest.get("/v1/account").code == "session_ended")

            let signedIn = try await server.send("POST", "/v1/sessions", ana)
            #expect(signedIn.status == 200)
            #expect(try signedIn.decode(SignedIn.self).account.id == guest.account.id)

            let address = #"{"email":"ana@example.org"}"#
            let path = "/v1/accounts/password/reset"
            #expect(try await server.send("POST", path, address).status == 202)
            let reset = try await server.send(
                "POST",
                "\(path)/verify",
                #"""
                {"email":"ana@example.org","password":"battery staple",
                "code":"\#(try await code(mailbox, server, "a new password"))"}
                """#
            )
            #expect(reset.status == 200)
            #expect(try await server.send("POST", "/v1/sessions", ana).status == 401)
        }
    }

    @Test func `the sixth sign-in after five failures gets 429`() async throws {
        try await LiveServer.with { server in
            for _ in 0..<5 {
                let refused = try await server.send("POST", "/v1/sessions", ana)
                #expect(refused.status == 401 && refused.code == "credentials_invalid")
            }
            let refused = try await server.send("POST", "/v1/sessions", ana)
            #expect(refused.status == 429 && refused.code == "rate_limited")
            #expect(refused["Retry-After"] == "60")
        }
    }

    @Test(arguments: [
        ("POST", "/v1/accounts/upgrade"), ("POST", "/v1/accounts/verify"),
        ("PUT", "/v1/account/password"), ("POST", "/v1/account/email"),
        ("POST", "/v1/account/email/verify"),
    ])
    func `a change of the account needs a token`(method: String, path: String) async throws {
        try await LiveServer.with { server in
            let refused = try await server.send(method, path, "{}")
            #expect(refused.status == 401 && refused.code == "unauthenticated")
        }
    }

    @Test(arguments: [
        ("/v1/accounts/upgrade", "{}"), ("/v1/accounts/upgrade", #"{"email":"ana@example.org"}"#),
        ("/v1/accounts/verify", "{}"), ("/v1/sessions", "{}"),
        ("/v1/sessions", #"{"email":"ana@example.org"}"#),
        ("/v1/accounts/password/reset", #"{"email":"ana"}"#),
        ("/v1/accounts/password/reset/verify", #"{"email":"ana@example.org","code":"1"}"#),
    ])
    func `a body without its members is invalid content`(path: String, body: String) async throws {
        try await LiveServer.with { server in
            let refused = try await server.guest().post(path, body, key: nil)
            #expect(refused.status == 422 && refused.code == "invalid_content")
        }
    }

    @Test func `a wrong code gets 422`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let refused = try await guest.post("/v1/accounts/verify", #"{"code":"12345678"}"#)
            #expect(refused.status == 422 && refused.code == "verification_failed")
        }
    }
}
