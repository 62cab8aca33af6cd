/// The limits and defaults of automatic fetches, with units.
enum EventLimits {
    /// The time in the background after which the app's return counts: 5 minutes.
    static let foregroundAfter: Duration = .seconds(300)
    /// The longest sleep before the clock is checked again.
    ///
    /// This ensures that a changed clock or zone is noticed.
    static let longestSleep: Duration = .seconds(3_600)
    /// The shortest sleep, and the shortest interval of a poll.
    static let shortestSleep: Duration = .seconds(1)
    /// The longest random delay of fetches after midnight.
    ///
    /// This keeps the devices of a zone from sending their requests all at once. Shown values are
    /// stale at midnight itself.
    static let midnightSpread: Duration = .seconds(5)
    /// The shortest time between two returns of the network that count.
    ///
    /// An earlier one counts when that time has passed, if the network is still there.
    static let networkPause: Duration = .seconds(10)
    /// The largest random change of a polling interval, as a fraction of it.
    static let pollJitter = 0.1
    /// The TTL of adaptive freshness, as a fraction of the mean time between changes.
    static let adaptiveFraction = 0.25
    /// The weight of a look at a value, relative to the next one.
    static let adaptiveMemory = 0.95
    /// The number of mean times between looks after which a change no longer shows when it came.
    static let adaptiveAbsence = 4.0
    /// The names of queries that the matrix remembers; later ones are left out.
    static let matrixNames = 1_000
    /// The policies of one name that the matrix remembers.
    static let matrixPolicies = 4
}
