import SanguineModel

/// The limits and defaults of the client's balance, with units.
enum BalanceLimits {
    /// Calls whose effect is not yet in the base.
    ///
    /// Another call is refused.
    static let pendingCalls = 1_000
    /// Earlier epochs whose late answers are ignored: a server is rarely restored.
    static let formerEpochs = 8
    /// Answered calls that may wait for a base while others are in progress, before one is fetched.
    static let answeredCalls = 50
    /// Balances kept with their times, to be shown without a network.
    static let history = 10
    /// Functions whose cost is learned; the least recently called is forgotten first.
    static let learnedFunctions = 100
    /// Costs of a function from which the next one is predicted.
    static let learnedCalls = 32
    /// How long after a day's end, by the device's clock, an answer may still belong to that day:
    /// 5 minutes.
    ///
    /// A later one shows that the device's clock is ahead of the server's.
    static let lateAnswer = Duration.seconds(300)
    /// Daily quotas that are kept.
    static let quotas = 100
    /// Calls whose answers the app has not read; the oldest are forgotten first.
    static let openCalls = 1_000
    /// The largest request body that is kept to show the input of a call: 64 KiB.
    static let keptRequestBytes = 64 * 1024
    /// Open calls that wait for a network or are sent until they are answered.
    ///
    /// Another call is refused.
    static let queuedCalls = 100
    /// How long a server keeps answers under their keys.
    static let answersKept = Duration.hours(48)
    /// How much of the time between two calls counts towards that: 12 hours.
    ///
    /// The device's clock may be wrong, see ``RetentionTime``; a key is forgotten that much later.
    static let countedGap = Duration.hours(12)
    /// When a queued call is retried while there is a network: after about 2 seconds, then twice as
    /// long each time, up to a minute.
    static var queue: RetrySchedule { settling }
    /// How long a balance counts as fresh.
    static let freshness = Duration.seconds(120)
    /// When the balance is fetched again because the last fetch did not settle all calls: after
    /// about 2 seconds, then twice as long each time, up to a minute.
    ///
    /// Without a limit of attempts: every call is settled in the end, at the latest after
    /// ``unansweredLifetime``.
    static var settling: RetrySchedule {
        RetrySchedule(attempts: .max, base: settlingBase, cap: settlingCap)
    }
    /// The wait before the first such fetch.
    static let settlingBase = Duration.seconds(2)
    /// The longest such wait.
    static let settlingCap = Duration.seconds(60)
    /// The timeout of one request of a call.
    ///
    /// Language models may take long.
    static let callTimeout = Duration.seconds(60)
    /// The maximum number of requests for one call, all with the same idempotency key.
    static let callAttempts = 4
    /// How long a call polls the server while its first request is still running there.
    ///
    /// Only its waits count. Twice ``callTimeout``: if a connection breaks at once, the whole of a
    /// long call remains to be waited for.
    static let callInquiryTime = Duration.seconds(120)
    /// The shortest wait between two such polls.
    static let inquiryWait = Duration.seconds(1)
    /// The longest wait that `Retry-After` may impose before the next request of a call.
    static let longestWait = Duration.seconds(60)
    /// When a call without an answer counts as ended, if the server cannot say how it ended.
    ///
    /// Its hold lasts ten minutes.
    static let unansweredLifetime = Duration.seconds(15 * 60)
}

extension Problem {
    /// The problem of a call that is refused because too many others are pending.
    static var tooManyCalls: Problem {
        var problem = Problem(
            .overloaded,
            """
            \(BalanceLimits.pendingCalls) calls are running, or \(BalanceLimits.queuedCalls) are \
            waiting for a network. Let some of them end before you make more.
            """
        )
        problem.title = "There are too many calls."
        return problem
    }
}
