import SanguineModel

/// The limits and defaults of the client's balance.
///
/// One place, with units.
enum BalanceLimits {
    /// Calls whose effect is not yet in the base.
    ///
    /// One more is refused.
    static let pendingCalls = 1_000
    /// Epochs of which late answers are ignored: a server is restored seldom.
    static let formerEpochs = 8
    /// Answered calls that may wait for a base while others are in flight, before one is fetched.
    static let answeredCalls = 50
    /// Balances kept with their times, to show without a network.
    static let history = 10
    /// Functions whose cost is learned; the least recently called is forgotten first.
    static let learnedFunctions = 100
    /// Costs of a function that its next one is predicted by.
    static let learnedCalls = 32
    /// How long after a day's end, by the device's clock, an answer may still be one of that day:
    /// 5 minutes.
    ///
    /// A later one shows that the device's clock is ahead of the server's.
    static let lateAnswer = Duration.seconds(300)
    /// Daily quotas that are kept.
    static let quotas = 100
    /// Calls whose answers the app has not been given; the oldest are forgotten first.
    static let openCalls = 1_000
    /// The largest body of a call that is kept to show what was asked: 64 KiB.
    static let keptRequestBytes = 64 * 1024
    /// Of the open calls, the ones that wait for a network or are sent until they are answered.
    ///
    /// One more is refused.
    static let queuedCalls = 100
    /// How long a server keeps answers under their keys.
    static let answersKept = Duration.hours(48)
    /// How much of the time between two calls counts for that: 12 hours.
    ///
    /// The device's clock may be wrong, see ``KeptTime``; a key is forgotten so much later.
    static let countedGap = Duration.hours(12)
    /// How often a queued call is tried again while there is a network: after about 2 seconds, then
    /// twice as long each time, up to a minute.
    static var queue: RetrySchedule { settling }
    /// How long a balance counts as fresh.
    static let freshness = Duration.seconds(120)
    /// When the balance is fetched again because calls wait for it and the last fetch did not
    /// settle them: after about 2 seconds, then twice as long each time, up to a minute.
    ///
    /// As often as it takes: every call is settled in the end, at the latest by
    /// ``unansweredLifetime``.
    static var settling: RetrySchedule {
        RetrySchedule(attempts: .max, base: settlingBase, cap: settlingCap)
    }
    /// The wait before the first such fetch.
    static let settlingBase = Duration.seconds(2)
    /// The longest such wait.
    static let settlingCap = Duration.seconds(60)
    /// When one sending of a call gives up.
    ///
    /// Language models may take long.
    static let callTimeout = Duration.seconds(60)
    /// How often a call is sent at most, with the same idempotency key.
    static let callAttempts = 4
    /// How long a call asks after one that the server says is still running.
    ///
    /// Counted in its waits alone. Twice ``callTimeout``: a connection that breaks at once leaves
    /// the whole of a long call to wait for.
    static let callInquiryTime = Duration.seconds(120)
    /// The shortest wait between two such questions.
    static let inquiryWait = Duration.seconds(1)
    /// The longest that `Retry-After` may make a call wait before its next sending.
    static let longestWait = Duration.seconds(60)
    /// When a call without answer counts as ended, if the server cannot say what became of it.
    ///
    /// Its hold lasts ten minutes.
    static let unansweredLifetime = Duration.seconds(15 * 60)
}

extension Problem {
    /// A call is refused because of those that wait.
    static var tooManyCalls: Problem {
        Problem(
            .overloaded,
            """
            \(BalanceLimits.pendingCalls) calls wait for their answers, or \
            \(BalanceLimits.queuedCalls) for a network. Wait for some of them before you make more.
            """
        )
    }
}
