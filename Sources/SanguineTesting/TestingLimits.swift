/// The limits of the test kit.
///
/// Every limit is declared here, with its unit. A test that reaches one of them probably has an
/// endless loop.
public enum TestingLimits {
    /// The number of accounts of an ``InMemoryAuthority``: 1,000; further ones are refused.
    public static let accounts = 1_000
    /// The number of an account's operations that it lists: 100,000; further ones are performed,
    /// but not listed.
    public static let operations = 100_000
    /// The number of function calls that it runs concurrently: 1,000; further ones are refused.
    public static let calls = 1_000
    /// The number of its live connections: 1,000; further ones are refused.
    public static let streams = 1_000
    /// The number of events that a ``FaultyNetwork`` lists: 1,000; the oldest are dropped first.
    public static let events = 1_000
    /// The number of copies of requests that it is delivering: 1,000; beyond that, no request is
    /// duplicated.
    public static let copies = 1_000
    /// The number of attempts to read the files of a ``TestDevice`` without an intervening write:
    /// 1,000.
    public static let readings = 1_000
    /// The duration of a wait, unless the test sets one: 20 seconds of real time.
    ///
    /// The environment variable `SANGUINE_TEST_PATIENCE` multiplies all waits, as in
    /// `SANGUINE_TEST_PATIENCE=10 swift test`, for slow machines and for sanitizers.
    public static let wait = Duration.seconds(20)
    /// The longest wait, regardless of what the test sets: 30 seconds.
    public static let longestWait = Duration.seconds(30)
}
