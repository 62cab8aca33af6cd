/// The limits of `sanguine load`.
enum LoadLimits {
    /// The number of users: at most 100,000.
    static let users = 1...100_000
    /// The arrivals per second: at most 10,000.
    static let rate = 0.01...10_000.0
    /// The duration of a run.
    ///
    /// Access tokens are valid for 15 minutes, and a live connection ends with its token.
    static let duration: ClosedRange<Duration> = .seconds(1) ... .seconds(600)
    /// The think time between two steps of a user.
    ///
    /// Without a pause, an open system would have an unlimited rate.
    static let think: ClosedRange<Duration> = .milliseconds(10) ... .seconds(600)
    /// The time after which a request has failed.
    static let timeout: ClosedRange<Duration> = .milliseconds(100) ... .seconds(120)
    /// The number of steps of a scenario.
    static let steps = 1...50
    /// The weight of a step.
    static let weight = 0.001...100.0
    /// The connections for requests, without the live connections.
    static let connections = 1...60_000
    /// The requests that are planned, sent or waiting at one time: 100,000.
    ///
    /// Further ones fail at once, and the run is invalid.
    static let openRequests = 100_000
    /// The bytes of a response that are kept: 1 MiB.
    ///
    /// The rest of a longer one is read and discarded.
    static let answerBytes = 1 << 20
    /// The reasons of failures that are counted separately for each step: 24.
    ///
    /// All others are counted as `other`.
    static let reasons = 24
    /// The points of a plot over time: at most 300.
    static let windows = 300
    /// The requests that are started before the connections get their turn: 256.
    static let startsAtOnce = 256
    /// The time after which an idle connection is not used again.
    ///
    /// It is shorter than the shortest sensible `limits.idleTimeout`, so that a request does not
    /// meet the end of its connection.
    static let idle: Duration = .seconds(20)
    /// The connections from one local address: 8,000.
    ///
    /// A server accepts half of its connections from one address, and a system has some 28,000
    /// ports.
    static let connectionsPerAddress = 8_000
    /// The file descriptors for everything but connections to the server: 64.
    static let otherDescriptors = 64
    /// The posts that can be created before a run: at most 100,000.
    static let posts = 0...100_000
    /// The posts of each guest that creates them before a run.
    static let postsPerGuest = 2_000
}
