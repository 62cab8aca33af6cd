import SanguineModel

/// The number of guests that an address has created within an hour.
struct GuestCount: StoredDocument, Hashable {
    static let kind = DocumentKind.guestCount

    /// See ``GuestLimit/id``.
    var id: String
    /// The number of guests since ``startedAt``.
    var count: Int
    /// The creation of the first of them.
    var startedAt: Timestamp

    var documentID: String { id }
    var documentAccount: Identifier? { nil }
    var documentExpiry: Timestamp? { startedAt + GuestLimit.window }
}

/// The limit on the guests that an address may create.
///
/// It counts only accounts that are created. A device whose secret opens an account, a repeated
/// request, and a device that finds its guest by an app transaction are not counted, and are never
/// refused.
struct GuestLimit: Hashable, Sendable {
    /// The time after the first guest at which the count starts again.
    static let window = Duration.seconds(3_600)

    /// The maximum number of guests.
    let count: Int
    /// The id of the document, which does not reveal the address.
    let id: String

    /// The key of the document.
    var key: Key { GuestCount.key(id) }

    /// Counts a guest.
    ///
    /// - Throws: `rate_limited` with the time until the next one is permitted.
    func counting(_ loaded: Loaded, at now: Timestamp) throws(Problem) -> Change {
        let known = try loaded.document(GuestCount.self, id)
        // A clock that was set back must not extend the refusal.
        guard let known, known.startedAt <= now, now - known.startedAt < Self.window else {
            return .put(GuestCount(id: id, count: 1, startedAt: now))
        }
        guard known.count < count else {
            throw Problem(
                .rateLimited,
                """
                Too many new guests came from this network. Try again after 'Retry-After'; a \
                device that has an account is not affected.
                """,
                retryAfter: max(1, (known.startedAt + Self.window - now).secondsRoundedUp)
            )
        }
        return .put(GuestCount(id: id, count: known.count + 1, startedAt: known.startedAt))
    }
}
