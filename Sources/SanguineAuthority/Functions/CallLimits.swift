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
    /// Calls that a call waits for to lead a run for both, and that are refused one after the
    /// other, before it runs by itself: 8.
    public static let refusedLeaders = 8
    /// Calls of a function that an account may end at no charge after they have left: 10.
    ///
    /// If the function's quota allows more in a day, it is that. The next call is refused with 429.
    public static let abandonedCalls = 10
    /// The time in which that many such calls are forgotten, one after the other: a day.
    public static let abandonedTime = Duration.seconds(86_400)
    /// Accounts, each with a function, whose such calls are remembered: 10,000.
    public static let abandoningAccounts = 10_000
}
