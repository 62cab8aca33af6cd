import Logging
import Synchronization

/// The metrics of one query, or of one of the app's operations.
///
/// Counting is one relaxed atomic addition: the numbers of a name are eventually consistent with
/// each other, but not at every moment. Durations are recorded under a mutex, once for each fetch.
///
/// Mutable state: the counters, which are atomic; `durations`, protected by its mutex. Only the end
/// of a slow fetch or operation runs foreign code, to log it. All other methods may be called under
/// any lock.
final class NamedMetrics: Sendable {
    /// The name in the summary and in events.
    let name: String

    private let hits = Atomic<Int>(0)
    private let staleHits = Atomic<Int>(0)
    private let misses = Atomic<Int>(0)
    private let fetches = Atomic<Int>(0)
    private let retries = Atomic<Int>(0)
    private let failures = Atomic<Int>(0)
    private let cancellations = Atomic<Int>(0)
    private let inFlight = Atomic<Int>(0)  // A gauge, which a reset does not change.
    private let durations = Mutex(DurationHistogram())

    private let watch: Stopwatch
    private let relay: EventRelay
    private let logger: Logger

    /// Receives the reads, if they are those of the balance.
    private let analytics: ClientAnalytics?

    init(
        name: String,
        watch: Stopwatch,
        relay: EventRelay,
        logger: Logger,
        analytics: ClientAnalytics? = nil
    ) {
        self.analytics = analytics
        self.name = name
        self.watch = watch
        self.relay = relay
        self.logger = logger
    }

    // MARK: - Reads

    /// Counts a read that got a value at once: any value from `cached`, a fresh one otherwise.
    func hit() {
        hits.wrappingAdd(1, ordering: .relaxed)
        analytics?.post(.balanceRead(isHit: true))
    }

    /// Counts a read that found a stale value and waits for a newer one.
    func staleHit() {
        staleHits.wrappingAdd(1, ordering: .relaxed)
        analytics?.post(.balanceRead(isHit: false))
    }

    /// Counts a read that found no value, and waits for one or gets none.
    func miss() {
        misses.wrappingAdd(1, ordering: .relaxed)
        analytics?.post(.balanceRead(isHit: false))
    }

    // MARK: - Fetches

    /// Counts a fetch that begins.
    func fetchBegan() -> FetchTicket {
        fetches.wrappingAdd(1, ordering: .relaxed)
        inFlight.wrappingAdd(1, ordering: .relaxed)
        relay.post(.flightBegan(name: name))
        return FetchTicket(began: watch.elapsed)
    }

    /// Counts a failed attempt that is followed by another one.
    func fetchRetried(afterAttempt attempt: Int, failedWith error: SanguineError) {
        retries.wrappingAdd(1, ordering: .relaxed)
        relay.post(.flightRetried(name: name, attempt: attempt, code: error.metricsCode))
    }

    /// Counts the end of a fetch and its number of attempts.
    ///
    /// Must be called once for each ticket, without a lock.
    func fetchEnded(_ ticket: FetchTicket, outcome: FetchOutcome, attempts: Int = 1) {
        let duration = watch.elapsed - ticket.began
        inFlight.wrappingSubtract(1, ordering: .relaxed)
        count(outcome)
        // The duration of a cancelled fetch does not show how long a fetch takes.
        if outcome != .cancelled { record(duration) }
        relay.post(
            .flightEnded(name: name, duration: duration, code: outcome.code, attempts: attempts)
        )
    }

    // MARK: - Operations of the app

    /// Runs an operation, and counts it with its duration.
    func measure<Result, Failure: Error>(
        _ operation: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let ticket = operationBegan()
        do throws(Failure) {
            let result = try operation()
            operationEnded(ticket, hasFailed: false)
            return result
        } catch {
            operationEnded(ticket, hasFailed: true)
            throw error
        }
    }

