import Logging
import Synchronization

/// The numbers of one query, or of one operation of the app's own.
///
/// Counting is one relaxed atomic addition: the numbers of a name need not agree with each other at
/// every moment, only in the end. Durations are recorded under a mutex, once for each fetch.
///
/// Mutable state: the counters, atomic; `durations`, by its mutex. Only the end of something
/// slow runs foreign code: it logs. All other calls may be made under any lock.
final class NamedMetrics: Sendable {
    /// The name, as the summary and events have it.
    let name: String

    private let hits = Atomic<Int>(0)
    private let staleHits = Atomic<Int>(0)
    private let misses = Atomic<Int>(0)
    private let flights = Atomic<Int>(0)
    private let retries = Atomic<Int>(0)
    private let failures = Atomic<Int>(0)
    private let cancellations = Atomic<Int>(0)
    private let inFlight = Atomic<Int>(0)  // A gauge: a reset leaves it alone.
    private let durations = Mutex(DurationHistogram())

    private let watch: Stopwatch
    private let relay: EventRelay
    private let logger: Logger

    init(name: String, watch: Stopwatch, relay: EventRelay, logger: Logger) {
        self.name = name
        self.watch = watch
        self.relay = relay
        self.logger = logger
    }

    // MARK: - Reads

    /// A reader got a value at once: from `cached` whatever its age, else a fresh one.
    func hit() { hits.wrappingAdd(1, ordering: .relaxed) }

    /// A reader found a value that is not fresh, and waits for a newer one.
    func staleHit() { staleHits.wrappingAdd(1, ordering: .relaxed) }

    /// A reader found no value, and waits for one or gets nothing.
    func miss() { misses.wrappingAdd(1, ordering: .relaxed) }

    // MARK: - Flights

    /// A fetch takes off.
    func flightBegan() -> FlightTicket {
        flights.wrappingAdd(1, ordering: .relaxed)
        inFlight.wrappingAdd(1, ordering: .relaxed)
        relay.post(.flightBegan(name: name))
        return FlightTicket(began: watch.elapsed)
    }

    /// An attempt failed, and another one follows.
    func flightRetried(afterAttempt attempt: Int, failedWith error: SanguineError) {
        retries.wrappingAdd(1, ordering: .relaxed)
        relay.post(.flightRetried(name: name, attempt: attempt, code: error.metricsCode))
    }

    /// The fetch ended, after so many attempts.
    ///
    /// Must be called once for each ticket, outside of all locks.
    func flightEnded(_ ticket: FlightTicket, outcome: FlightOutcome, attempts: Int = 1) {
        let duration = watch.elapsed - ticket.began
        inFlight.wrappingSubtract(1, ordering: .relaxed)
        count(outcome)
        // One that nobody waited for to the end says nothing about how long it takes.
        if outcome != .cancelled { record(duration) }
        relay.post(
            .flightEnded(name: name, duration: duration, code: outcome.code, attempts: attempts)
        )
    }

    // MARK: - Operations of the app's own

    /// An operation begins.
    func operationBegan() -> FlightTicket {
        flights.wrappingAdd(1, ordering: .relaxed)
        inFlight.wrappingAdd(1, ordering: .relaxed)
        return FlightTicket(began: watch.elapsed)
    }

    /// The operation ended.
    func operationEnded(_ ticket: FlightTicket, hasFailed: Bool) {
        let duration = watch.elapsed - ticket.began
        inFlight.wrappingSubtract(1, ordering: .relaxed)
        if hasFailed { failures.wrappingAdd(1, ordering: .relaxed) }
        record(duration)
        relay.post(.measured(name: name, duration: duration, code: hasFailed ? "failed" : "ok"))
    }

    // MARK: - Summary

    /// The numbers as they stand.
    var row: MetricsSummary.Row {
        let (percentiles, slow) = durations.withLock { ($0.percentiles, $0.slowCount) }
        return MetricsSummary.Row(
            name: name,
            hits: hits.load(ordering: .relaxed),
            staleHits: staleHits.load(ordering: .relaxed),
            misses: misses.load(ordering: .relaxed),
            flights: flights.load(ordering: .relaxed),
            inFlight: inFlight.load(ordering: .relaxed),
            retries: retries.load(ordering: .relaxed),
            failures: failures.load(ordering: .relaxed),
            cancellations: cancellations.load(ordering: .relaxed),
            slow: slow,
            durations: percentiles
        )
    }

    /// Starts again at 0; what is in flight stays counted as such.
    func reset() {
        hits.store(0, ordering: .relaxed)
        staleHits.store(0, ordering: .relaxed)
        misses.store(0, ordering: .relaxed)
        flights.store(0, ordering: .relaxed)
        retries.store(0, ordering: .relaxed)
        failures.store(0, ordering: .relaxed)
        cancellations.store(0, ordering: .relaxed)
        durations.withLock { $0 = DurationHistogram() }
    }

    /// What the durations take, in bytes.
    var footprint: Int { durations.withLock { $0.footprint } }

    private func count(_ outcome: FlightOutcome) {
        switch outcome {
        case .landed: break
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

/// What a fetch gets when it takes off, and gives back when it has ended.
struct FlightTicket: Sendable {
    fileprivate let began: Duration
}

/// How a fetch ended.
enum FlightOutcome: Hashable, Sendable {
    case landed
    case failed(SanguineError)
    /// The last one who wanted the value gave up.
    case cancelled

    init<Value>(_ result: Result<Value, SanguineError>) {
        switch result {
        case .success: self = .landed
        case .failure(.cancelled): self = .cancelled
        case .failure(let error): self = .failed(error)
        }
    }

    fileprivate var code: String {
        switch self {
        case .landed: "ok"
        case .failed(let error): error.metricsCode
        case .cancelled: "cancelled"
        }
    }
}

extension SanguineError {
    /// The error's code, if it looks like one.
    ///
    /// A backend's own code could hold anything: only what is short and has the form of a code is
    /// told.
    fileprivate var metricsCode: String {
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
