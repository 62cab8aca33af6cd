public import SanguineModel

/// The rules of one authority, with their defaults.
///
/// All durations are exact to the millisecond.
public struct AuthoritySettings: Hashable, Sendable {
    /// What balances count.
    ///
    /// Default: `tokens`.
    public var unit = "tokens"
    /// What a new account is given.
    ///
    /// Default: 100.
    public var grant: Int64 = 100
    /// The zone of accounts that name none, as an IANA name.
    ///
    /// Default: `UTC`.
    public var defaultTimeZone = "UTC"
    /// The language of accounts that name none, as a BCP 47 tag.
    ///
    /// Default: `en`.
    public var defaultLanguage = "en"
    /// What each daily allowance allows, by its name.
    ///
    /// Default: 3 `readings`.
    public var quotas: [String: Int64] = ["readings": 3]

    /// The collections and record mutations of records.
    ///
    /// Default: `notes`, the owner's own, and `posts`, which everyone may read.
    public var schema = RecordSchema.standard
    /// How many records an account may have, without the deleted.
    ///
    /// Default: 200,000.
    public var recordsPerAccount: Int64 = 200_000
    /// How many bytes an account's records and files may take: their values, and
    /// ``RecordRow/overheadBytes`` for each record, each deleted one that is still known, and each
    /// file.
    ///
    /// Operations that would take more are refused with `storage_full`; what does not grow, above
    /// all deleting, is always possible. Default: 64 MiB.
    public var bytesPerAccount: Int64 = 64 << 20
    /// How long it is known of a record that it was deleted.
    ///
    /// A device that was away for longer reads everything anew. Default: 30 days.
    public var tombstonesKept = Duration.seconds(30 * 86_400)
    /// Of how many records of an account it is known that they were deleted; one more, and the
    /// oldest deletion is forgotten early.
    ///
    /// Default: 10,000.
    public var tombstonesPerAccount: Int64 = 10_000

    /// The `iss` of access tokens.
    ///
    /// Default: `sanguine`.
    public var issuer = "sanguine"
    /// The `aud` of access tokens.
    ///
    /// Default: `sanguine`.
    public var audience = "sanguine"
    /// How long an access token is valid.
    ///
    /// Default: 15 minutes.
    public var accessTokenLife = Duration.seconds(15 * 60)
    /// How long a refresh token is valid; each rotation begins anew.
    ///
    /// Default: 60 days.
    public var refreshTokenLife = Duration.seconds(60 * 86_400)
    /// How long a rotated refresh token is answered with its unused successor.
    ///
    /// Default: 60 s.
    public var rotationGrace = Duration.seconds(60)
    /// How many sessions of an account live at a time.
    ///
    /// One more ends the one that was opened or refreshed longest ago. At least 1. Default: 1,024.
    public var sessionsPerAccount = 1_024

    /// How long a hold lasts that does not say so itself.
    ///
    /// Default: 10 minutes.
    public var holdLife = Duration.seconds(600)
    /// How long an operation's answer is given again.
    ///
    /// Default: 48 hours.
    public var answersKept = Duration.seconds(48 * 3_600)
    /// How long a settled hold is remembered after it would have expired.
    ///
    /// Default: 30 days.
    public var holdsKept = Duration.seconds(30 * 86_400)

    /// How many answers of functions are kept for an account; one more, and the one that was made
    /// longest ago goes.
    ///
    /// Default: 1,000.
    public var resultsPerAccount = 1_000
    /// How many answers of functions are kept for everybody.
    ///
    /// Default: 10,000.
    public var publicResults = 10_000

    /// How long the bytes of a file are kept that no account has: longer than an upload can take
    /// from its last byte to its end.
    var blobGrace: Duration { .seconds(3_600) }

    func resultsKept(isPublic: Bool) -> Int { isPublic ? publicResults : resultsPerAccount }

    /// How long the parts of streamed answers are kept: longer than the answers' ends, which are
    /// stored after them.
    var partsKept: Duration { answersKept + .seconds(2 * 3_600) }

    /// How long a session's row is kept after it ended or expired: longer than any access token of
    /// it can live.
    ///
    /// Such a token may have been issued a moment after the end, its life rounded up to seconds.
    var endedSessionsKept: Duration { accessTokenLife + .seconds(60) }

    /// Creates the defaults.
    public init() {}
}
