/// The limits and defaults of what is fetched again by itself.
///
/// One place, with units.
enum EventLimits {
    /// How long an app must have been in the background for its return to count: 5 minutes.
    static let foregroundAfter: Duration = .seconds(300)
    /// The longest sleep before the time of day is looked at again.
    ///
    /// So that a clock or a zone that was changed meanwhile is noticed.
    static let longestSleep: Duration = .seconds(3_600)
    /// The shortest sleep, and the shortest interval of a poll.
    static let shortestSleep: Duration = .seconds(1)
    /// By how much later than midnight values are fetched again, at most and by chance.
    ///
    /// So that not all devices of a zone come at once. What is shown is known to be stale at
    /// midnight itself.
    static let midnightSpread: Duration = .seconds(5)
    /// The shortest time between two returns of the network that count.
    ///
    /// One that comes sooner counts when that time has passed, if the network is still there.
    static let networkPause: Duration = .seconds(10)
    /// By what part of itself an interval of a poll is longer or shorter, by chance.
    static let pollJitter = 0.1
    /// The TTL of adaptive freshness, as a part of the mean time between changes.
    static let adaptiveFraction = 0.25
    /// What a look at a value counts, compared with the one after it.
    static let adaptiveMemory = 0.95
    /// After how many mean times between looks a change says nothing of when it came.
    static let adaptiveAbsence = 4.0
    /// The names of queries that the matrix remembers; those seen later are left out.
    static let matrixNames = 1_000
    /// The policies of one name that the matrix remembers.
    static let matrixPolicies = 4
}
