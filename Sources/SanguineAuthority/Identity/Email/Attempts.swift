import SanguineModel

/// The times of the latest attempts of one subject, such as an address.
struct Attempts: StoredDocument, Hashable {
    static let kind = DocumentKind.attempts

    let id: String
    var times: [Timestamp]
    var expiresAt: Timestamp

    var documentID: String { id }
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { expiresAt }
}

/// A limit on the attempts of one subject in a window of time.
struct AttemptLimit: Hashable, Sendable {
    /// The maximum number of attempts in a window.
    let count: Int
    /// The window.
    let window: Duration
    /// The id of the document, which does not reveal the subject.
    let id: String

    /// The key of the document.
    var key: Key { Attempts.key(id) }

    /// Counts an attempt.
    ///
    /// An attempt is counted before its outcome is known, so that concurrent attempts cannot exceed
    /// the limit.
    ///
    /// - Throws: `rate_limited` with the time until the next one is permitted.
    func counting(_ loaded: Loaded, at now: Timestamp) throws(Problem) -> Change {
        let times = try recent(loaded, at: now)
        if times.count >= count, let first = times.first {
            throw Problem(
                .rateLimited,
                "Too many attempts were made. Try again after 'Retry-After'.",
                retryAfter: max(1, (first + window - now).secondsRoundedUp)
            )
        }
        return .put(Attempts(id: id, times: times + [now], expiresAt: now + window))
    }

    /// Removes one attempt, which succeeded; returns `nil` if none is counted.
    func forgiving(_ loaded: Loaded, at now: Timestamp) throws(Problem) -> Change? {
        var times = try recent(loaded, at: now)
        guard times.popLast() != nil else { return nil }
        return .put(Attempts(id: id, times: times, expiresAt: now + window))
    }

    private func recent(_ loaded: Loaded, at now: Timestamp) throws(Problem) -> [Timestamp] {
        // A clock that was set back must not extend a lock-out.
        try loaded.document(Attempts.self, id)?.times.filter { $0 <= now && now - $0 < window }
            ?? []
    }
}
