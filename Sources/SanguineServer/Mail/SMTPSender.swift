import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import SanguineAuthority

/// The address and the credentials of an SMTP server.
struct SMTPConfiguration: Hashable, Sendable {
    /// The use of TLS.
    enum Security: String, CaseIterable, Sendable {
        /// The connection begins without TLS, and continues with it (RFC 3207); required.
        case starttls
        /// The connection begins with TLS (RFC 8314).
        case tls
        /// No TLS: for a server on the same machine.
        case off
    }

    var host: String
    var port: Int
    var user: String?
    var password: Secret?
    var security = Security.starttls
    /// The certificate of the issuers to trust, in PEM; `nil` for those of the system.
    var trustedCertificate: String?
    /// The time limit for a whole message.
    var timeout = Duration.seconds(60)
    /// The time limit for connecting.
    var connectTimeout = Duration.seconds(15)
}

/// Sends messages through an SMTP server, each on a connection of its own.
struct SMTPSender: MailSender {
    let configuration: SMTPConfiguration
    let format: MailFormat
    let clock: any Clock<Duration>

    func send(_ mail: OutgoingMail) async throws(MailFailure) {
        guard let to = EmailAddress(mail.to) else {
            throw MailFailure("The recipient is not an address.", isPermanent: true)
        }
        do {
            let connection = try await SMTPConnection.open(
                host: configuration.host,
                port: configuration.port,
                connectTimeout: .nanoseconds(configuration.connectTimeout.wholeNanoseconds),
                tls: configuration.security == .tls ? try context() : nil,
                on: .singletonMultiThreadedEventLoopGroup
            )
            let timer = Task { [clock, timeout = configuration.timeout] in
                try await clock.sleep(for: timeout)
                connection.close()
            }
            defer {
                timer.cancel()
                connection.close()
            }
            try await withTaskCancellationHandler {
                try await send(format.text(of: mail), to: to, through: connection)
            } onCancel: {
                connection.close()
            }
        } catch let failure as MailFailure {
            throw failure
        } catch {
            throw MailFailure(Self.reason(of: error))
        }
    }

    private func send(
        _ content: String,
        to recipient: EmailAddress,
        through connection: SMTPConnection
    ) async throws {
        try expect(220, try await connection.reply(), "the connection")
        var capabilities = try await greet(connection)
        if configuration.security == .starttls {
            guard capabilities.contains("STARTTLS") else {
                throw MailFailure(
                    "The mail server does not offer STARTTLS. Check 'mail.smtp.port' and -.tls."
                )
            }
            try expect(220, try await connection.send("STARTTLS"), "STARTTLS")
            try await connection.startTLS(try context(), host: configuration.host)
            // What was offered without TLS may have been forged (RFC 3207, section 4.2).
            capabilities = try await greet(connection)
        }
        if let user = configuration.user {
            try await authenticate(user, capabilities, connection)
        }
        let sender = "MAIL FROM:<\(format.from.text)>"
        try expect(250, try await connection.send(sender), "MAIL")
        let receiver = "RCPT TO:<\(recipient.text)>"
        try expect(250, try await connection.send(receiver), "RCPT", isOfMessage: true)
        try expect(354, try await connection.send("DATA"), "DATA", isOfMessage: true)
        let end = try await connection.send(content: content)
        try expect(250, end, "the message", isOfMessage: true)
        connection.quit()
    }

    /// Introduces the client; returns the extensions of the server in upper case, each with its
    /// parameters.
    private func greet(_ connection: SMTPConnection) async throws -> Set<String> {
        let reply = try await connection.send("EHLO \(connection.ownName)")
        try expect(250, reply, "EHLO")
        return Set(reply.lines.dropFirst().map { $0.uppercased() })
    }

    /// Authenticates with PLAIN (RFC 4616) or LOGIN.
    private func authenticate(
        _ user: String,
        _ capabilities: Set<String>,
        _ connection: SMTPConnection
    ) async throws {
        let offered =
            capabilities.lazy.map { $0.split(separator: " ") }
            .first { $0.first == "AUTH" }?.dropFirst() ?? []
        let password = configuration.password?.reveal() ?? ""
        func encoded(_ text: String) -> String { Data(text.utf8).base64EncodedString() }
        if offered.contains("PLAIN") {
            let reply = try await connection.send("AUTH PLAIN \(encoded("\0\(user)\0\(password)"))")
            try expect(235, reply, "AUTH")
        } else if offered.contains("LOGIN") {
            try expect(334, try await connection.send("AUTH LOGIN"), "AUTH")
            try expect(334, try await connection.send(encoded(user)), "AUTH")
            try expect(235, try await connection.send(encoded(password)), "AUTH")
        } else {
            throw MailFailure(
                "The mail server offers neither AUTH PLAIN nor AUTH LOGIN. Check 'mail.smtp.user'."
            )
        }
    }

    /// Throws unless the reply has the code, or another positive one.
    ///
    /// The texts of replies are not logged, because they may name the recipient.
    private func expect(
        _ code: Int,
        _ reply: SMTPReply,
        _ step: String,
        isOfMessage: Bool = false
    ) throws(MailFailure) {
        guard reply.code == code || (code == 250 && reply.isPositive && reply.code < 300) else {
            throw MailFailure(
                "The mail server answered \(reply.code) to \(step).",
                isPermanent: isOfMessage && reply.code >= 500
            )
        }
    }

    private func context() throws -> NIOSSLContext {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let pem = configuration.trustedCertificate {
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8)))
        }
        return try NIOSSLContext(configuration: tls)
    }

    private static func reason(of error: any Error) -> String {
        switch error {
        case let failure as SMTPConnection.Failure:
            switch failure {
            case .closed: "The mail server closed the connection, or did not answer in time."
            case .malformedReply: "The mail server sent a reply that is not SMTP."
            case .unexpectedBytes: "The mail server sent a reply without a command."
            case .malformedCommand: "A command for the mail server contained a control character."
            }
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError:
            "The certificate of the mail server is not valid for 'mail.smtp.host', or TLS failed."
        default:
            "The mail server cannot be reached. Check 'mail.smtp.host' and 'mail.smtp.port'."
        }
    }
}