    /// Runs an asynchronous operation, and counts it with its duration.
    nonisolated(nonsending) func measure<Result, Failure: Error>(
        _ operation: () async throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        let ticket = operationBegan()
        do throws(Failure) {
            let result = try await operation()
            operationEnded(ticket, hasFailed: false)
            return result
        } catch {
            operationEnded(ticket, hasFailed: true)
            throw error
        }
    }

    /// Counts an operation that begins.
    private func operationBegan() -> FetchTicket {
        fetches.wrappingAdd(1, ordering: .relaxed)
        inFlight.wrappingAdd(1, ordering: .relaxed)
        return FetchTicket(began: watch.elapsed)
    }

    /// Counts the end of an operation.
    private func operationEnded(_ ticket: FetchTicket, hasFailed: Bool) {
        let duration = watch.elapsed - ticket.began
        inFlight.wrappingSubtract(1, ordering: .relaxed)
        if hasFailed { failures.wrappingAdd(1, ordering: .relaxed) }
        record(duration)
        relay.post(.measured(name: name, duration: duration, code: hasFailed ? "failed" : "ok"))
    }

    // MARK: - Summary

    /// The current numbers.
    var row: MetricsSummary.Row {
        let (percentiles, slow) = durations.withLock { ($0.percentiles, $0.slowCount) }
        return MetricsSummary.Row(
            name: name,
            hits: hits.load(ordering: .relaxed),
            staleHits: staleHits.load(ordering: .relaxed),
            misses: misses.load(ordering: .relaxed),
            flights: fetches.load(ordering: .relaxed),
            inFlight: inFlight.load(ordering: .relaxed),
            retries: retries.load(ordering: .relaxed),
            failures: failures.load(ordering: .relaxed),
            cancellations: cancellations.load(ordering: .relaxed),
            slow: slow,
            durations: percentiles
        )
    }

    /// Resets all numbers to 0, except those in flight.
    func reset() {
        hits.store(0, ordering: .relaxed)
        staleHits.store(0, ordering: .relaxed)
        misses.store(0, ordering: .relaxed)
        fetches.store(0, ordering: .relaxed)
        retries.store(0, ordering: .relaxed)
        failures.store(0, ordering: .relaxed)
        cancellations.store(0, ordering: .relaxed)
        durations.withLock { $0 = DurationHistogram() }
    }

    /// The size of the durations in bytes.
    var footprint: Int { durations.withLock { $0.footprint } }

    private func count(_ outcome: FetchOutcome) {
        switch outcome {
        case .completed: break
        case .failed: failures.wrappingAdd(1, ordering: .relaxed)
        case .cancelled: cancellations.wrappingAdd(1, ordering: .relaxed)
        }
    }

    private func record(_ duration: Duration) {
        durations.withLock { $0.record(duration) }
        guard duration > MetricsLimits.slow else { return }
        logger.notice(
            "An operation took over a second.",
            metadata: ["name": "\(name)", "milliseconds": "\(duration.microseconds / 1_000)"]
        )
    }
}

/// The start of a fetch, which is passed back at its end.
struct FetchTicket: Sendable {
    fileprivate let began: Duration
}

/// The outcome of a fetch.
enum FetchOutcome: Hashable, Sendable {
    case completed
    case failed(SanguineError)
    /// The last caller was cancelled.
    case cancelled

    init<Value>(_ result: Result<Value, SanguineError>) {
        switch result {
        case .success: self = .completed
        case .failure(.cancelled): self = .cancelled
        case .failure(let error): self = .failed(error)
        }
    }

    fileprivate var code: String {
        switch self {
        case .completed: "ok"
        case .failed(let error): error.metricsCode
        case .cancelled: "cancelled"
        }
    }
}

extension SanguineError {
    /// The error's code, if it has the form of one.
    ///
    /// A backend's own code could contain anything, so only short codes of the usual form are
    /// reported.
    var metricsCode: String {
        let code = code
        let isCode =
            code.utf8.count <= MetricsLimits.codeCharacters
            && code.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "_"):
                    true
                default: false
                }
            }
        return isCode ? code : "other"
    }
}
