public import SanguineAuthority

/// Sends e-mails, such as codes.
///
/// The server has two senders, for SMTP and for a folder; see ``ServerSettings/Mail-swift.struct``.
/// An app's own server can pass another one, such as the HTTP API of a provider.
public protocol MailSender: Sendable {
    /// Sends a message, or throws within a limited time.
    ///
    /// A message may be sent again with the same `id`, after a crash or a failure.
    func send(_ mail: OutgoingMail) async throws(MailFailure)
}

/// The reason why a message was not sent.
public struct MailFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// Whether further attempts would fail too.
    public var isPermanent: Bool
    /// The reason for the log, without personal data.
    public var description: String

    /// Creates a failure.
    public init(_ description: String, isPermanent: Bool = false) {
        self.description = description
        self.isPermanent = isPermanent
    }
}

/// The sender of a server without a configured one; every message fails.
struct UnconfiguredMail: MailSender {
    func send(_ mail: OutgoingMail) async throws(MailFailure) {
        throw MailFailure(
            "No mail server is configured. Set 'mail.smtp.host' or 'mail.folder'.",
            isPermanent: true
        )
    }
}
