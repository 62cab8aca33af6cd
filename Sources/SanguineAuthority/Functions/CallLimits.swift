/// The bounds of calls of functions that no setting changes.
public enum CallLimits {
    /// Calls that ended while the storage did not take their end, and that wait for it: 1,000.
    ///
    /// A call that ends beyond that is left to the expiry of its hold, which charges what was known
    /// when its parts were last stored.
    public static let unsettled = 1_000
    /// Bytes of what is stored with the ends of these calls: 32 MiB.
    public static let unsettledBytes = 32 << 20
    /// The time that such a call waits for the storage: a day.
    public static let unsettledTime = Duration.seconds(86_400)
}
