import SanguineModel

/// The limits and defaults of the client's balance, with units.
enum BalanceLimits {
    /// The maximum number of calls whose effect may be missing in the base.
    ///
    /// Further calls are refused.
    static let pendingCalls = 1_000
    /// The number of earlier epochs whose late answers are ignored; a server is rarely restored.
    static let formerEpochs = 8
    /// The number of answered calls that may wait for a base while others are in progress, before
    /// one is fetched.
    static let answeredCalls = 50
    /// The number of balances that are kept with their times, to be shown without a network.
    static let history = 10
    /// The number of functions whose cost is learned; the least recently called is forgotten first.
    static let learnedFunctions = 100
    /// The number of a function's costs from which the next one is predicted.
    static let learnedCalls = 32
    /// The time after a day's end, according to the device's clock, for which an answer may still
    /// belong to that day: 5 minutes.
    ///
    /// An answer that is later than this shows that the device's clock is ahead of the server's.
    static let lateAnswer = Duration.seconds(300)
    /// The number of daily quotas that are kept.
    static let quotas = 100
    /// The number of calls whose answers the app has not read; the oldest are forgotten first.
    static let openCalls = 1_000
    /// The maximum size of a request body that is kept to show the input of a call: 64 KiB.
    static let keptRequestBytes = 64 * 1024
    /// The number of open calls that wait for a network or are sent until they are answered.
    ///
    /// Further calls are refused.
    static let queuedCalls = 100
    /// The time for which a server keeps answers under their keys.
    static let answersKept = Duration.hours(48)
    /// The maximum part of the time between two calls that counts towards that: 12 hours.
    ///
    /// The device's clock may be wrong, see ``RetentionTime``; as a result, a key is forgotten
    /// later.
    static let countedGap = Duration.hours(12)
    /// The schedule for retries of a queued call while there is a network: after about 2 seconds,
    /// then twice as long each time, up to a minute.
    static var queue: RetrySchedule { settling }
    /// The time for which a balance counts as fresh.
    static let freshness = Duration.seconds(120)
    /// The schedule for fetching the balance again if the last fetch did not settle all calls:
    /// after about 2 seconds, then twice as long each time, up to a minute.
    ///
    /// The number of attempts is not limited, because every call is settled in the end, at the
    /// latest after ``unansweredLifetime``.
    static var settling: RetrySchedule {
        RetrySchedule(attempts: .max, base: settlingBase, cap: settlingCap)
    }
    /// The wait before the first such fetch.
    static let settlingBase = Duration.seconds(2)
    /// The longest such wait.
    static let settlingCap = Duration.seconds(60)
    /// The timeout of one request of a call.
    ///
    /// A language model may take a long time.
    static let callTimeout = Duration.seconds(60)
    /// The maximum number of requests for one call, all with the same idempotency key.
    static let callAttempts = 4
    /// The time for which a call polls the server while its first request is still running there.
    ///
    /// Only the waits count. The limit is twice ``callTimeout``: if a connection breaks
    /// immediately, the call may still take its full time.
    static let callInquiryTime = Duration.seconds(120)
    /// The shortest wait between two such polls.
    static let inquiryWait = Duration.seconds(1)
    /// The longest wait that `Retry-After` may impose before the next request of a call.
    static let longestWait = Duration.seconds(60)
    /// The time after which a call without an answer counts as ended if the server cannot say how
    /// it ended.
    ///
    /// Its hold lasts ten minutes.
    static let unansweredLifetime = Duration.seconds(15 * 60)
}
