import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Outbox of e-mails", .bounded)
struct MailOutboxTests {
    private let world = EmailWorld()
    private var authority: Authority { world.authority }

    private func due() async throws -> [OutgoingMail] {
        try await authority.dueMail(limit: 100).due
    }

    @Test func `a message waits until it was sent`() async throws {
        _ = try await world.upgrade(try await world.guest())
        let mail = try #require(try await due().first)
        #expect(mail.to == "ana@example.org" && mail.date == world.clock.now())
        #expect(try await due() == [mail])
        try await authority.mailSent(mail.id)
        #expect(try await due().isEmpty)
    }

    @Test func `the pause after a failure grows up to five minutes`() async throws {
        _ = try await world.upgrade(try await world.guest())
        let id = try #require(try await due().first).id
        for pause in [5, 10, 20, 40, 80, 160] {
            #expect(try await authority.mailFailed(id, isPermanent: false))
            world.clock.advance(by: .milliseconds(pause * 1_000 - 1))
            #expect(try await due().isEmpty, "\(pause) s")
            world.clock.advance(by: .milliseconds(1))
            #expect(try await due().count == 1, "\(pause) s")
        }
        #expect(try await authority.mailFailed(id, isPermanent: false))
        world.clock.advance(by: .seconds(300))
        #expect(try await due().count == 1)
        // The code expires before the next attempt.
        #expect(try await !authority.mailFailed(id, isPermanent: false))
        #expect(try await due().isEmpty)
    }

    @Test func `a permanent failure removes the message`() async throws {
        _ = try await world.upgrade(try await world.guest())
        let id = try #require(try await due().first).id
        #expect(try await !authority.mailFailed(id, isPermanent: true))
        #expect(try await due().isEmpty)
    }

    @Test func `a message whose code has expired is lost, and not sent`() async throws {
        _ = try await world.upgrade(try await world.guest())
        let id = try #require(try await due().first).id
        world.clock.advance(by: .seconds(900))
        let batch = try await authority.dueMail(limit: 100)
        #expect(batch.due.isEmpty && batch.lost == [id])
    }

    @Test func `a message cannot be read with other keys`() async throws {
        _ = try await world.upgrade(try await world.guest())
        let other = Authority(storage: world.storage, keys: SigningKeys(), clock: world.clock)
        let batch = try await other.dueMail(limit: 100)
        #expect(batch.due.isEmpty && batch.lost.count == 1)
    }

    @Test func `a message for an unknown address is removed`() async throws {
        _ = try await authority.requestPasswordReset(
            PasswordResetRequest(email: "abe@example.org"),
            from: nil
        )
        let batch = try await authority.dueMail(limit: 100)
        #expect(batch.due.isEmpty && batch.lost.isEmpty)
        #expect(try await world.storage.documents(DocumentQuery(.mail, limit: 100)).isEmpty)
    }

    @Test func `messages are read in parts`() async throws {
        let guest = try await world.guest()
        for number in 0..<5 { _ = try await world.upgrade(guest, "a\(number)@example.org") }
        var found: Set<String> = []
        var position: String?
        repeat {
            let batch = try await authority.dueMail(after: position, limit: 2)
            #expect(batch.due.count <= 2)
            found.formUnion(batch.due.map(\.to))
            position = batch.next
        } while position != nil
        #expect(found.count == 5)
    }

    @Test func `the app's name is in the messages`() {
        let text = MailText(appName: "Readings")
        let code = text.code("12345678", .passwordReset, validFor: .seconds(60))
        #expect(code.subject == "Your code for Readings")
        #expect(code.text.contains("Enter it in Readings to set a new password."))
        #expect(code.text.contains("1234 5678") && code.text.contains("1 minute."))
    }
}
