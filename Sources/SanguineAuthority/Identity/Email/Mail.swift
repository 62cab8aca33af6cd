public import SanguineModel

/// A message that waits to be sent by e-mail.
struct Mail: StoredDocument, Hashable {
    static let kind = DocumentKind.mail
    /// The pause after the first failed attempt; each further one doubles it.
    static let firstPause = Duration.seconds(5)
    /// The longest pause between two attempts.
    static let longestPause = Duration.seconds(300)
    /// The time for which the document outlives the message, so that its end is logged.
    static let graceAfterEnd = Duration.seconds(86_400)

    /// The id; later messages have greater ids.
    let id: String
    let account: Identifier?
    /// The encrypted message.
    let sealed: String
    /// Whether the message is stored but never sent, because no account has the address.
    ///
    /// A request for an unknown address therefore takes as long as one for a known address.
    let isDecoy: Bool
    var attempts = 0
    /// The time of the next attempt.
    var dueAt: Timestamp
    /// The time after which the message is useless.
    let endsAt: Timestamp

    var documentID: String { id }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { endsAt + Self.graceAfterEnd }

    /// Schedules the next attempt after a failed one; returns `nil` if none is left.
    func retried(at now: Timestamp) -> Mail? {
        var mail = self
        mail.attempts += 1
        let doubled = Self.firstPause * (1 << min(attempts, 8))
        mail.dueAt = now + min(doubled, Self.longestPause)
        return mail.dueAt < endsAt ? mail : nil
    }
}

/// The recipient and the text of a message.
struct MailMessage: Codable, Hashable, Sendable {
    var to: String
    var subject: String
    var text: String
    var at: Timestamp
}

/// An e-mail to send.
public struct OutgoingMail: Hashable, Sendable {
    /// The id of the message, the same for each attempt to send it.
    public var id: String
    /// The address of the recipient, in ASCII.
    public var to: String
    /// The subject.
    public var subject: String
    /// The plain text, with lines that end with a line feed.
    public var text: String
    /// The time at which the message was written.
    public var date: Timestamp

    /// Creates a message.
    public init(id: String, to: String, subject: String, text: String, date: Timestamp) {
        self.id = id
        self.to = to
        self.subject = subject
        self.text = text
        self.date = date
    }
}
