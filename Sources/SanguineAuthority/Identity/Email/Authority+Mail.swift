package import SanguineModel

/// A part of the messages that wait to be sent.
package struct MailBatch: Sendable {
    /// The messages that are due.
    package var due: [OutgoingMail]
    /// The ids of messages that were never sent in time, or can no longer be decrypted.
    package var lost: [String]
    /// The position after which the next part begins; `nil` if there is none.
    package var next: String?
}

// The outbox of e-mails. A message stays in it until it was sent, or until it is useless.
extension Authority {
    /// Returns a part of the messages that wait to be sent, in the order of their creation.
    ///
    /// - Parameters:
    ///   - position: `next` of the previous part; `nil` for the first part.
    ///   - limit: The maximum number of messages that are read.
    /// - Returns: The messages that are due.
    /// - Throws: The problem of the storage.
    package func dueMail(
        after position: String? = nil,
        limit: Int
    ) async throws(Problem) -> MailBatch {
        let now = clock.now()
        let rows = try await read { storage throws(StorageError) in
            try await storage.documents(DocumentQuery(.mail, after: position, limit: limit))
        }
        var batch = MailBatch(due: [], lost: [], next: rows.count < limit ? nil : rows.last?.id)
        for row in rows {
            let mail = try Mail(row)
            if mail.isDecoy {
                try await mailSent(mail.id)
            } else if now >= mail.endsAt {
                batch.lost.append(mail.id)
            } else if mail.dueAt <= now {
                if let message = emailSecrets.open(mail.sealed, id: mail.id) {
                    batch.due.append(OutgoingMail(mail.id, message))
                } else {
                    batch.lost.append(mail.id)
                }
            }
        }
        return batch
    }

    /// Removes a message that was sent, or that is lost.
    package func mailSent(_ id: String) async throws(Problem) {
        try await perform(
            Command(keys: []) { _ in Decision((), changes: [.delete(Mail.key(id))]) }
        )
    }

    /// Schedules the next attempt to send a message.
    ///
    /// - Parameters:
    ///   - id: The message.
    ///   - isPermanent: Whether further attempts would fail too.
    /// - Returns: Whether there will be another attempt. If not, the message is removed.
    /// - Throws: The problem of the storage.
    package func mailFailed(_ id: String, isPermanent: Bool) async throws(Problem) -> Bool {
        let now = clock.now()
        return try await perform(
            Command(keys: [Mail.key(id)]) { loaded throws(Problem) in
                guard let mail = try loaded.document(Mail.self, id) else { return Decision(false) }
                guard !isPermanent, let next = mail.retried(at: now) else {
                    return Decision(false, changes: [.delete(mail)])
                }
                return Decision(true, changes: [.put(next)])
            }
        )
    }
}

extension OutgoingMail {
    fileprivate init(_ id: String, _ message: MailMessage) {
        self.init(
            id: id,
            to: message.to,
            subject: message.subject,
            text: message.text,
            date: message.at
        )
    }
}
