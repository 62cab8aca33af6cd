/// The client's limits and defaults.
///
/// One place, with units.
public enum ClientLimits {
    /// One request, from sending to the last byte of the answer: 30 seconds.
    public static let requestTimeout: Duration = .seconds(30)
    /// A whole read with all its attempts and the waits between them: 60 seconds.
    public static let readTimeout: Duration = .seconds(60)
    /// A request for the balance: 8 seconds.
    public static let balanceTimeout: Duration = .seconds(8)
    /// Connections to one server at a time: 32.
    ///
    /// A call of a language model may take a minute, and a read of the balance must not wait behind
    /// a handful of them.
    public static let connectionsPerHost = 32
    /// Bytes of an answer: 8 MiB.
    public static let responseBytes = 8 << 20
    /// How long after its arrival a value may be shown, unless its policy says otherwise: 30 days.
    public static let keep: Duration = .hours(30 * 24)
    /// Bytes of values in memory: 32 MB.
    public static let memoryBytes = 32_000_000
    /// Bytes that an entry of the cache costs beside its value.
    public static let entryOverheadBytes = 256
    /// Invalidations by prefix, tag or dependency that are remembered at a time: 256.
    ///
    /// Past it they are applied to every entry in memory, which costs a walk over all of them.
    public static let invalidationMarks = 256
    /// Bytes of values on disk: 64 MB.
    ///
    /// The oldest go first.
    public static let diskBytes: Int64 = 64_000_000
    /// Bytes of one value on disk: 4 MiB.
    ///
    /// A larger one stays in memory.
    public static let diskEntryBytes = 4 << 20
    /// Values that wait to be measured and written to disk: 1,024.
    ///
    /// Past it writers wait for the disk.
    public static let unwrittenEntries = 1_024
}
