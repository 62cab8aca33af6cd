/// The limits of threads, which client and server share.
public enum ThreadLimits {
    /// The number of characters of a thread's title.
    public static let titleCharacters = 1...200
    /// The maximum number of characters of a thread's area.
    public static let areaCharacters = 64
    /// The maximum size of a thread's settings, in bytes of JSON.
    public static let settingsBytes = 4_096
    /// The maximum size of a message's text, in bytes of JSON; the rest is cut off.
    ///
    /// Together with ``contentBytes``, it is less than the largest record.
    public static let textBytes = 32 << 10
    /// The largest content of a message, in bytes of JSON.
    ///
    /// A larger one is not stored, nor one that is nested deeper than ``WireLimits/jsonNesting``.
    public static let contentBytes = 24 << 10
}
