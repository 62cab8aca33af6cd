/// The limits of the wire, which both ends know.
///
/// One place, with units.
///
/// What only one end needs stands in `ClientLimits` and `ServerSettings`.
public enum WireLimits {
    /// Bytes of a value that records are looked for by, as JSON.
    ///
    /// More than an indexed text may have.
    public static let conditionBytes = 4_096
    /// Bytes of a JSON body: 1 MiB.
    public static let bodyBytes = 1 << 20
    /// Bytes of a file that is uploaded: 25 MiB.
    public static let blobBytes = 25 << 20
    /// Pixels of an image that is uploaded: 50 million.
    public static let blobPixels = 50_000_000
    /// Characters of a device id.
    public static let deviceIdCharacters = 16...128
    /// Bytes of a device secret.
    public static let deviceSecretBytes = 32
    /// Characters of an idempotency key, all visible ASCII.
    public static let idempotencyKeyCharacters = 1...128
    /// Characters of a reason in the ledger.
    public static let reasonCharacters = 1...200
    /// The largest amount of one operation, in the balance's unit: 10¹².
    ///
    /// Nine million of them fit in 64 bits, so sums of a ledger do not overflow.
    public static let amount: Int64 = 1_000_000_000_000
    /// Seconds that a hold may last: up to a day.
    public static let holdSeconds = 1...86_400
    /// Bytes of an account's settings, as JSON.
    public static let settingsBytes = 4_096
    /// Characters of a display name.
    public static let displayNameCharacters = 1...100
    /// Items of a page when none is asked for.
    public static let defaultPage = 20
    /// Items of a page at most; more is clamped.
    public static let largestPage = 100
    /// Operations that one balance request may ask about.
    public static let operationsAsked = 100
    /// Characters of a record's id.
    public static let recordIdCharacters = 1...128
    /// Characters of a collection's name.
    public static let collectionNameCharacters = 64
    /// Characters of a record mutation's name, all visible ASCII.
    public static let mutatorNameCharacters = 1...64
    /// Printable characters of a lane's name: a record's id, and what is put before it.
    public static let laneCharacters = 1...256
    /// Indexes of a collection.
    public static let indexesPerCollection = 8
    /// Bytes of a record, as JSON: 64 KiB.
    public static let recordBytes = 1 << 16
    /// Records that one operation may read.
    public static let recordsReadPerOperation = 1_000
    /// Records that one operation may change.
    public static let recordsChangedPerOperation = 100
    /// Operations of one push.
    public static let pushedOperations = 100
    /// Changes of one pull when no number is asked for.
    public static let defaultPull = 100
    /// Changes of one pull at most; more is clamped.
    ///
    /// A pull may carry the rest of the last operation beyond it.
    public static let largestPull = 1_000
    /// How deep the values of a body may nest; in a push those of one operation.
    public static let jsonNesting = 32
    /// Values, and names of members, of a body; in a push those of one operation.
    public static let jsonValues = 2_000
    /// Bytes of a member's name.
    public static let memberNameBytes = 1_024
    /// Combining marks in a row, in a member's name and in a header: those of a stream-safe text
    /// (UAX #15).
    public static let nameMarks = 30
    /// Combining marks in a row, in any text of a body.
    public static let textMarks = 256
}
