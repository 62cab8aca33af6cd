import Foundation
import SanguineAuthority

extension ServerSettings {
    /// The e-mails of the server: codes, and notices about changes of accounts.
    ///
    /// With ``smtpHost``, an SMTP server sends them. Otherwise each becomes a file in ``folder``.
    public struct Mail: Hashable, Sendable {
        /// The app's name in the messages.
        ///
        /// Default: `Sanguine`.
        public var app = "Sanguine"
        /// The address of the sender, which SMTP needs.
        ///
        /// Default: `nil`; the sender of files is ``placeholderSender``.
        public var from: String?
        /// The folder for messages without SMTP.
        ///
        /// Default: `nil`; `sanguine serve` uses the folder `mail` in its data folder.
        public var folder: String?
        /// The number of messages in the folder; beyond it, further ones wait in the database and
        /// are tried again.
        ///
        /// Default: 10,000.
        public var folderFiles = FolderMailSender.filesLimit
        /// The time after which a message is removed from the folder.
        ///
        /// Default: 7 days.
        public var folderKeep = FolderMailSender.filesKept
        /// The name or address of the SMTP server.
        ///
        /// Default: `nil`, without SMTP.
        public var smtpHost: String?
        /// The port of the SMTP server.
        ///
        /// Default: 587, for submissions (RFC 6409).
        public var smtpPort = 587
        /// The name of the user at the SMTP server.
        ///
        /// Default: `nil`, without authentication.
        public var smtpUser: String?
        /// The password of the user at the SMTP server.
        ///
        /// Default: none.
        public var smtpPassword: Secret?
        /// The use of TLS with the SMTP server: `starttls`, `tls` from the beginning, or `off`.
        ///
        /// Default: `starttls`; a server that does not offer it gets no message.
        public var smtpTLS = SMTPConfiguration.Security.starttls.rawValue

        /// The sender of files if ``from`` is `nil`.
        public static let placeholderSender = "no-reply@sanguine.invalid"

        /// Returns the sender of the messages.
        func sender(clock: any Clock<Duration>, wall: any WallClock) -> any MailSender {
            guard let from = EmailAddress(from ?? Self.placeholderSender) else {
                return UnconfiguredMail()
            }
            let format = MailFormat(from: from, name: app)
            if let smtpHost {
                return SMTPSender(
                    configuration: SMTPConfiguration(
                        host: smtpHost,
                        port: smtpPort,
                        user: smtpUser,
                        password: smtpPassword,
                        security: SMTPConfiguration.Security(rawValue: smtpTLS) ?? .starttls
                    ),
                    format: format,
                    clock: clock
                )
            }
            guard let folder else { return UnconfiguredMail() }
            return FolderMailSender(
                folder: URL(filePath: folder),
                format: format,
                limit: folderFiles,
                kept: folderKeep,
                clock: wall
            )
        }
    }
}

extension Setting {
    /// The settings of ``ServerSettings/mail``.
    static let mail = [
        Setting(
            "mail.app",
            .text(\.mail.app, characters: 1...64),
            allowed: "1 to 64 printable characters",
            isValid: { $0.isPlainText(of: 1...64) },
            "The app's name in e-mails."
        ),
        Setting(
            "mail.from",
            .optionalText(\.mail.from),
            allowed: "an address such as no-reply@example.org",
            isValid: { EmailAddress($0) != nil },
            "The sender of e-mails; required with 'mail.smtp.host'."
        ),
        Setting(
            "mail.folder",
            .optionalText(\.mail.folder),
            allowed: "the path of a folder",
            "The folder for e-mails as files, without 'mail.smtp.host'. Default: mail in the data."
        ),
        Setting(
            "mail.folderFiles",
            .integer(\.mail.folderFiles, 1...1_000_000),
            "The maximum number of e-mails in the folder; beyond it, further ones wait in the database."
        ),
        Setting(
            "mail.folderKeep",
            .duration(\.mail.folderKeep, .seconds(3_600) ... .seconds(365 * 86_400)),
            "The time after which an e-mail is removed from the folder."
        ),
        Setting(
            "mail.smtp.host",
            .optionalText(\.mail.smtpHost),
            allowed: "a name or an address without a port",
            isValid: AdminHosts.isName,
            "The SMTP server that sends the e-mails."
        ),
        Setting(
            "mail.smtp.port",
            .integer(\.mail.smtpPort, 1...65_535),
            "The port of the SMTP server."
        ),
        Setting(
            "mail.smtp.user",
            .optionalText(\.mail.smtpUser),
            "The name of the user at the SMTP server; without one, there is no authentication."
        ),
        Setting(
            "mail.smtp.password",
            .secret(\.mail.smtpPassword),
            "The password of the user at the SMTP server."
        ),
        Setting(
            "mail.smtp.tls",
            .choice(
                \.mail.smtpTLS,
                of: SMTPConfiguration.Security.allCases.map(\.rawValue)
            ),
            "The use of TLS: required after the greeting, from the beginning, or none."
        ),
    ]
}
