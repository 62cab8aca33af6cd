public import SanguineModel

/// The rules of an authority, with their defaults.
///
/// All durations are exact to the millisecond.
public struct AuthoritySettings: Hashable, Sendable {
    /// The unit of balances.
    ///
    /// Default: `tokens`.
    public var unit = "tokens"
    /// The amount that an account may spend per day of its calendar; `nil` for any.
    ///
    /// Spends, the amounts of open holds, and the charges of settled ones count. An administrator
    /// can set another limit for an account. Default: `nil`.
    public var spendingPerDay: Int64?
    /// The tokens that a new account receives.
    ///
    /// Default: 100.
    public var grant: Int64 = 100
    /// The time zone of accounts that specify none, as an IANA name.
    ///
    /// Default: `UTC`.
    public var defaultTimeZone = "UTC"
    /// The language of accounts that specify none, as a BCP 47 tag.
    ///
    /// Default: `en`.
    public var defaultLanguage = "en"
    /// The quotas by name.
    ///
    /// Default: 3 `readings` per day, without a limit for `premium`.
    public var quotas: [String: QuotaRule] = ["readings": 3]

    /// Whether the registration and the merge of a guest need a proof that its own device asks: the
    /// newest refresh token of its session, or a sign-in in the last ten minutes.
    ///
    /// Otherwise a stolen access token is enough to register the guest, or to merge it into another
    /// account. Clients other than Sanguine's may not send the proof. Default: false.
    public var guestsNeedProof = false

    /// The number of guests that an address may create in an hour; 0 for any.
    ///
    /// An IPv6 address counts with its /64. Known devices are not counted. Default: 1,000.
    public var guestsPerHour = 1_000

    /// The number of codes by e-mail that can be requested from a network address in an hour.
    ///
    /// Users of one company or mobile network may share an address. At least 1. Default: 30.
    public var codesPerHour = 30

    /// The app whose App Store purchases are accepted.
    ///
    /// Default: `nil`; purchases are refused.
    public var appStore: AppStoreSettings?

    /// The attestation of devices.
    ///
    /// Default: `nil`; attestations are neither required nor accepted.
    public var attestation: AttestationSettings?

    /// Whether events for analytics are stored until they are delivered.
    ///
    /// Default: no.
    public var recordsEvents = false

    /// The collections of records and their mutations.
    ///
    /// Default: `notes`, private to the owner, and `posts`, which everyone may read.
    public var schema = RecordSchema.standard
    /// The memory for lists that many accounts read, in bytes; 0 for none.
    ///
    /// Lists of collections that everyone may read are served from it until a commit changes the
    /// collection. Default: 16 MiB.
    public var listCacheBytes = 16 << 20
    /// The number of records that an account may have, without tombstones.
    ///
    /// Default: 200,000.
    public var recordsPerAccount: Int64 = 200_000
    /// The number of bytes that an account's records and files may take: their values, and
    /// ``RecordRow/overheadBytes`` for each record, tombstone and file.
    ///
    /// Operations that would exceed it are refused with `storage_full`. Operations that add
    /// nothing, such as deletions, always succeed. Default: 64 MiB.
    public var bytesPerAccount: Int64 = 64 << 20
    /// The time after which a file is removed from an account whose records do not name it; `nil`
    /// for never.
    ///
    /// It counts from the last upload. Only members that a collection declares as
    /// `RecordCollection.blobs` name files. Default: `nil`.
    public var unnamedBlobsKept: Duration?
    /// The time for which a resumable upload is kept after its last byte.
    ///
    /// An unfinished one reserves the size of its file; see ``bytesPerAccount``. Default: 24 hours.
    public var uploadsKept = Duration.seconds(24 * 3_600)
    /// The number of threads that an account may have.
    ///
    /// A call that would begin another one is refused with `storage_full`. Default: 5,000.
    public var threadsPerAccount = 5_000
    /// The number of messages that a thread may have.
    ///
    /// Further calls in the thread are refused with `storage_full`. Default: 100,000.
    public var messagesPerThread = 100_000
    /// The time for which tombstones of deleted records are kept.
    ///
    /// A device that was away for longer reads all records again. Default: 30 days.
    public var tombstonesKept = Duration.seconds(30 * 86_400)
    /// The number of tombstones that an account may have; beyond it, the oldest ones are dropped
    /// early.
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
    /// The time for which an access token is valid.
    ///
    /// Default: 15 minutes.
    public var accessTokenLife = Duration.seconds(15 * 60)
    /// The time for which a refresh token is valid; each rotation starts it again.
    ///
    /// Default: 60 days.
    public var refreshTokenLife = Duration.seconds(60 * 86_400)
    /// The time for which a rotated refresh token still receives its unused successor.
    ///
    /// Default: 60 s.
    public var rotationGrace = Duration.seconds(60)
    /// The number of concurrent sessions of an account.
    ///
    /// Another one ends the least recently opened or refreshed session. At least 1. Default: 1,024.
    public var sessionsPerAccount = 1_024

    /// The number of logins of an account: its e-mail address, and its identities at providers.
    ///
    /// Another one is refused. At least 1. Default: 20.
    public var loginsPerAccount = 20

    /// The app's name in e-mails.
    ///
    /// Default: `Sanguine`.
    public var appName = "Sanguine"
    /// The cost of hashing a new password.
    ///
    /// Default: see ``PasswordCost``.
    public var passwordCost = PasswordCost()
    /// The time for which a code that was sent by e-mail is valid.
    ///
    /// Default: 15 minutes.
    public var emailCodeLife = Duration.seconds(15 * 60)
    /// The OpenID providers whose identity tokens are accepted.
    ///
    /// Default: none.
    public var identityProviders: [IdentityProvider] = []

    /// The lifetime of a hold that specifies none.
    ///
    /// Default: 10 minutes.
    public var holdLife = Duration.seconds(600)
    /// The time for which an operation's answer is kept for repetitions.
    ///
    /// Default: 48 hours.
    public var answersKept = Duration.seconds(48 * 3_600)
    /// The time for which a settled hold is kept after its expiry time.
    ///
    /// Default: 30 days.
    public var holdsKept = Duration.seconds(30 * 86_400)

    /// The number of cached answers of functions per account; beyond it, the oldest one is removed.
    ///
    /// Default: 1,000.
    public var resultsPerAccount = 1_000
    /// The number of cached public answers of functions.
    ///
    /// Default: 10,000.
    public var publicResults = 10_000

    /// The number of guests that may be merged into one account.
    ///
    /// Each page of the account's ledger reads the entries of all of them. At least 1. Default:
    /// 100.
    public var mergedGuestsPerAccount = 100

    /// The time for which the bytes of a file without an owner are kept, which is longer than an
    /// upload takes after its last byte.
    var blobGrace: Duration { .seconds(3_600) }

    func resultsKept(isPublic: Bool) -> Int { isPublic ? publicResults : resultsPerAccount }

    /// The time for which the parts of streamed answers are kept, which is longer than for the ends
    /// of answers, as those are stored after the parts.
    var partsKept: Duration { answersKept + .seconds(2 * 3_600) }

    /// The time for which the row of an ended or expired session is kept, which is longer than the
    /// life of its access tokens.
    ///
    /// Such a token may be issued a moment after the end, with its life rounded up to seconds.
    var endedSessionsKept: Duration { accessTokenLife + .seconds(60) }

    /// Creates the defaults.
    public init() {}
}
