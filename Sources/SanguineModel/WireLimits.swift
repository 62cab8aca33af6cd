/// The limits of the wire, which client and server share.
///
/// Limits of only one side are in `ClientLimits` and `ServerSettings`.
public enum WireLimits {
    /// The largest lookup value for records, in bytes of JSON.
    ///
    /// It is larger than the limit of an indexed text.
    public static let conditionBytes = 4_096
    /// The maximum size of a JSON body, in bytes: 1 MiB.
    public static let bodyBytes = 1 << 20
    /// The largest size of an uploaded file, in bytes: 25 MiB.
    public static let blobBytes = 25 << 20
    /// The number of resumable uploads that an account may have at once.
    public static let uploadsPerAccount = 16
    /// The maximum size of the metadata of a resumable upload, in bytes: 1 KiB.
    public static let uploadMetadataBytes = 1_024
    /// The maximum number of pixels in an uploaded image: 50 million.
    public static let blobPixels = 50_000_000
    /// The sizes of scaled images, as the longer side in pixels, in ascending order.
    ///
    /// A server makes thumbnails of these sizes, and a client requests and decodes images at them.
    public static let imageSides = [
        32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096,
    ]
    /// The maximum number of accounts that a record may name as its readers.
    public static let readersPerRecord = 16
    /// The maximum number of files that one member of a record may name.
    public static let blobsPerRecord = 100
    /// The number of characters of a device id.
    public static let deviceIdCharacters = 16...128
    /// The number of characters of a device's name.
    public static let deviceNameCharacters = 1...64
    /// The number of bytes of a device secret.
    public static let deviceSecretBytes = 32
    /// The number of characters of an idempotency key, all of them visible ASCII.
    public static let idempotencyKeyCharacters = 1...128
    /// The number of characters of a reason in the ledger.
    public static let reasonCharacters = 1...200
    /// The largest amount of one operation, in the balance's unit: 10¹².
    ///
    /// Nine million such amounts fit in 64 bits, so the sums of a ledger do not overflow.
    public static let amount: Int64 = 1_000_000_000_000
    /// The number of seconds that a hold may last, up to a day.
    public static let holdSeconds = 1...86_400
    /// The maximum size of an account's settings, in bytes of JSON.
    public static let settingsBytes = 4_096
    /// The number of characters of a display name.
    public static let displayNameCharacters = 1...100
    /// The maximum number of names in a configuration of switches, see ``Switches``.
    public static let switches = 200
    /// The maximum size of a configuration of switches, in bytes of JSON: 16 KiB.
    public static let switchesBytes = 1 << 14
    /// The number of characters of the name of a switch.
    public static let switchNameCharacters = 1...128
    /// The longest freshness that a switch can set, in seconds: 30 days.
    public static let switchedFreshness = 30 * 86_400
    /// The number of seconds that a switch may allow for a request of a query.
    public static let switchedQueryTimeout = 1...60
    /// The number of seconds that a switch may allow for a request of a function.
    public static let switchedFunctionTimeout = 1...600
    /// The default number of items in a page.
    public static let defaultPage = 20
    /// The maximum number of items in a page; larger requests are clamped.
    public static let largestPage = 100
    /// The largest count of a list; longer lists have at least that many items.
    public static let countedItems = 1_000
    /// The maximum number of an account's records in a collection that names followed authors for a
    /// timeline.
    public static let followedAuthors = 1_000
    /// The maximum number of collections whose changes a live connection follows.
    public static let followedLists = 16
    /// The maximum size of the text of a search, in bytes.
    public static let searchedBytes = 128
    /// The maximum number of operations that a balance request may ask about.
    public static let operationsAsked = 100
    /// The number of characters of a record's id.
    public static let recordIdCharacters = 1...128
    /// The number of characters of a collection's name.
    public static let collectionNameCharacters = 64
    /// The number of characters of a record mutation's name, all of them visible ASCII.
    public static let mutatorNameCharacters = 1...64
    /// The number of characters of a lane's name, all of them printable: enough for a record's id
    /// and a prefix.
    public static let laneCharacters = 1...256
    /// The maximum number of indexes of a collection.
    public static let indexesPerCollection = 8
    /// The largest size of a record, in bytes of JSON: 64 KiB.
    public static let recordBytes = 1 << 16
    /// The maximum number of records that an operation may read.
    public static let recordsReadPerOperation = 1_000
    /// The maximum number of records that an operation may change.
    public static let recordsChangedPerOperation = 100
    /// The maximum number of operations in a push.
    public static let pushedOperations = 100
    /// The default number of changes in a pull.
    public static let defaultPull = 100
    /// The maximum number of changes in a pull; larger requests are clamped.
    ///
    /// A pull may exceed it to complete the last operation.
    public static let largestPull = 1_000
    /// The largest depth of nested values in a body; in a push, in one operation.
    public static let jsonNesting = 32
    /// The maximum number of values and member names in a body; in a push, in one operation.
    public static let jsonValues = 2_000
    /// The maximum number of bytes in a member's name.
    public static let memberNameBytes = 1_024
    /// The maximum number of consecutive combining marks in a member's name and in a header: that
    /// of a stream-safe text (UAX #15).
    public static let nameMarks = 30
    /// The maximum number of consecutive combining marks in any text of a body.
    public static let textMarks = 256
}
