import Foundation
import Logging
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Delivery of e-mails", .bounded)
struct MailDeliveryTests {
    /// A sender that records the messages, and fails as the test says.
    private final class Recorder: MailSender {
        private let sent = Mutex<[OutgoingMail]>([])
        private let failure = Mutex<MailFailure?>(nil)

        var mails: [OutgoingMail] { sent.withLock { $0 } }

        func fail(with failure: MailFailure?) { self.failure.withLock { $0 = failure } }

        func send(_ mail: OutgoingMail) async throws(MailFailure) {
            sent.withLock { $0.append(mail) }
            if let failure = failure.withLock({ $0 }) { throw failure }
        }
    }

    private let clock = ManualWallClock()
    private let registry = OpenMetricsRegistry()
    private let recorder = Recorder()
    private let authority: Authority
    private let delivery: MailDelivery

    init() {
        authority = Authority(storage: MemoryStorage(), keys: SigningKeys(), clock: clock)
        delivery = MailDelivery(
            authority: authority,
            sender: recorder,
            metrics: registry,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Registers an account, and requests codes for a new password of its address.
    private func requestCodes(_ count: Int) async throws {
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = try await authority.guest(
            GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        )
        let identity = try await authority.tokens.verify(guest.signedIn.session.accessToken)
        for number in 0..<count {
            _ = try await authority.upgrade(
                UpgradeRequest(email: "a\(number)@example.org", password: "correct horse"),
                identity,
                from: nil
            )
        }
    }

    private func metric(_ name: String) -> String? {
        registry.render().split(separator: "\n").first { $0.hasPrefix("\(name)_total ") }
            .map { String($0.dropFirst(name.count + 7)) }
    }

    @Test func `each message is sent once`() async throws {
        try await requestCodes(3)
        await delivery.sendDue()
        await delivery.sendDue()
        #expect(recorder.mails.map(\.to).sorted() == (0..<3).map { "a\($0)@example.org" })
        #expect(metric("mail_sent") == "3")
    }

    @Test func `a failed message is sent again after a pause`() async throws {
        try await requestCodes(1)
        recorder.fail(with: MailFailure("The mail server cannot be reached."))
        await delivery.sendDue()
        await delivery.sendDue()
        #expect(recorder.mails.count == 1 && metric("mail_failed") == "1")
        recorder.fail(with: nil)
        clock.advance(by: .seconds(5))
        await delivery.sendDue()
        #expect(recorder.mails.count == 2 && metric("mail_sent") == "1")
        #expect(Set(recorder.mails.map(\.id)).count == 1)
    }

    @Test func `a message that cannot be sent is dropped and counted`() async throws {
        try await requestCodes(1)
        recorder.fail(with: MailFailure("No.", isPermanent: true))
        await delivery.sendDue()
        clock.advance(by: .seconds(300))
        await delivery.sendDue()
        #expect(recorder.mails.count == 1 && metric("mail_dropped") == "1")
    }

    @Test func `a message whose code has expired is not sent, and is counted`() async throws {
        try await requestCodes(1)
        clock.advance(by: .seconds(900))
        await delivery.sendDue()
        #expect(recorder.mails.isEmpty && metric("mail_dropped") == "1")
    }

    @Test func `a server without a sender drops messages visibly`() async throws {
        try await requestCodes(1)
        let other = MailDelivery(
            authority: authority,
            sender: ServerSettings.Mail()
                .sender(clock: ContinuousClock(), wall: SystemWallClock()),
            metrics: registry,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        await other.sendDue()
        #expect(metric("mail_dropped") == "1")
    }

    @Test func `SMTP needs a sender's address`() {
        var settings = ServerSettings()
        settings.mail.smtpHost = "smtp.example.org"
        #expect(throws: SettingsError.self) { try settings.validate() }
        settings.mail.from = "no-reply@example.org"
        #expect(throws: Never.self) { try settings.validate() }
    }

    @Test(arguments: [
        ("mail.from", "nobody"), ("mail.app", "a\nb"), ("mail.smtp.tls", "maybe"),
        ("mail.smtp.port", "0"), ("mail.smtp.host", "smtp.example.org:587"),
    ])
    func `an invalid setting is refused`(key: String, value: String) throws {
        var settings = ServerSettings()
        let setting = try #require(Setting.all.first { $0.key == key })
        #expect(!setting.set(value, in: &settings))
    }
}
