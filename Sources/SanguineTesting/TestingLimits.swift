/// The limits of the test kit.
///
/// One place, with units. A test that reaches one of them has a loop that does not end.
public enum TestingLimits {
    /// Accounts of an ``InMemoryAuthority``: 1,000; more are refused.
    public static let accounts = 1_000
    /// Operations of an account that it lists: 100,000; more are done, and not listed.
    public static let operations = 100_000
    /// Calls of functions that it runs at a time: 1,000; more are refused.
    public static let calls = 1_000
    /// Live connections to it: 1,000; more are refused.
    public static let streams = 1_000
    /// Events that a ``FaultyNetwork`` lists: 1,000; the oldest go first.
    public static let events = 1_000
    /// Copies of requests that are on their way in it: 1,000; beyond nothing is doubled.
    public static let copies = 1_000
    /// The number of attempts to read the files of a ``TestDevice`` without an intervening write:
    /// 1,000.
    public static let readings = 1_000
    /// How long a wait of the kit goes on, where the test does not say: 20 seconds of real time.
    ///
    /// The environment's `SANGUINE_TEST_PATIENCE` multiplies all waits, as in
    /// `SANGUINE_TEST_PATIENCE=10 swift test`: for slow machines, and for sanitizers.
    public static let wait = Duration.seconds(20)
    /// How long it goes on at most, whatever the test says: 30 seconds.
    public static let longestWait = Duration.seconds(30)
}
