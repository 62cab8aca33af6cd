/// The limits of function calls that no setting changes.
public enum CallLimits {
    /// The number of ended calls that wait for a failing storage to accept their end: 1,000.
    ///
    /// Further calls are left to the expiry of their holds, which charges by the parts that were
    /// stored last. Free calls are ended as interrupted after ``leftCallsWait``.
    public static let unsettled = 1_000
    /// The maximum total size in bytes of the changes that these calls store: 32 MiB.
    public static let unsettledBytes = 32 << 20
    /// The longest time that such a call waits for the storage, if it has a hold: a day.
    public static let unsettledTime = Duration.seconds(86_400)
    /// The time after which free calls that had no room are looked for and ended: a minute.
    ///
    /// If the storage still fails then, they are looked for again after this time.
    public static let leftCallsWait = Duration.seconds(60)
    /// The number of refused leaders after which a call that waits for a shared run leads its own
    /// run: 8.
    public static let refusedLeaders = 8
    /// The number of sent calls of a function that an account may cancel for free: 10.
    ///
    /// If the function has a larger daily quota, that number applies instead. The next call is
    /// refused with 429.
    public static let abandonedCalls = 10
    /// The time in which a full count decays to zero, one call at a time: a day.
    public static let abandonedTime = Duration.seconds(86_400)
    /// The number of pairs of account and function whose counts are remembered: 10,000.
    public static let abandoningAccounts = 10_000
    /// The number of merged guests whose running calls are found under the account: 10,000.
    ///
    /// Beyond that, the guest that was merged first is forgotten.
    public static let mergedGuests = 10_000
    /// The maximum number of mutations of records that a call makes with its end: 16.
    public static let recordMutations = 16
    /// The maximum number of records that they change: 100.
    public static let changedRecords = 100
    /// The maximum size in bytes of these records: 256 KiB.
    public static let changedBytes = 256 << 10
}
